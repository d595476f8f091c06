/** Looking: SQL, episodes, one episode, lineage, and whether log and tables agree. */
import type { Command } from 'commander';
import { EXIT, TroupeError } from '../../errors.ts';
import { checksum } from '../../store/checksum.ts';
import { judgeAgain } from '../../store/judge.ts';
import { waitProjected } from '../../store/positions.ts';
import { projectAll } from '../../store/projector.ts';
import { rebuild } from '../../store/rebuild.ts';
import { reconcile } from '../../store/reconcile.ts';
import { ask } from '../../store/sql.ts';
import { projectCommand, wholeNumber } from '../command.ts';
import { print, printJson, progressBar, say, table } from '../output.ts';

export function askCommands(program: Command): void {
  projectCommand(
    program
      .command('sql')
      .description('ask one read-only question in SQL over the views of schema traj')
      .argument('<query>', 'a single SELECT, VALUES or WITH')
      .option('--limit <n>', 'rows at most', wholeNumber('limit'), 10_000)
      .option('--timeout <ms>', 'milliseconds at most', wholeNumber('timeout'), 30_000)
      .addHelpText(
        'after',
        `\nExamples:\n  troupe sql "select avg(reward) from traj.episodes"\n  troupe sql "select agent, count(*) from traj.steps group by 1" --json`,
      ),
    async ({ db }, [query], flags) => {
      const answer = await ask(db, query!, { limit: Number(flags.limit), timeoutMs: Number(flags.timeout) });
      if (flags.json) printJson(answer);
      else {
        print(
          table(
            answer.columns.map((column) => column.name),
            answer.rows,
          ),
        );
        if (answer.truncated) say(`Only the first ${answer.rows.length} rows are shown; raise --limit for more.`);
      }
      return EXIT.done;
    },
  );

  projectCommand(
    program
      .command('episodes')
      .description('list episodes')
      .option('--limit <n>', 'at most so many', wholeNumber('limit'), 20)
      .option('--task <id>', 'of this task'),
    async ({ db }, _, flags) => {
      const { rows } = await db.query(
        `select episode_id, task_id, outcome, reward, agents, calls, steps, tool_calls, started_at from traj.episodes
         where $2::text is null or task_id = $2 order by started_at desc nulls last, episode_id limit $1`,
        [flags.limit, flags.task ?? null],
      );
      if (flags.json) printJson({ episodes: rows });
      else if (rows.length === 0) print('No episodes yet. Import some: troupe import FILE');
      else
        print(
          table(
            ['episode', 'task', 'outcome', 'reward', 'agents', 'calls', 'steps', 'tools'],
            rows.map((r) => [r.episode_id, r.task_id, r.outcome, r.reward, r.agents, r.calls, r.steps, r.tool_calls]),
          ),
        );
      return EXIT.done;
    },
  );

  projectCommand(
    program.command('show').description('one episode: what was said, done and judged').argument('<episode>'),
    async ({ db }, [id], flags) => {
      const episode = await db.query('select * from traj.episodes where episode_id = $1', [id]);
      if (!episode.rows[0])
        throw new TroupeError('not_found', `There is no episode ${id}.`, { hint: '`troupe episodes` lists them.' });
      const [steps, tools, messages, feedback, credits, verdicts] = await Promise.all(
        [
          'select step_id, agent, role, turn, seq, text, finish_reason, checkpoint_id, completed_at from traj.steps where episode_id = $1 order by seq, completed_at, step_id',
          'select tool_call_id, name, arguments, status, output from traj.tool_calls where episode_id = $1 order by seq, called_at',
          `select message_id, sender, role, text, seq from traj.messages where episode_id = $1 and kind = 'sent' order by seq, at`,
          'select name, kind, target_kind, target_id, value, label, explanation from traj.feedback where episode_id = $1 order by feedback_id',
          'select step_id, method, value, reason from traj.credits where episode_id = $1 order by method, step_id',
          'select step_id, method, keep, reason from traj.verdicts where episode_id = $1 order by method, step_id',
        ].map(async (sql) => (await db.query(sql, [id])).rows),
      );
      if (flags.json)
        printJson({ episode: episode.rows[0], steps, tool_calls: tools, messages, feedback, credits, verdicts });
      else {
        const e = episode.rows[0];
        print(
          `Episode ${e.episode_id} · task ${e.task_id ?? '–'} · outcome ${e.outcome ?? '–'} · reward ${e.reward ?? '–'}`,
        );
        print(
          table(
            ['seq', 'who', 'text'],
            [
              ...messages!.map((m) => [m.seq, m.sender ?? m.role, m.text]),
              ...steps!.map((s) => [s.seq, s.agent, s.text]),
            ].sort((a, b) => Number(a[0] ?? 0) - Number(b[0] ?? 0)),
          ),
        );
        if (tools!.length > 0)
          print(
            `\n${table(
              ['tool', 'arguments', 'status'],
              tools!.map((t) => [t.name, t.arguments, t.status]),
            )}`,
          );
        if (feedback!.length > 0)
          print(
            `\n${table(
              ['feedback', 'kind', 'value'],
              feedback!.map((f) => [f.name, f.kind, f.value ?? f.label]),
            )}`,
          );
        if (credits!.length > 0)
          print(
            `\n${table(
              ['step', 'credit by', 'value', 'reason'],
              credits!.map((c) => [c.step_id, c.method, c.value, c.reason]),
            )}`,
          );
      }
      return EXIT.done;
    },
  );

  projectCommand(
    program
      .command('lineage')
      .description('what trained a checkpoint, or which checkpoint spoke a step')
      .argument('<id>', 'a checkpoint, step or episode'),
    async ({ db }, [id], flags) => {
      const { rows } = await db.query(
        `select checkpoint_id, relation, dataset_id, count(distinct episode_id)::integer as episodes, count(step_id)::integer as steps, min(other_checkpoint_id) as other_checkpoint_id
         from traj.lineage where checkpoint_id = $1 or step_id = $1 or episode_id = $1 group by 1, 2, 3 order by 1, 2, 3`,
        [id],
      );
      if (flags.json) printJson({ lineage: rows });
      else if (rows.length === 0) print(`Nothing is known about ${id}.`);
      else
        print(
          table(
            ['checkpoint', 'relation', 'dataset', 'episodes', 'steps', 'other checkpoint'],
            rows.map((r) => [r.checkpoint_id, r.relation, r.dataset_id, r.episodes, r.steps, r.other_checkpoint_id]),
          ),
        );
      return EXIT.done;
    },
  );

  projectCommand(
    program.command('checksum').description('a SHA-256 for each table of facts and judgements'),
    async ({ db }, _, flags) => {
      await projectAll(db);
      const sums = await checksum(db);
      if (flags.json) printJson(sums);
      else
        print(
          table(
            ['table', 'rows', 'sha256'],
            Object.entries(sums.tables).map(([name, { rows, sha256 }]) => [name, rows, sha256]),
          ),
        );
      return EXIT.done;
    },
  );

  projectCommand(
    program.command('rebuild').description('make every table again from the log alone, beside live work, and swap'),
    async ({ db }, _, flags) => {
      const bar = progressBar('Rebuilding', { quiet: flags.quiet === true || flags.json === true });
      const began = performance.now();
      const { events } = await rebuild(db, {
        judge: judgeAgain,
        onProgress: ({ applied, total }) => bar.update(applied, Math.max(applied, total)),
      });
      bar.stop();
      const seconds = Math.round((performance.now() - began) / 100) / 10;
      if (flags.json) printJson({ events, seconds });
      else print(`${events} events applied in ${seconds} s; the tables were swapped.`);
      return EXIT.done;
    },
  );

  projectCommand(
    program.command('reconcile').description('recount from log and tables what the doors and the projector claim'),
    async ({ db }, _, flags) => {
      await projectAll(db);
      await waitProjected(db);
      const found = await reconcile(db);
      if (flags.json) printJson(found);
      else {
        print(found.ok ? 'Everything adds up.' : 'Something does not add up:');
        print(
          table(
            ['door', 'received', 'acknowledged', 'duplicates', 'rejected', 'balanced'],
            found.doors.map((d) => [d.door, d.received, d.acknowledged, d.duplicates, d.rejected, String(d.balanced)]),
          ),
        );
        print(
          `log: ${found.log.events} events, ${found.log.gaps} partitions with gaps · tables: ${found.tables.applied} applied, ${found.tables.lag} behind · ${found.dead_letters} dead letters · ${found.split_identities.length} identities under several keys`,
        );
      }
      return found.ok ? EXIT.done : EXIT.failed;
    },
  );
}
