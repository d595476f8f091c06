/**
 * Runs methods over episodes and whole groups, and writes their results: verdicts, scores, rewards, credits, each with method,
 * version, parameters and reason, side by side. It can be run again at any time: rows of the same method and parameters are replaced.
 * The event judge.completed records which methods ran over which positions, so that a rebuild recomputes every row.
 */
import { TroupeError } from '../../../errors.ts';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { hashId } from '../../../ingest/events/json.ts';
import { KEYED } from '../../../ingest/log/keyed.ts';
import type { EventLog } from '../../../ingest/log/log.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import type { Patiently } from '../../db/patience.ts';
import type { Db, Session } from '../../db/pool.ts';
import { facts, firstOf, query, rowsOf, sql } from '../../db/query.ts';
import { loadMethod, METHOD_NAMES } from '../methods/catalogue.ts';
import type { Method, MethodRun } from '../methods/method.ts';
import { methodParams } from '../methods/run.ts';
import { EarlierResults } from './earlier-results.ts';
import { type StepFacts, stepKey } from './facts.ts';
import { readingsOf, readsRewards, requireJudged, runOver, tablesOf } from './judged.ts';
import type { Judgement } from './judgement.ts';
import { ALL_SHARES, takeTurn } from './lock.ts';
import type { MethodFacts } from './method-facts.ts';
import { passedOver } from './over-episodes.ts';
import { type Portion, portionsOf } from './portions.ts';
import { readFacts, type SharedFacts, unread } from './reading.ts';
import { closedEpisodes, markJudged, type UnjudgedOptions, unjudgedEpisodes } from './unjudged.ts';
import { withReplays } from './with-replays.ts';
import { clear, nameMethod, put } from './writing.ts';

/** What to run, as given by a recipe, a plan or the command line. `reads`: the reward method whose rewards a credit method takes. */
export type MethodRequest = {
  readonly method: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly reads?: string;
};

export type Judging = {
  /** One for each portion. */
  readonly judge_ids: readonly string[];
  readonly methods: readonly Omit<MethodRun, 'method'>[];
  readonly episodes: number;
  /** By table. */
  readonly rows: Readonly<Record<string, number>>;
  /** Of these, those without a value, by table: they have a reason instead. */
  readonly without_value: Readonly<Record<string, number>>;
  /** Methods that had no row: what they judge is in none of the episodes. */
  readonly silent: readonly string[];
};

/** Loads the methods and fills in versions and defaults. Throws `method_unknown` and `method_input` before anything is written. */
export function resolveMethods(asked: readonly MethodRequest[]): Promise<MethodRun[]> {
  return Promise.all(
    asked.map(async ({ method: name, params = {}, reads }) => {
      const method = await loadMethod(name);
      const { version } = method;
      const full = methodParams(method, params) as Record<string, unknown>;
      if (reads) await loadMethod(reads);
      const key = `${name}@${version}#${hashId(full, reads ?? null).slice(0, 8)}`;
      return { method, name, version, params: full, reads: reads ?? null, key };
    }),
  );
}

/**
 * Checked before anything is written: a recorded judging must be one that can be repeated.
 * @throws TroupeError `method_input` where these methods cannot be run together
 */
export function requireRunnable(runs: readonly MethodRun[]): void {
  for (const [i, run] of runs.entries()) {
    requireJudged(run.method);
    if (run.reads !== null && !readsRewards(run.method)) {
      throw new TroupeError(
        'method_input',
        `${run.name} compares no rewards of steps, so it cannot read those of ${run.reads}.`,
      );
    }
    if (run.reads !== null && !runs.slice(0, i).some((other) => other.name === run.reads)) {
      throw new TroupeError(
        'method_input',
        `${run.name} reads the rewards of ${run.reads}, which is not among the methods before it in this judging.`,
      );
    }
  }
}

export type JudgeOptions = {
  readonly methods: readonly MethodRequest[];
  readonly episodes: readonly string[];
  readonly now: () => Date;
  readonly onProgress?: (progress: { readonly judged: number; readonly total: number }) => void;
  /** Tries a portion again that the environment failed at; once only if omitted. */
  readonly patiently?: Patiently;
};

/**
 * Judges these episodes, the others of their groups, and what replays them or is replayed by them, now. What is too much for one transaction is judged portion by portion, each
 * with an event of its own, one of each lane at a time: interrupted, what was judged stays judged.
 * @throws TroupeError `method_unknown` and `method_input` before anything is written.
 */
