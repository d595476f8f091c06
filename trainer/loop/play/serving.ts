/**
 * Waits until the processes that serve policies answer with the checkpoints that were released. A team that begins before would be answered by
 * the weights of the round before, and training would compare its answers with weights that never gave them.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Type } from 'typebox';
import { TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { query, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';
import type { RolloutSpec } from '../../../store/loop/play/rollout.ts';
import { hostedModel, type Weights } from '../../../store/loop/play/weights.ts';
import { checkedSpec, type Handler, type JobContext } from '../../../store/queue/jobs/jobs.ts';
import type { ServedModel } from '../../../store/queue/jobs/processes.ts';

/** What a job of kind `serving` needs. */
const ServingSpec = Type.Object({
  /** The checkpoint that each policy was given last; null before its first release, when any is right. */
  policies: Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()])),
  /** Folder of the weights that a policy without a release begins with. `troupe up` serves it, so where that runs it is waited for. */
  bases: Type.Optional(Type.Record(Type.String(), Type.String())),
  within_s: Type.Number({ exclusiveMinimum: 0 }),
});

export type ServingResult = {
  /** What each policy is answered with; null where no process serves it and nothing was released. */
  readonly policies: Readonly<Record<string, string | null>>;
  readonly seconds: number;
};

/** Between two looks: soon at first, for a process that follows loads small weights at once. */
const LOOK_MS = { least: 10, most: 250 };

/** @returns handler of kind `serving`, whose result is a `ServingResult`. It fails with `training_failed` once the time is over. */
export function servingHandler({ db }: JobContext, { signal }: { readonly signal: AbortSignal }): Handler {
  return async (job, _report, fenced): Promise<ServingResult> => {
    const { policies, bases = {}, within_s } = checkedSpec(ServingSpec, job.spec);
    const began = performance.now();
    const seconds = () => (performance.now() - began) / 1000;
    const stopped = AbortSignal.any([signal, fenced]);
    const found: Record<string, string | null> = {};
    for (const [policy, wanted] of Object.entries(policies)) {
      for (let look = LOOK_MS.least; ; look = Math.min(LOOK_MS.most, 2 * look)) {
        const served = await servedNow(db, policy);
        found[policy] = served[0] ?? null;
        const comes = async () => bases[policy] !== undefined && (await isUp(db));
        if (wanted === null ? served.length > 0 || !(await comes()) : isAll(served, wanted)) break;
        if (seconds() > within_s)
          throw wanted === null
            ? baseNotServed(policy, bases[policy]!, within_s)
            : notServed(policy, { wanted, served, within_s });
        await pause(look, stopped);
      }
    }
    return { policies: found, seconds: seconds() };
  };
}

const isAll = (served: readonly string[], wanted: string): boolean =>
  served.length > 0 && served.every((checkpoint) => checkpoint === wanted);

/** What `troupe up` should serve for rounds that wait: the bases of policies that were never released and that no process serves. */
export async function basesWanted(db: Pick<Db, 'query'>): Promise<Readonly<Record<string, string>>> {
  const waiting = query
    .selectFrom('troupe.job_queue')
    .select(sql<Readonly<Record<string, string>> | null>`spec -> 'bases'`.as('bases'))
    .where('kind', '=', 'serving')
    .where('state', '<>', 'finished');
  const wanted: Record<string, string> = {};
  for (const { bases } of await rowsOf(db, waiting))
    for (const [policy, base] of Object.entries(bases ?? {}))
      if ((await servedNow(db, policy)).length === 0) wanted[policy] ??= base;
  return wanted;
}

/** The same for rollouts and canaries that have weights of their own: those of a policy that no process was started for. A gate plays its incumbent first. */
export async function weightsWanted(db: Pick<Db, 'query'>): Promise<Readonly<Record<string, string>>> {
  const waiting = query
    .selectFrom('troupe.job_queue')
    .select(sql<Readonly<Record<string, Weights>> | null>`spec -> 'weights'`.as('weights'))
    .where('state', '<>', 'finished')
    .where(sql<SqlBool>`(kind = 'rollout' and spec -> 'awaits' is not null or kind = 'canary')`)
    .orderBy('requested_at');
  const wanted: Record<string, string> = {};
  for (const { weights } of await rowsOf(db, waiting))
    for (const [policy, { checkpoint_id, directory }] of Object.entries(weights ?? {}))
      if (hostedModel(checkpoint_id) === null && (await processesOf(db, policy)).length === 0)
        wanted[policy] ??= directory;
  return wanted;
}

