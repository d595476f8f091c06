/** `troupe episodes`: the newest episodes, or those that a filter names. */
import type { Command } from 'commander';
import { countText } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import { query, rowsOf, scalarOf, sql } from '../../store/db/query.ts';
import { episodesMeeting } from '../../store/filter/episode-filter.ts';
import { databaseCommand, type Flags, newest, wholeNumber } from '../command.ts';
import { shownFlags } from '../conversation.ts';
import { episodeFilter } from '../episode-filter.ts';
import { print, printJson, say, table } from '../output.ts';

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
}

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