export async function judge(db: Db, log: EventLog, options: JudgeOptions): Promise<Judging> {
  const { patiently = (work) => work() } = options;
  const runs = await resolveMethods(options.methods);
  requireRunnable(runs);
  const { episodes, linked } = await patiently(() => withReplays(db, options.episodes));
  const portions = await patiently(() => portionsOf(db, episodes, { together: linked || judgedTogether(runs) }));
  const total = portions.reduce((sum, { episodes }) => sum + episodes.length, 0);
  const rows: Record<string, number> = {};
  const without_value: Record<string, number> = {};
  const results: Record<string, number> = {};
  const judge_ids: string[] = [];
  let judged = 0;
  let failed = false;
  const judgeLane = async (lane: readonly Portion[]): Promise<void> => {
    for (const portion of lane) {
      if (failed) return;
      const now = options.now().toISOString();
      judge_ids.push(await patiently(() => announce(log, runs, portion.episodes, now)));
      const written = await patiently(() => judgePortion(db, runs, portion));
      addTo(rows, written.counts);
      addTo(without_value, written.valueless);
      addTo(results, written.results);
      judged += portion.episodes.length;
      options.onProgress?.({ judged, total });
    }
  };
  await patiently(() => nameMethods(db, runs));
  const lanes = [...groupBy(portions, ({ lane }) => lane).values()].map((lane) =>
    judgeLane(lane).catch((error: unknown) => {
      failed = true;
      throw error;
    }),
  );
  // The other lane finishes what it has begun before the failure of the one is reported.
  for (const ended of await Promise.allSettled(lanes)) if (ended.status === 'rejected') throw ended.reason;
  const silent = total === 0 ? [] : runs.filter(({ name }) => results[name] === 0).map(({ name }) => name);
  const methods = runs.map(({ method: _, ...run }) => run);
  return { judge_ids, methods, episodes: total, rows, without_value, silent };
}

function addTo(sums: Record<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
}

/** In a transaction of its own: two lanes that name a method for the first time would wait for each other's end. */
const nameMethods = (db: Db, runs: readonly MethodRun[]): Promise<void> =>
  db.transaction(async (tx) => {
    await tx.query('set local search_path = facts, pg_catalog');
    for (const run of runs) await nameMethod(tx, run);
  });

/** The event goes first: should the rows be lost with this process, judging again or a rebuild makes them. */
async function announce(
  log: EventLog,
  runs: readonly MethodRun[],
  episodes: readonly string[],
  time: string,
): Promise<string> {
  const keys = runs.map((run) => run.key);
  const judgeId = hashId(keys, episodes, time);
  await appendOwn(log, [
    {
      name: 'judge.completed',
      source: '/judge',
      id: judgeId,
      time,
      data: {
        judge_id: judgeId,
        methods: runs.map(({ name, version, params, reads }) => ({ name, version, params, reads })),
        episodes: [...episodes],
      },
    },
  ]);
  return judgeId;
}

const judgePortion = (db: Db, runs: readonly MethodRun[], { episodes, shares }: Portion) =>
  db.transaction(async (tx) => {
    const keys = runs.map((run) => run.key);
    await takeTurn(tx, keys, shares);
    await tx.query(`set local search_path = facts, pg_catalog; ${KEYED}`);
    const { revisions, ...written } = await writeJudgements(tx, runs, episodes);
    await markJudged(tx, keys, revisions);
    return written;
  });

/**
 * Closed episodes of complete groups that changed since these methods last judged them; all of them when they never did, and all again
 * where one of the methods compares everything with everything and anything changed.
 */
export async function unjudged(db: Db, methods: readonly MethodRequest[], options: UnjudgedOptions): Promise<string[]> {
  const runs = await resolveMethods(methods);
  const keys = runs.map((run) => run.key);
  const changed = await unjudgedEpisodes(db, keys, options);
  return changed.length > 0 && judgedTogether(runs) ? closedEpisodes(db, options) : changed;
}

/** True for methods that cannot be run group by group: they compare everything that is judged with everything. */
export const compareEverything = async (methods: readonly MethodRequest[]): Promise<boolean> =>
  judgedTogether(await resolveMethods(methods));

/** True where an answer about an episode depends on all others that are judged with it. */
const judgedTogether = (runs: readonly MethodRun[]): boolean =>
  runs.some(({ method, params }) => requireJudged(method).scope?.(params) === 'set');

/**
 * Recomputes the results of recorded judgings into the schema of the transaction's search_path. A method that this release does not have
 * in that version is left out: it would be another estimator under the same name, and `unjudged` finds its episodes for the new one.
 * `only`: whole groups to which it is limited, where none of the methods compares everything with everything.
 */
export async function judgeAgain(
  tx: Session,
  judgings: readonly string[],
  only: ReadonlySet<string> | null = null,
): Promise<void> {
  for (const id of judgings) {
    const judging = await firstOf(
      tx,
      facts.selectFrom('judgings').select(['methods', 'episodes']).where('judge_id', '=', id),
    );
    if (!judging) continue;
    const versions = await versionsOf(judging.methods);
    const runs = await resolveMethods(
      judging.methods
        .filter(({ name, version }) => versions.get(name) === version)
        .map(({ name, params, reads }) => ({ method: name, params, ...(reads ? { reads } : {}) })),
    );
    const readable = runs.filter((run) => run.reads === null || runs.some((other) => other.name === run.reads));
    await takeTurn(
      tx,
      readable.map((run) => run.key),
      ALL_SHARES,
    );
    await writeJudgements(
      tx,
      readable,
      only === null ? judging.episodes : judging.episodes.filter((id) => only.has(id)),
    );
  }
}