/** Whether `troupe up` runs somewhere on this project. */
async function isUp(db: Pick<Db, 'query'>): Promise<boolean> {
  const running = query
    .selectFrom('troupe.processes')
    .select('process_id')
    .where('role', '=', 'up')
    .where(BEATS)
    .limit(1);
  return (await rowsOf(db, running)).length > 0;
}

/** A process that beat so lately runs. */
const BEATS = sql<boolean>`heartbeat_at > clock_timestamp() - interval '15 seconds'`;

/**
 * Waits until the policies of a rollout can be answered with its weights, whichever they serve.
 * @throws TroupeError `training_failed` once the time is over, `interrupted`
 */
export async function untilLoaded(
  db: Pick<Db, 'query'>,
  { weights = {}, awaits }: Pick<RolloutSpec, 'weights' | 'awaits'>,
  signal: AbortSignal,
): Promise<void> {
  if (awaits === undefined) return;
  const { policies, within_s } = awaits;
  const until = performance.now() + within_s * 1000;
  for (const policy of policies) {
    const wanted = weights[policy]?.checkpoint_id;
    if (wanted === undefined || hostedModel(wanted) !== null) continue;
    for (let look = LOOK_MS.least; ; look = Math.min(LOOK_MS.most, 2 * look)) {
      if ((await modelsNow(db, policy)).some(({ checkpoint }) => checkpoint === wanted)) break;
      if (performance.now() > until) throw notLoaded(policy, wanted, within_s);
      await pause(look, signal);
    }
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal }).catch(() => {
    throw new TroupeError('interrupted', 'The process was stopped; whoever takes the job looks again.');
  });

const notLoaded = (policy: string, wanted: string, within_s: number): TroupeError =>
  new TroupeError(
    'training_failed',
    `The episodes should be answered by ${wanted} for ${policy}, but after ${within_s} s no process has it loaded. Start \`troupe up\`, or \`troupe run infer --policy ${policy}\`, before its first release with --model DIR; serving_within_s of the rollout or the gate is how long a plan waits.`,
    { expected: wanted, got: 'none' },
  );

const baseNotServed = (policy: string, base: string, within_s: number): TroupeError =>
  new TroupeError(
    'training_failed',
    `Policy ${policy} has no release yet, and after ${within_s} s no process serves its base ${base}. \`troupe up\` tries to: its messages and run/infer.log say what stops it. rollout.serving_within_s is how long a plan waits.`,
    { expected: base, got: 'none' },
  );

function notServed(
  policy: string,
  {
    wanted,
    served,
    within_s,
  }: { readonly wanted: string; readonly served: readonly string[]; readonly within_s: number },
): TroupeError {
  const now = served.length === 0 ? 'no process serves it' : `it is answered by ${[...new Set(served)].join(' and ')}`;
  return new TroupeError(
    // Not `unreachable`, which the queue would try again: all the time that the plan gives was waited.
    'training_failed',
    `Policy ${policy} should be answered by ${wanted}, which was released last, but after ${within_s} s ${now}. A rollout now would play with other weights than those that training begins with. Start \`troupe up\` or \`troupe run infer --policy ${policy}\`, which follow releases; rollout.serving_within_s is how long a plan waits.`,
    { expected: wanted, got: served.join(', ') || 'none' },
  );
}

/** The checkpoints that the processes for a policy answer with, as they report it, the newest process first. */
export async function servedNow(db: Pick<Db, 'query'>, policy: string): Promise<string[]> {
  const models = await modelsNow(db, policy);
  return models.filter(({ name }) => name === policy).map(({ checkpoint }) => checkpoint);
}

/** All models that the processes for a policy have loaded, those of the newest process first. */
const modelsNow = async (db: Pick<Db, 'query'>, policy: string): Promise<readonly ServedModel[]> =>
  (await processesOf(db, policy)).flatMap(({ models }) => models);

const processesOf = (db: Pick<Db, 'query'>, policy: string) =>
  rowsOf(
    db,
    query
      .selectFrom('troupe.processes')
      .select(sql<readonly ServedModel[]>`models`.as('models'))
      .where('role', '=', 'infer')
      .where('policy', '=', policy)
      .where('models', 'is not', null)
      .where(BEATS)
      .orderBy('started_at', 'desc')
      .orderBy('process_id'),
  );
