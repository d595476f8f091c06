/** Whether the live episodes are still like those that the newest checkpoint was trained on. */
import type { Session } from '../../db/pool.ts';
import {
  anyOf,
  type Expression,
  firstOf,
  query,
  type RawBuilder,
  rowsOf,
  type SqlBool,
  scalarOf,
  sql,
} from '../../db/query.ts';
import { stabilityIndex, tenths } from '../../evaluate/statistics/stability.ts';
import { fieldSql } from '../../filter/filter-fields.ts';
import { MOST_LIVE } from '../../loop/comparison/live-units.ts';
import type { DriftOf } from './definition-schema.ts';

/** With `by_role` each role is compared on its own, with what it did itself in the episodes in which it acted. */
export type DriftRule = { readonly of: DriftOf; readonly by_role?: boolean; readonly above: number };

/** Episodes with a value that each side needs. At this size chance alone gives an index above 0.2 in less than 1 look of 100. */
const DRIFT_AT_LEAST = 200;

export type Drift = { readonly holds: boolean; readonly detail: string };

/** Compares the live episodes since a time with those of the newest training dataset. Nothing is changed. */
export async function driftNow(db: Session, rule: DriftRule, since: string): Promise<Drift> {
  const { of, by_role = false } = rule;
  const unknown = (why: string): Drift => ({ holds: false, detail: `no conclusion: ${why}` });
  const trained = await trainedOn(db);
  if (trained === null) return unknown('no checkpoint names the dataset that it was trained on');
  if (trained.pruned > 0)
    return unknown(
      `${trained.pruned} of the ${trained.episodes.length} episodes of dataset ${trained.datasets.join(', ')} are not in the tables; troupe restore brings back what was pruned`,
    );
  const value = by_role ? BY_ROLE[of as keyof typeof BY_ROLE] : VALUE[of];
  const reference = await valuesOf(db, value, sql<SqlBool>`e.episode_id = ${anyOf(trained.episodes)}`);
  const began = sql`coalesce(e.started_at, e.last_at)`;
  const live = await valuesOf(
    db,
    value,
    sql<SqlBool>`e.closed and e.tags ->> 'rollout' is null and ${began} >= ${since}::timestamptz`,
  );
  const roles = by_role ? [...new Set([...reference.keys(), ...live.keys()])].sort() : [ALL];
  const sides = roles.map((role) => ({ role, before: reference.get(role) ?? [], now: live.get(role) ?? [] }));
  return compared(rule, sides, `since ${since}`, `of dataset ${trained.datasets.join(', ')}`);
}

/** What a role did in the episodes of the dataset, and in the live ones. */
type Sides = { readonly role: string; readonly before: readonly Value[]; readonly now: readonly Value[] };

/** The role that drifted most decides; those with too few episodes are named. */
function compared({ of, above }: DriftRule, sides: readonly Sides[], since: string, dataset: string): Drift {
  const named = (role: string) => (role === ALL ? of : `${of} of role ${role}`);
  const sizes = ({ role, before, now }: Sides) =>
    `${now.length} live episodes ${since} and ${before.length} ${dataset} with known ${named(role)}`;
  const isSmall = ({ before, now }: Sides) => Math.min(before.length, now.length) < DRIFT_AT_LEAST;
  const tooFew = sides
    .filter(isSmall)
    .map((side) => `there are ${sizes(side)}, and ${DRIFT_AT_LEAST} of each are needed`);
  const [worst, ...others] = sides
    .filter((side) => !isSmall(side))
    .map((side) => ({ side, ...stabilityIndex(...classesOf(of, side)) }))
    .sort((a, b) => b.index - a.index);
  if (worst === undefined) return { holds: false, detail: `no conclusion: ${tooFew.join('; ') || 'no role acted'}` };
  const percent = (share: number) => `${Number((100 * share).toPrecision(3))} %`;
  const short = (index: number) => Number(index.toPrecision(3));
  return {
    holds: worst.index > above,
    detail: [
      `the stability index of ${named(worst.side.role)} is ${short(worst.index)}, and the condition is ${above}`,
      `"${worst.most.name}" went from ${percent(worst.most.before)} to ${percent(worst.most.after)}`,
      sizes(worst.side),
      ...others.map(({ side, index }) => `that of role ${side.role} is ${short(index)}`),
      ...tooFew,
    ].join('; '),
  };
}

