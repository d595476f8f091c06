/** Whether the live episodes are still like those that the newest checkpoint was trained on. */
import type { Session } from '../db/pool.ts';
import { anyOf, firstOf, query, type RawBuilder, rowsOf, type SqlBool, scalarOf, sql } from '../db/query.ts';
import { MOST_LIVE } from '../gating/live-units.ts';
import { stabilityIndex, tenths } from '../statistics/stability.ts';

/** What of an episode is compared: the domain of its task, the set of tools it called, its tokens in tenths of the reference. */
export const DRIFTS = ['families', 'tools', 'tokens'] as const;
export type DriftOf = (typeof DRIFTS)[number];

/** Episodes with a value that each side needs. At this size chance alone gives an index above 0.2 in less than 1 look of 100. */
const DRIFT_AT_LEAST = 200;

export type Drift = { readonly holds: boolean; readonly detail: string };

/** Compares the live episodes since a time with those of the newest training dataset. Nothing is changed. */
export async function driftNow(
  db: Session,
  { of, above }: { readonly of: DriftOf; readonly above: number },
  since: string,
): Promise<Drift> {
  const unknown = (why: string): Drift => ({ holds: false, detail: `nothing can be said: ${why}` });
  const trained = await trainedOn(db);
  if (trained === null) return unknown('no checkpoint names the dataset that it was trained on');
  if (trained.pruned > 0)
    return unknown(
      `${trained.pruned} of the ${trained.episodes.length} episodes of dataset ${trained.datasets.join(', ')} are not in the tables; troupe restore brings back what was pruned`,
    );
  const reference = await valuesOf(db, of, sql<SqlBool>`e.episode_id = ${anyOf(trained.episodes)}`);
  const began = sql`coalesce(e.started_at, e.last_at)`;
  const live = await valuesOf(
    db,
    of,
    sql<SqlBool>`e.closed and e.tags ->> 'rollout' is null and ${began} >= ${since}::timestamptz`,
  );
  const sizes = `${live.length} live episodes since ${since} and ${reference.length} of dataset ${trained.datasets.join(', ')} with known ${of}`;
  if (Math.min(reference.length, live.length) < DRIFT_AT_LEAST)
    return unknown(`there are ${sizes}, and ${DRIFT_AT_LEAST} of each are needed`);
  const classOf = of === 'tokens' ? tenths(reference.map(Number)) : null;
  const classes = (values: readonly (string | number)[]) =>
    values.map((value) => (classOf === null ? String(value) : classOf(Number(value))));
  const { index, most } = stabilityIndex(classes(reference), classes(live));
  const percent = (share: number) => `${Number((100 * share).toPrecision(3))} %`;
  return {
    holds: index > above,
    detail: `the stability index of ${of} is ${Number(index.toPrecision(3))}, and the condition is ${above}; "${most.name}" went from ${percent(most.before)} to ${percent(most.after)}; ${sizes}`,
  };
}

/** The episodes of the datasets of the newest checkpoint that names some; `pruned` of them have no row. */
async function trainedOn(db: Session) {
  const newest = await firstOf(
    db,
    query
      .selectFrom('facts.checkpoints')
      .select(sql<string[]>`dataset_ids`.as('datasets'))
      .where(sql<SqlBool>`json_array_length(dataset_ids) > 0`)
      .orderBy('version', 'desc')
      .limit(1),
  );
  if (newest === undefined) return null;
  const { datasets } = newest;
  const rows = await rowsOf(
    db,
    query.selectFrom('facts.dataset_rows').select('episode_id').distinct().where('dataset_id', '=', anyOf(datasets)),
  );
  const episodes = rows.map(({ episode_id }) => episode_id);
  const there = await scalarOf(
    db,
    sql<number>`(select count(*)::integer from facts.episodes where episode_id = ${anyOf(episodes)})`,
  );
  return { datasets, episodes, pruned: episodes.length - Number(there) };
}

const VALUE: Readonly<Record<DriftOf, RawBuilder<string | number | null>>> = {
  families: sql`(select t.domain from facts.tasks t where t.task_id = e.task_id)`,
  tools: sql`(select coalesce(string_agg(distinct c.name, ' + ' order by c.name), 'no tool') from facts.tool_calls c where c.episode_id = e.episode_id)`,
  tokens: sql`(e.input_tokens + e.output_tokens)::float8`,
};

/** What is known of the newest of these episodes; those of which it is unknown are left out. */
async function valuesOf(
  db: Session,
  of: DriftOf,
  these: ReturnType<typeof sql<SqlBool>>,
): Promise<(string | number)[]> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes as e')
      .select(VALUE[of].as('value'))
      .where(these)
      .orderBy('e.last_at', 'desc')
      .orderBy('e.episode_id')
      .limit(MOST_LIVE),
  );
  return rows.flatMap(({ value }) => value ?? []);
}
