/** What a rollout has used, by the calls that are recorded of it, and whether that is more than it may use. */
import { countText } from '../../../errors.ts';
import type { Session } from '../../db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../db/query.ts';
import { type AttemptError, attemptCounts, failWaiting } from './attempts.ts';
import { below, playedIn } from './ids.ts';
import { requestedOf } from './request.ts';
import { ROLLOUT, type RolloutSpec } from './rollout.ts';

/** Of all attempts, failed ones included. */
export type Spending = {
  /** Of prompts and answers, as far as calls give them; null where no call gives any. */
  readonly tokens: number | null;
  /** Calls that ended without an error and without a number of tokens. */
  readonly uncounted: number;
  /** By the prices of the upstreams; null where no call has one. */
  readonly usd: number | null;
  /** Calls to models of others that ended without an error and without a price. */
  readonly unpriced: number;
  /** Trainings by programs that ended and reported no tokens, or no US dollars; rollouts have none. */
  readonly untold?: { readonly tokens: number; readonly usd: number };
};

const COST = sql`(usage ->> 'cost_usd')::float8`;
// An answer that a replay gave was no call of a model: it has neither tokens nor a price.
const ENDED = sql`completed_version is not null and error is null and completed_flags::jsonb @> '["given_answer"]' is not true`;

/** US dollars that the calls of an episode (its alias) cost; null where one without an error has no price, or there is none. */
export const episodeCost = (episode: string) =>
  sql<number | null>`(select case when bool_and(${COST} is not null or error is not null) then sum(${COST}) end
    from facts.calls where episode_id = ${sql.ref(`${episode}.episode_id`)})`;

/** Of rollouts. @param since RFC 3339; only calls requested from then on */
export async function spentOf(
  db: Pick<Session, 'query'>,
  rollouts: readonly string[],
  since?: string,
): Promise<Spending> {
  const row = await firstOf(
    db,
    query
      .selectFrom('facts.calls')
      .select([
        sql<
          number | null
        >`(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) filter (where coalesce(input_tokens, output_tokens) is not null))::float8`.as(
          'tokens',
        ),
        sql<number>`(count(*) filter (where ${ENDED} and (input_tokens is null or output_tokens is null)))::integer`.as(
          'uncounted',
        ),
        sql<number | null>`sum(${COST})`.as('usd'),
        sql<number>`(count(*) filter (where ${ENDED} and policy is null and ${COST} is null))::integer`.as('unpriced'),
      ])
      .where(playedIn('episode_id', ...rollouts))
      .$if(since !== undefined, (calls) => calls.where('requested_at', '>=', since!))
      .where(sql<boolean>`copied is not true`),
  );
  return row ?? { tokens: null, uncounted: 0, usd: null, unpriced: 0 };
}

/**
 * Of a job and its parts: the calls of its rollouts, and what its trainings by programs reported as `tokens` and `usd` in their metrics. A
 * program reports what it has used until then, so the greatest number counts.
 * @param since RFC 3339; only calls requested, and programs that had not ended, from then on
 */
export async function spentBelow(db: Pick<Session, 'query'>, job: string, since?: string): Promise<Spending> {
  const calls = await spentOf(db, await rolloutsBelow(db, job, since), since);
  const reported = (name: 'tokens' | 'usd') =>
    sql<
      number | null
    >`(select max(value) from facts.job_metrics m where m.job_id = jobs.job_id and m.name = ${name})::float8`.as(name);
  const programs = await rowsOf(
    db,
    query
      .selectFrom('facts.jobs')
      .select([reported('tokens'), reported('usd'), sql<boolean>`finished_at is not null`.as('ended')])
      .where(below('job_id', job))
      .where('kind', '=', 'program')
      .where('started_at', 'is not', null)
      .$if(since !== undefined, (jobs) =>
        jobs.where((one) => one.or([one('finished_at', 'is', null), one('finished_at', '>=', since!)])),
      ),
  );
  const added = (of: 'tokens' | 'usd') =>
    [calls, ...programs].reduce<number | null>((sum, one) => (one[of] === null ? sum : (sum ?? 0) + one[of]), null);
  const untold = (of: 'tokens' | 'usd') => programs.filter((one) => one.ended && one[of] === null).length;
  return {
    ...calls,
    tokens: added('tokens'),
    usd: added('usd'),
    untold: { tokens: untold('tokens'), usd: untold('usd') },
  };
}

