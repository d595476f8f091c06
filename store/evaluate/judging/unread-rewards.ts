/** Rewards of steps and agents that are recorded and that no method of a judging reads, so that nobody takes the team's for theirs. */
import { countText } from '../../../errors.ts';
import type { Db } from '../../db/pool.ts';
import { anyOf, query, rowsOf, sql } from '../../db/query.ts';
import type { MethodRun } from '../methods/method.ts';
import { EARNED, NAMED_FEEDBACK } from './named-feedback.ts';

export type UnreadReward = {
  readonly target: 'step' | 'agent';
  readonly name: string;
  readonly count: number;
  /** Those of the methods that would read it if they were told its name. */
  readonly readers: readonly string[];
};

/** Counted at most: whether there are some is what matters. */
const LOOKED_AT = 100_000;

/** @param episodes only theirs; all that are recorded if left out */
export async function unreadRewards(
  db: Pick<Db, 'query'>,
  runs: readonly Pick<MethodRun, 'name' | 'params' | 'reads'>[],
  episodes?: readonly string[],
): Promise<UnreadReward[]> {
  const recorded = query
    .selectFrom('traj.feedback')
    .select(['target_kind', 'name'])
    .where('kind', '=', 'reward')
    .where('target_kind', 'in', ['step', 'agent'])
    .where('value', 'is not', null)
    .$if(episodes !== undefined, (all) => all.where('episode_id', '=', anyOf(episodes!)))
    .limit(LOOKED_AT);
  const found = await rowsOf(
    db,
    query
      .selectFrom(recorded.as('f'))
      .select(['f.target_kind as target', 'f.name'])
      .select(sql<number>`count(*)::integer`.as('count'))
      .groupBy(['f.target_kind', 'f.name'])
      .orderBy('f.target_kind', 'desc')
      .orderBy('f.name'),
  );
  const rows = found as Omit<UnreadReward, 'readers'>[];
  return rows
    .filter(({ target, name }) => !runs.some((run) => readBy(run, target).includes(name)))
    .map((row) => ({
      ...row,
      readers: runs
        .filter((run) => 'reward_name' in run.params && readersOf(row.target).has(run.name))
        .map(({ name }) => name),
    }));
}

/** Methods that read what a step, or an agent, earned by itself. */
const readersOf = (target: UnreadReward['target']): ReadonlySet<string> =>
  new Set(
    NAMED_FEEDBACK.filter((one) => one.target === target && one.name === EARNED.reward_name).flatMap(
      ({ readers }) => readers,
    ),
  );

/** The names of the feedback on such a target that a method reads. One that reads the rewards of another method reads no recorded ones. */
function readBy({ name, params, reads }: Pick<MethodRun, 'name' | 'params' | 'reads'>, target: UnreadReward['target']) {
  if (reads !== null) return [];
  return NAMED_FEEDBACK.filter((one) => one.target === target && one.readers.includes(name)).map((one) =>
    one.name === EARNED.reward_name ? String((params as Partial<typeof EARNED>).reward_name ?? one.name) : one.name,
  );
}

/** What is said of them, one sentence each. */
export const unreadText = ({ target, name, count, readers }: UnreadReward): string =>
  `${countText(count, 'reward')} of ${target}s named ${name} ${count === 1 ? 'is' : 'are'} read by no method that runs; ${(readers.length ===
  0
    ? ['drmas_advantage']
    : readers
  )
    .map((reader) => `${reader}{"reward_name":"${name}"}`)
    .join(' or ')} would read ${count === 1 ? 'it' : 'them'}.`;