/** Numbers become the tenth of the reference that they lie in. */
function classesOf(of: DriftOf, { before, now }: Sides) {
  const tenth = of === 'tokens' ? tenths(before.map(Number)) : null;
  const classes = (values: readonly Value[]) =>
    values.map((value) => (tenth === null ? String(value) : tenth(Number(value))));
  return [classes(before), classes(now)] as const;
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

type Value = string | number;

/** Stands for the role where an episode is compared as a whole; no role has an empty name. */
const ALL = '';

const FAMILY = sql<string | null>`(select t.domain from facts.tasks t where t.task_id = e.task_id)`;
const ROLE = sql.raw<string | null>(fieldSql('role'));
const AGENT = sql<string | null>`coalesce(c.completed_agent_id, c.requested_agent_id)`;
/** The calls of the episode `e`. */
const calls = query
  .selectFrom('facts.calls as c')
  .leftJoin('facts.agents as a', (on) => on.onRef('a.episode_id', '=', 'c.episode_id').on('a.agent_id', '=', AGENT))
  .where(sql<SqlBool>`c.episode_id = e.episode_id`)
  .where(sql<SqlBool>`c.copied is not true`);
const tools = (which: RawBuilder<unknown>) =>
  sql<string>`(select coalesce(string_agg(distinct x.name, ' + ' order by x.name), 'no tool') from facts.tool_calls x where x.episode_id = e.episode_id${which})`;

/** One row, with what is known of an episode as a whole. */
const whole = (value: RawBuilder<unknown>) =>
  query.selectNoFrom([sql<string>`${ALL}::text`.as('role'), sql<Value | null>`${value}`.as('value')]);
const VALUE: Readonly<Record<DriftOf, Expression<unknown>>> = {
  families: whole(FAMILY),
  roles: whole(sql`(${calls.select(sql`string_agg(distinct ${ROLE}, ' + ' order by ${ROLE})`.as('roles'))})`),
  tools: whole(tools(sql``)),
  tokens: whole(sql`(e.input_tokens + e.output_tokens)::float8`),
};

const generated = calls
  .select([ROLE.as('role'), AGENT.as('agent_id'), 'c.call_id'])
  .select(sql<number | null>`c.input_tokens + c.output_tokens`.as('tokens'));
/** A row for each role that acted in an episode. */
const perRole = (value: RawBuilder<unknown>) =>
  query
    .selectFrom(generated.as('d'))
    .select(['d.role', sql<Value | null>`${value}`.as('value')])
    .where('d.role', 'is not', null)
    .groupBy('d.role');
const BY_ROLE: Readonly<Record<Exclude<DriftOf, 'roles'>, Expression<unknown>>> = {
  families: perRole(FAMILY),
  tools: perRole(
    tools(
      sql` and case when x.call_id is not null then x.call_id = any(array_agg(d.call_id)) else x.agent_id = any(array_agg(d.agent_id)) end`,
    ),
  ),
  tokens: perRole(sql`case when bool_and(d.tokens is not null) then sum(d.tokens)::float8 end`),
};

/** What is known of the newest of these episodes, by role; those of which it is unknown are left out. */
async function valuesOf(
  db: Session,
  value: Expression<unknown>,
  these: ReturnType<typeof sql<SqlBool>>,
): Promise<ReadonlyMap<string, readonly Value[]>> {
  const newest = query
    .selectFrom('facts.episodes as e')
    .select(['e.episode_id', 'e.task_id', 'e.input_tokens', 'e.output_tokens'])
    .where(these)
    .orderBy('e.last_at', 'desc')
    .orderBy('e.episode_id')
    .limit(MOST_LIVE);
  const rows = await rowsOf(
    db,
    query
      .selectFrom(newest.as('e'))
      .innerJoin(sql<{ role: string; value: Value | null }>`lateral (${value})`.as('v'), (on) => on.onTrue())
      .select(['v.role', 'v.value']),
  );
  const values = new Map<string, Value[]>();
  for (const { role, value } of rows) {
    if (value === null) continue;
    const known = values.get(role);
    if (known === undefined) values.set(role, [value]);
    else known.push(value);
  }
  return values;
}