/** The rollouts that are parts of a job, or of jobs below this id. @param since RFC 3339; only those that had not ended then */
async function rolloutsBelow(db: Pick<Session, 'query'>, job: string, since?: string): Promise<string[]> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.jobs')
      .select('job_id')
      .where(below('job_id', job))
      .where('kind', '=', ROLLOUT)
      .$if(since !== undefined, (jobs) =>
        jobs.where((one) => one.or([one('finished_at', 'is', null), one('finished_at', '>=', since!)])),
      ),
  );
  return rows.map(({ job_id }) => job_id);
}

/**
 * Why no further attempt is handed out; null while the budget lasts. A budget that cannot be measured ends too: unknown is not 0.
 * @param age seconds since the rollout was requested
 */
export function overBudget({ budget }: Pick<RolloutSpec, 'budget'>, spent: Spending, age: number): AttemptError | null {
  const over = (message: string): AttemptError => ({ code: 'budget', message });
  const { tokens, seconds, usd } = budget ?? {};
  if (seconds !== undefined && age >= seconds) return over(`The budget of ${seconds} s was used up.`);
  if (tokens !== undefined && spent.uncounted > 0)
    return over(
      `The budget of ${countText(tokens, 'token')} cannot be held: ${countText(spent.uncounted, 'call')} recorded without a count.`,
    );
  const { tokens: silent = 0, usd: free = 0 } = spent.untold ?? {};
  if (tokens !== undefined && silent > 0)
    return over(`The budget of ${countText(tokens, 'token')} cannot be held: ${untoldText(silent, 'tokens')}`);
  if (tokens !== undefined && (spent.tokens ?? 0) >= tokens)
    return over(`The budget of ${countText(tokens, 'token')} was used up: ${spent.tokens} recorded.`);
  if (usd !== undefined && spent.unpriced > 0)
    return over(
      `The budget of ${usd} USD cannot be held: ${countText(spent.unpriced, 'call')} without a price; set \`prices\` of the upstream.`,
    );
  if (usd !== undefined && free > 0) return over(`The budget of ${usd} USD cannot be held: ${untoldText(free, 'usd')}`);
  if (usd !== undefined && (spent.usd ?? 0) >= usd)
    return over(`The budget of ${usd} USD was used up: ${spent.usd} recorded.`);
  return null;
}

const untoldText = (trainings: number, field: 'tokens' | 'usd'): string =>
  `${countText(trainings, 'training')} by a program that did not write \`${field}\` to TROUPE_METRICS.`;

/** Fails what waits of a rollout whose budget is used up now. */
export async function failOverBudget(
  db: Session,
  rollout: string,
  spec: Pick<RolloutSpec, 'budget'>,
  now: Date,
): Promise<void> {
  if (spec.budget === undefined) return;
  const error = overBudget(spec, await spentOf(db, [rollout]), (await requestedOf(db, rollout)).age);
  if (error !== null) await failWaiting(db, rollout, { at: now.toISOString(), error });
}

/** Attempts under way at once before the first one is done: what one takes is not known yet. */
const AT_FIRST = 8;

/**
 * How many more attempts fit into what is left of tokens and dollars, if each takes what those that ended took on average; those under way
 * are taken off. One always fits where none is under way. Seconds are exceeded by no more than the time limit of an attempt, however many
 * run, and fewer at once would only take longer.
 * @returns infinity where neither is limited
 */
export async function roomLeft(
  db: Pick<Session, 'query'>,
  rollout: string,
  { budget: { tokens, usd } = {} }: Pick<RolloutSpec, 'budget'>,
): Promise<number> {
  if (tokens === undefined && usd === undefined) return Number.POSITIVE_INFINITY;
  const { running, done, failed } = await attemptCounts(db, rollout);
  const spent = await spentOf(db, [rollout]);
  const fits = (most: number | undefined, used: number | null): number =>
    // What takes nothing of it is not limited by it.
    most === undefined || !used ? Number.POSITIVE_INFINITY : Math.floor(((most - used) * (done + failed)) / used);
  const all = done === 0 ? AT_FIRST : Math.min(fits(tokens, spent.tokens), fits(usd, spent.usd));
  return Math.max(running === 0 ? 1 : 0, all - running);
}

/** The rollouts of a runner that have not ended and have a budget. */
export async function budgeted(
  db: Pick<Session, 'query'>,
  runner: string,
): Promise<readonly (Pick<RolloutSpec, 'budget'> & { readonly id: string })[]> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['job_id as id', sql<NonNullable<RolloutSpec['budget']>>`spec -> 'budget'`.as('budget')])
      .where('kind', '=', ROLLOUT)
      .where('state', '<>', 'finished')
      .where(sql<boolean>`spec -> 'budget' is not null and spec ->> 'runner' = ${runner}`),
  );
  return rows;
}
