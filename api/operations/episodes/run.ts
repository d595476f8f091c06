/** What operations on episodes do. */
import { query, type SqlBool, scalarOf, sql } from '../../../store/db/query.ts';
import { episodesMeeting, readEpisodeFilter } from '../../../store/filter/episode-filter.ts';
import { unknownValues } from '../../../store/filter/filter-check.ts';
import { tagReads } from '../../../store/filter/select.ts';
import { lag } from '../../../store/projecting/positions.ts';
import type { PageRequest } from '../lists.ts';
import type { OutputOf, ReadContext } from '../operation.ts';
import { asParameter, readFiltered, readList, withUnknown } from '../read-list.ts';

const COLUMNS = ['task_id', 'group_id', 'team_id', 'session_id', 'outcome'] as const;
const LIST = query
  .selectFrom('traj.episodes as e')
  .select(['episode_id', 'task_id'])
  .select((episode) =>
    episode
      .selectFrom('traj.tasks as t')
      .whereRef('t.task_id', '=', 'e.task_id')
      .select(sql<string | null>`left(t.query, 300)`.as('query'))
      .as('query'),
  )
  .select(['attempt', 'group_id', 'team_id', 'outcome', 'reward', 'closed', 'agents', 'calls', 'steps', 'tool_calls'])
  .select(['feedback', 'input_tokens', 'output_tokens', 'started_at', 'finished_at', 'last_at', 'stop_reason'])
  .select(['tags', 'flags']);
const ORDER = {
  columns: { started_at: 'timestamptz', episode_id: 'text', task_id: 'text' },
  id: 'episode_id',
  values: { started_at: sql`coalesce(started_at, last_at)` },
} as const;

type EpisodesInput = PageRequest & { readonly [C in (typeof COLUMNS)[number]]?: string } & {
  readonly closed?: boolean;
  readonly filter?: string;
  readonly tag?: Readonly<Record<string, string>>;
};

export async function list({ db }: ReadContext, { closed, filter, tag = {}, ...asked }: EpisodesInput) {
  let rows = LIST;
  for (const name of COLUMNS) if (asked[name] !== undefined) rows = rows.where(name, '=', asked[name]);
  if (closed !== undefined) rows = rows.where(sql<SqlBool>`coalesce(closed, false) = ${closed}`);
  for (const [key, value] of Object.entries(tag)) rows = rows.where(tagReads('tags', key, value));
  type Row = OutputOf<typeof rows.executeTakeFirstOrThrow> & { readonly episode_id: string };
  const page =
    filter === undefined
      ? await withUnknown(
          await readList<Row>(db, rows, ORDER, asked),
          [
            ...COLUMNS.map((name) => [name, asked[name]] as const),
            ...Object.entries(tag).map(([key, value]) => [`tags.${key}`, value] as const),
          ],
          (values) => unknownValues(db, values),
        )
      : await readFiltered(db, async (tx) => {
          const chosen = await asParameter(() => readEpisodeFilter(tx, filter, 'filter'));
          const met = rows.where('episode_id', 'in', episodesMeeting(chosen.filter));
          return { ...(await readList<Row>(tx, met, ORDER, asked)), warnings: chosen.warnings };
        });
  const waiting_events = await lag(db);
  const isAll = filter === undefined && closed === undefined && Object.keys(tag).length === 0;
  const none = isAll && page.total === 0 && COLUMNS.every((name) => asked[name] === undefined) ? await pruned(db) : 0;
  if (none === 0) return { ...page, waiting_events };
  const warnings = [`No episodes in the tables; ${none} were pruned, and traj.pruned says where they are.`];
  return { ...page, warnings, waiting_events };
}

const pruned = (db: ReadContext['db']) =>
  scalarOf(db, sql<number>`(select count(*)::integer from traj.pruned where episode_id is not null and not in_tables)`);
