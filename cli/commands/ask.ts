/** Looking: episodes, one episode, lineage, and whether log and tables agree. */
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import type { Command } from 'commander';
import type { Config } from '../../config.ts';
import { countText, EXIT, TroupeError } from '../../errors.ts';
import { homeAt } from '../../store/db/home.ts';
import type { Db } from '../../store/db/pool.ts';
import { firstOf, query, rowsOf, scalarOf, sql } from '../../store/db/query.ts';
import { episodesMeeting } from '../../store/episode-filter.ts';
import type { EpisodePage } from '../../store/episodes/read-page.ts';
import { archivePlaces } from '../archive-places.ts';
import { databaseCommand, type Flags, newest, projectCommand, untilInterrupted, wholeNumber } from '../command.ts';
import { entryText, heading, judgementTables, shownFlags } from '../conversation.ts';
import { episodeFilter } from '../episode-filter.ts';
import { print, printJson, progressBar, say, table } from '../output.ts';
import { writePagesAsOne } from '../pages-as-one.ts';

/** Why a list of episodes is empty. */
async function noneText(db: Db, { task, where }: Flags): Promise<string> {
  if (where !== undefined) return 'There is no such episode.';
  if (task !== undefined) return `There is no episode of task ${task}.`;
  const pruned = await scalarOf(
    db,
    sql<number>`(select count(*)::integer from traj.pruned where episode_id is not null and not in_tables)`,
  );
  return pruned === 0
    ? 'No episodes yet. Import some: troupe import FILE'
    : `No episodes in the tables; ${pruned} were pruned, and traj.pruned says where they are.`;
}