/** The version in which this release has each of these methods; null where it has none of that name. */
export const versionsOf = async (methods: readonly { readonly name: string }[]): Promise<Map<string, number | null>> =>
  new Map(
    await Promise.all(
      methods.map(
        async ({ name }) => [name, METHOD_NAMES.includes(name) ? (await loadMethod(name)).version : null] as const,
      ),
    ),
  );

/** A method of recorded judgings that `judgeAgain` leaves out. */
export type LapsedMethod = {
  readonly name: string;
  readonly version: number;
  /** The version that this release has, in which nobody ran it yet; null where it has no such method. */
  readonly known: number | null;
};

/** The methods whose results no rebuild computes, in the order of their names. Not those that ran in the version of this release too. */
export async function lapsedMethods(db: Session): Promise<readonly LapsedMethod[]> {
  const each = sql<{ name: string; version: number }>`jsonb_array_elements(to_jsonb(methods))`;
  const rows = await rowsOf(db, query.selectFrom('facts.judgings').select(each.as('ran')).distinct());
  const ran = rows.map((row) => row.ran).map(({ name, version }) => ({ name, version }));
  const versions = await versionsOf(ran);
  return [...new Map(ran.map((one) => [`${one.name} ${one.version}`, one])).values()]
    .map((one) => ({ ...one, known: versions.get(one.name)! }))
    .filter(({ name, version, known }) => {
      if (version === known) return false;
      return !ran.some((other) => other.name === name && other.version === known);
    })
    .sort((a, b) => a.name.localeCompare(b.name) || a.version - b.version);
}

/** Runs the methods in their order; each sees the verdicts and the rewards of those before it. */
async function writeJudgements(
  tx: Session,
  runs: readonly MethodRun[],
  ids: readonly string[],
): Promise<{
  readonly counts: Readonly<Record<string, number>>;
  readonly valueless: Readonly<Record<string, number>>;
  /** Rows by method. */
  readonly results: Readonly<Record<string, number>>;
  readonly revisions: ReadonlyMap<string, number>;
}> {
  const readings = new Set(runs.flatMap(({ method, params }) => readingsOf(method, params)));
  const facts = await readFacts(tx, ids, readings);
  const earlier = new EarlierResults();
  const counts: Record<string, number> = {};
  const valueless: Record<string, number> = {};
  const results: Record<string, number> = {};
  for (const run of runs) {
    const { method } = run;
    const rewards = run.reads === null ? null : earlier.rewardsOf(run.reads);
    const judgements = runOver(method, run.params, assembled(method, facts, earlier, rewards));
    earlier.note(run.name, judgements);
    await nameMethod(tx, run);
    await clear(tx, tablesOf(method), run.key, facts.episodes);
    addTo(counts, await put(tx, run.key, judgements));
    addTo(results, { [run.name]: judgements.length });
    for (const one of judgements) if (isValueless(one)) valueless[one.table] = (valueless[one.table] ?? 0) + 1;
  }
  return {
    counts,
    valueless,
    results,
    revisions: new Map(facts.episodes.map(({ episode_id, revision }) => [episode_id, revision])),
  };
}

/** The facts, with what this method sees of the methods before it. */
function assembled(
  method: Method,
  facts: SharedFacts,
  earlier: EarlierResults,
  rewards: ReadonlyMap<string, number | null> | null,
): MethodFacts {
  const ofEpisodes = new Map(facts.episodes.map((episode) => [episode.episode_id, episode.reward]));
  // What an episode earned says nothing of an answer that it did not go on from.
  let over: ReadonlySet<StepFacts> | undefined;
  const ofEpisode = (step: StepFacts) => {
    over ??= passedOver(facts.steps);
    return over.has(step) ? null : ofEpisodes.get(step.episode_id);
  };
  const rewardOf = (step: StepFacts) =>
    (rewards ? rewards.get(stepKey(step.episode_id, step.step_id)) : ofEpisode(step)) ?? null;
  const own = {
    // A credit method that reads computed rewards compares the steps that have one.
    steps: rewards ? facts.steps.filter((step) => rewards.has(stepKey(step.episode_id, step.step_id))) : facts.steps,
    get rewardOf() {
      return readsRewards(method) ? rewardOf : unread('rewards');
    },
    ownRewards: rewards !== null,
    survives: (episodeId: string, stepId: string) => earlier.survives(episodeId, stepId),
    verdictOf: (method: string, episodeId: string) => earlier.verdictOf(method, episodeId),
  };
  // Facts that were not read throw when they are looked at, so they are inherited and not copied.
  return Object.create(facts, Object.getOwnPropertyDescriptors(own)) as MethodFacts;
}

const isValueless = (one: Judgement): boolean => (one.table === 'verdicts' ? one.keep : one.value) === null;