export function addTo(program: Command): void {
  databaseCommand(
    program
      .command('episodes')
      .option('--limit <n>', 'maximum number of rows', wholeNumber('limit'), 20)
      .option('--task <id>', 'only episodes of this task')
      .option('--where <filter>', 'only these episodes: a filter as in a recipe')
      .addHelpText(
        'after',
        `\nExamples:\n  troupe episodes --limit 5\n  troupe episodes --task maths-17 --json\n  troupe episodes --where 'reward >= 0.5 and count(tool_calls where error) = 0'`,
      ),
    async ({ db }, _, flags) => {
      const chosen = flags.where === undefined ? null : await episodeFilter(db, String(flags.where), '--where');
      const read = await rowsOf(
        db,
        query
          .selectFrom('traj.episodes')
          .select(['episode_id', 'task_id', 'outcome', 'reward', 'agents', 'calls', 'steps', 'tool_calls'])
          .select(['started_at', 'flags'])
          .$if(flags.task !== undefined, (all) => all.where('task_id', '=', String(flags.task)))
          .$if(chosen !== null, (all) => all.where('episode_id', 'in', episodesMeeting(chosen!)))
          .orderBy('started_at', (order) => order.desc().nullsLast())
          .orderBy('episode_id')
          .limit((flags.limit as number) + 1),
      );
      const { rows, truncated } = newest(read, flags, 'episode');
      const { lag } = await import('../../store/projecting/positions.ts');
      const waiting_events = await lag(db);
      if (flags.json) printJson({ episodes: rows, truncated, waiting_events });
      else if (read.length === 0 && waiting_events === 0) print(await noneText(db, flags));
      else if (rows.length > 0) {
        const shown = rows.map((row) => shownFlags(row).join(', '));
        const hasFlags = shown.some((text) => text !== '');
        const heads = ['episode', 'task', 'outcome', 'reward', 'agents', 'calls', 'steps', 'tools'];
        const cells = (r: (typeof rows)[number]) => [
          ...[r.episode_id, r.task_id, r.outcome, r.reward, r.agents, r.calls, r.steps, r.tool_calls],
        ];
        print(
          hasFlags
            ? table(
                [...heads, 'flags'],
                rows.map((row, i) => [...cells(row), shown[i]!]),
              )
            : table(heads, rows.map(cells)),
        );
      }
      if (waiting_events > 0)
        say(
          `In the log and not in the tables yet: ${countText(waiting_events, 'event')}. If no projector is running (troupe up), a command was interrupted: rerun it.`,
        );
    },
  );

  databaseCommand(
    program
      .command('show')
      .argument('<episode>')
      .option('--full', 'print texts in full')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe show run-1\n  troupe show run-1 --full | less\n  troupe show run-1 --json',
      ),
    async ({ db, config }, [id], flags) => {
      const { readEpisodePage } = await import('../../store/episodes/read-page.ts');
      const first = await readEpisodePage(db, id!);
      if (!first) throw await noEpisode(db, id!);
      const pages = async function* (): AsyncGenerator<EpisodePage> {
        yield first;
        for (let next = first.next; next !== null; ) {
          const page = await readEpisodePage(db, id!, { after: next });
          if (!page) return;
          yield page;
          next = page.next;
        }
      };
      const truncated = await (flags.json
        ? writePagesAsOne(pages(), folderToWaitIn(config), (text) => process.stdout.write(text))
        : printPages(first, pages(), flags.full === true));
      if (truncated.length > 0)
        say(`Only the beginning of ${truncated.join(', ')} is here; troupe sql reads the rest.`);
    },
  );

  databaseCommand(
    program
      .command('lineage')
      .argument('<id>', 'an episode, step, dataset, row of a dataset (DATASET/SPLIT/ROW) or checkpoint')
      .option('--depth <n>', 'number of relations to follow in each direction', wholeNumber('depth'), 2)
      .addHelpText(
        'after',
        `
Two trees: what it comes from, and what was made of it. At most 20 things below one and 500 in a tree are listed, the nearest
first, each followed once; a line marks what is left out. --json prints the same trees.

Examples:
  troupe lineage ab12cd34ef56ab78
  troupe lineage run-1
  troupe lineage run-1-c2/0 --depth 3
  troupe lineage 90b3dbb907620061/train/17`,
      ),
    async ({ db }, [id], flags) => {
      const rows = await rowsOf(
        db,
        query
          .selectFrom('traj.lineage')
          .select(['checkpoint_id', 'relation', 'dataset_id'])
          .select([
            sql<number>`count(distinct episode_id)::integer`.as('episodes'),
            sql<number>`count(step_id)::integer`.as('steps'),
            sql<string | null>`min(other_checkpoint_id)`.as('other_checkpoint_id'),
          ])
          .where((row) =>
            row.or([row('checkpoint_id', '=', id!), row('step_id', '=', id!), row('episode_id', '=', id!)]),
          )
          .groupBy(['checkpoint_id', 'relation', 'dataset_id'])
          .orderBy('checkpoint_id')
          .orderBy('relation')
          .orderBy('dataset_id'),
      );
      const used = query
        .selectFrom('traj.lineage')
        .select('episode_id')
        .where((row) => row.or([row('checkpoint_id', '=', id!), row('step_id', '=', id!)]));
      const frozen = query.selectFrom('traj.dataset_rows').select('episode_id').where('dataset_id', '=', id!);
      const pruned = await rowsOf(
        db,
        query
          .selectFrom('traj.pruned')
          .select(['archive_id', 'uri', sql<number>`count(*)::integer`.as('episodes')])
          .select([
            sql<string | null>`min(episode_id)`.as('first_episode_id'),
            sql<string | null>`max(pruned_at)::text`.as('pruned_at'),
          ])
          .where((row) =>
            row.or([row('episode_id', '=', id!), row('episode_id', 'in', used), row('episode_id', 'in', frozen)]),
          )
          .groupBy(['archive_id', 'uri'])
          .orderBy('archive_id'),
      );
      const depth = flags.depth as number;
      if (depth < 1 || depth > 10) throw new TroupeError('usage', `--depth should be from 1 to 10; it is ${depth}.`);
      const { lineageOf } = await import('../../store/lineage.ts');
      const found = await db.transaction((tx) => lineageOf(tx, id!, depth), {
        isolation: 'repeatable read',
        readOnly: true,
      });
      if (found.length + pruned.length === 0)
        throw new TroupeError('not_found', `Nothing is known about ${id}.`, {
          hint: 'It should be the id of an episode, step, dataset, row of a dataset (DATASET/SPLIT/ROW) or checkpoint.',
        });
      if (flags.json) printJson({ lineage: rows, pruned, found });
      else if (found.length > 0) {
        const { lineageTree } = await import('../lineage-tree.ts');
        print(found.map(lineageTree).join('\n\n'));
      }
      if (!flags.json)
        for (const { uri, episodes, first_episode_id: first } of pruned)
          print(
            `${episodes === 1 ? `Episode ${first} was` : `${episodes} of these episodes were`} pruned into ${uri}.`,
          );
    },
  );

  projectCommand(
    program
      .command('checksum')
      .addHelpText(
        'after',
        '\nThe same facts have the same sums, in whatever order and in however many parts they came.\n\nExample:\n  troupe checksum --json',
      ),
    async ({ db, catchUp, patiently }, _, flags) => {
      await catchUp();
      const { checksum } = await import('../../store/rebuilding/checksum.ts');
      const sums = await patiently(() => checksum(db));
      if (flags.json) printJson(sums);
      else
        print(
          table(
            ['table', 'rows', 'sha256'],
            Object.entries(sums.tables).map(([name, { rows, sha256 }]) => [name, rows, sha256]),
          ),
        );
    },
  );

  projectCommand(
    program
      .command('rebuild')
      .option(
        '--archived',
        'show in the tables what was pruned too: its events are read in their archives, and stay there',
      )
      .addHelpText(
        'after',
        `
Judgements are recomputed from the requests in the log. Readers see the old tables until the swap. What was pruned stays out of the
tables, unless they show it since a rebuild with --archived; then each rebuild reads its archives again, until a prune takes it out.

Examples:
  troupe rebuild
  troupe rebuild --archived`,
      ),
    async ({ db, patiently }, _, flags) => {
      const bar = progressBar('Rebuilding', { quiet: flags.quiet === true || flags.json === true });
      const began = performance.now();
      const signal = untilInterrupted();
      const { judgeAgain, lapsedMethods } = await import('../../store/judging/judge.ts');
      const { rebuild } = await import('../../store/rebuilding/rebuild.ts');
      const done = await patiently(() =>
        rebuild(db, {
          judge: judgeAgain,
          archived: flags.archived === true,
          places: archivePlaces,
          signal,
          onProgress: ({ applied, total }) => bar.update(applied, Math.max(applied, total)),
        }),
      ).finally(bar.stop);
      const not_judged = await patiently(() => lapsedMethods(db));
      const seconds = Math.round((performance.now() - began) / 100) / 10;
      if (flags.json) printJson({ ...done, not_judged, seconds });
      else {
        const from = done.archived > 0 ? `, ${done.archived} of them from archives` : '';
        print(`${countText(done.events, 'event')} applied in ${seconds} s${from}; the tables were swapped.`);
        if (done.left_out > 0)
          print(
            `Not in the tables: ${countText(done.left_out, 'pruned event')}; \`troupe rebuild --archived\` shows them.`,
          );
        for (const { name, version, known } of not_judged)
          print(
            `Not in the tables: results of ${name} in version ${version}. This Troupe ${
              known === null ? 'has no such method.' : `has version ${known}: \`troupe judge --methods ${name}\`.`
            }`,
          );
      }
    },
  );

  projectCommand(
    program
      .command('reconcile')
      .addHelpText(
        'after',
        '\nreceived = acknowledged + rejected; what is in the log is in the tables or counted. It ends with 1 where that is not so. Feedback on steps that do not exist is counted\nand does not make it end with 1; `select * from traj.feedback where no_such_step` lists it.\n\nExample:\n  troupe reconcile --json',
      ),
    async ({ db, source, catchUp }, _, flags) => {
      await catchUp();
      const { reconcile } = await import('../../store/log/reconcile.ts');
      const found = await reconcile(db, source ? { name: source.name, ...(await source.facts()) } : undefined);
      if (flags.json) printJson(found);
      else {
        print(found.ok ? 'Everything adds up.' : 'Something does not add up:');
        print(
          table(
            ['door', 'received', 'acknowledged', 'duplicates', 'rejected', 'balanced'],
            found.doors.map((d) => [d.door, d.received, d.acknowledged, d.duplicates, d.rejected, String(d.balanced)]),
          ),
        );
        for (const { log, partition, accepted, duplicates, dead, lag: behind } of found.topics) {
          print(
            `${log} ${partition}: ${accepted} accepted, ${duplicates} duplicates, ${dead} dead, ${behind ?? '?'} behind`,
          );
        }
        print(
          `log: ${found.log.events} events, ${found.log.pruned} pruned, ${found.log.gaps} partitions with gaps · tables: ${found.tables.applied} applied, ${found.tables.lag} behind · ${found.dead_letters} dead letters · ${found.split_identities.length} identities under several keys · ${found.feedback_without_step} feedback on steps that do not exist${Object.entries(
            found.orphans,
          )
            .map(([name, rows]) => ` · ${rows} without an event: ${name}`)
            .join('')}`,
        );
      }
      return found.ok ? EXIT.done : EXIT.failed;
    },
  );
}

/** Beside a server of its own there need be no home. */
function folderToWaitIn({ home }: Config): string {
  const { run } = homeAt(home);
  return existsSync(run) ? run : tmpdir();
}

/** As sentences, one page held at a time. Answers with the lists that were cut. */
async function printPages(
  first: EpisodePage,
  pages: AsyncIterable<EpisodePage>,
  full: boolean,
): Promise<readonly string[]> {
  const { joinPages } = await import('../../store/episodes/read-page.ts');
  const held: EpisodePage[] = [];
  print(heading(first));
  for await (const page of pages) {
    for (const entry of page.conversation) print(`\n${entryText(entry, { full })}`);
    // What was printed is not held: texts of a long episode are most of its memory.
    held.push({ ...page, conversation: [], steps: [], tool_calls: [] });
  }
  const whole = joinPages(held);
  for (const one of judgementTables(whole)) print(`\n${one}`);
  return whole.truncated;
}

async function noEpisode(db: Db, id: string): Promise<TroupeError> {
  const pruned = await firstOf(db, query.selectFrom('traj.pruned').select('uri').where('episode_id', '=', id));
  if (!pruned)
    return new TroupeError('not_found', `There is no episode ${id}.`, { hint: '`troupe episodes` lists them.' });
  return new TroupeError('not_found', `Episode ${id} was pruned into ${pruned.uri}.`, {
    hint: `\`troupe prune --restore ${pruned.uri}\` brings it back; \`troupe rebuild --archived\` shows it while it stays there.`,
  });
}
