/**
 * Runs methods over episodes and whole groups, and writes what they say: verdicts, scores, rewards, credits, each with method,
 * version, parameters and reason, side by side. It can be run again at any time: rows of the same method and parameters are replaced.
 * The event judge.completed says what was run over what, so that a rebuild recomputes every row.
 */
import { TroupeError } from '../errors.ts';
import { decodeDraft } from '../ingest/decode.ts';
import { hashId } from '../ingest/json.ts';
import type { EventLog } from '../ingest/log/log.ts';
import type { Db, Session } from './db/pool.ts';
import { readsTokens, requireAssembled, runOver } from './judging/assemble.ts';
import {
  computedRewards,
  type EpisodeFacts,
  episodeFacts,
  executionReports,
  groupOf,
  stepFacts,
  stepKey,
  wholeGroups,
} from './judging/facts.ts';
import type { Judgement, MethodRun } from './judging/judgement.ts';
import { takeTurn } from './judging/lock.ts';
import { NO_TOKEN_FACTS, tokenFacts } from './judging/token-facts.ts';
import { METHODS } from './methods/catalogue.ts';
import { findMethod, methodParams } from './methods/run.ts';
import { groupBy } from './methods/statistics.ts';
import { KEYED } from './planning.ts';

/** What to run, as a recipe, a plan or the command line says it. `reads`: the reward method whose rewards a credit method takes. */
export type MethodAsked = {
  readonly method: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly reads?: string;
};

export type Judging = {
  readonly judge_id: string;
  readonly methods: readonly MethodRun[];
  readonly episodes: number;
  readonly rows: Readonly<Record<string, number>>;
};

/** Fills in versions and defaults. Throws `method_unknown` and `method_input` before anything is written. */
export function resolveMethods(asked: readonly MethodAsked[]): MethodRun[] {
  return asked.map(({ method: name, params = {}, reads }) => {
    const method = findMethod(name);
    const full = methodParams(method, params) as Record<string, unknown>;
    if (reads) findMethod(reads);
    const key = `${method.name}@${method.version}#${hashId(full, reads ?? null).slice(0, 8)}`;
    return { name: method.name, version: method.version, params: full, reads: reads ?? null, key };
  });
}

/** Why these methods cannot be run together, said before anything is written: a recorded judging must be one that can be repeated. */
function requireRunnable(runs: readonly MethodRun[]): void {
  for (const [i, run] of runs.entries()) {
    requireAssembled(findMethod(run.name));
    if (run.reads !== null && !runs.slice(0, i).some((other) => other.name === run.reads)) {
      throw new TroupeError(
        'method_input',
        `${run.name} reads the rewards of ${run.reads}, which is not among the methods before it in this judging.`,
      );
    }
  }
}

/**
 * Judges these episodes, and the others of their groups, now.
 * @throws TroupeError `method_unknown` and `method_input` before anything is written.
 */
export async function judge(
  db: Db,
  log: EventLog,
  {
    methods,
    episodes,
    now,
  }: { readonly methods: readonly MethodAsked[]; readonly episodes: readonly string[]; readonly now: () => Date },
): Promise<Judging> {
  const runs = resolveMethods(methods);
  requireRunnable(runs);
  const whole = await db.transaction(async (tx) => {
    await tx.query(`set local search_path = facts, pg_catalog; ${KEYED}`);
    return wholeGroups(tx, episodes);
  });
  const judgeId = hashId(
    runs.map((run) => run.key),
    whole,
    now().toISOString(),
  );
  const decoded = decodeDraft({
    name: 'judge.completed',
    source: '/judge',
    id: judgeId,
    time: now().toISOString(),
    data: {
      judge_id: judgeId,
      methods: runs.map(({ name, version, params, reads }) => ({ name, version, params, reads })),
      episodes: whole,
    },
  });
  if (decoded.refusal)
    throw new TroupeError('internal', `The judge's own event was refused: ${JSON.stringify(decoded.refusal)}`);
  // The event goes first: should the rows be lost with this process, judging again or a rebuild makes them.
  await log.append([decoded.event]);
  const rows = await db.transaction(async (tx) => {
    await takeTurn(
      tx,
      runs.map((run) => run.key),
    );
    await tx.query(`set local search_path = facts, pg_catalog; ${KEYED}`);
    const { counts, touched } = await writeJudgements(tx, runs, whole);
    await mark(tx, runs, touched);
    return counts;
  });
  return { judge_id: judgeId, methods: runs, episodes: whole.length, rows };
}

/** Closed episodes that changed since these methods last judged them; all of them when they never did. */
export async function unjudged(db: Db, methods: readonly MethodAsked[], limit = 5000): Promise<string[]> {
  const { rows } = await db.query<{ episode_id: string }>(
    `select e.episode_id from facts.episodes e
     left join troupe.judged_positions j on j.episode_id = e.episode_id and j.judge_set = $1
     where e.closed and (j.position is null or j.position < e.touched_position) order by e.episode_id limit $2`,
    [judgeSet(resolveMethods(methods)), limit],
  );
  return rows.map((row) => row.episode_id);
}

/**
 * Recomputes what recorded judgings said, into the schema of the transaction's search_path. A method that this release does not have
 * in that version is left out: it would be another estimator under the same name, and `unjudged` finds its episodes for the new one.
 */
export async function judgeAgain(tx: Session, judgings: readonly string[]): Promise<void> {
  for (const id of judgings) {
    const { rows } = await tx.query<{
      methods: { name: string; version: number; params: Record<string, unknown>; reads?: string | null }[];
      episodes: string[];
    }>('select methods, episodes from judgings where judge_id = $1', [id]);
    const judging = rows[0];
    if (!judging) continue;
    const runs = resolveMethods(
      judging.methods
        .filter(({ name, version }) => METHODS.some((known) => known.name === name && known.version === version))
        .map(({ name, params, reads }) => ({ method: name, params, ...(reads ? { reads } : {}) })),
    );
    const readable = runs.filter((run) => run.reads === null || runs.some((other) => other.name === run.reads));
    await takeTurn(
      tx,
      readable.map((run) => run.key),
    );
    await writeJudgements(tx, readable, judging.episodes);
  }
}

/** Notes what the episodes looked like when they were read, not what they look like now. */
async function mark(tx: Session, runs: readonly MethodRun[], touched: ReadonlyMap<string, number>): Promise<void> {
  await tx.query(
    `insert into troupe.judged_positions as j (episode_id, judge_set, position)
     select episode_id, $3, position from unnest($1::text[], $2::bigint[]) as r (episode_id, position)
     on conflict (episode_id, judge_set) do update set position = excluded.position`,
    [[...touched.keys()], [...touched.values()], judgeSet(runs)],
  );
}

const judgeSet = (runs: readonly MethodRun[]): string => hashId(runs.map((run) => run.key).sort());

async function writeJudgements(
  tx: Session,
  runs: readonly MethodRun[],
  ids: readonly string[],
): Promise<{ readonly counts: Record<string, number>; readonly touched: ReadonlyMap<string, number> }> {
  // First: what changes while the rest is read will be seen as changed since.
  const episodes = await episodeFacts(tx, ids);
  const steps = await stepFacts(tx, ids);
  const reports = await executionReports(tx, ids, steps);
  const recorded = runs.some((run) => readsTokens(findMethod(run.name))) ? await tokenFacts(tx, ids) : NO_TOKEN_FACTS;
  const dropped = new Set<string>();
  const counts: Record<string, number> = {};
  for (const run of runs) {
    const read = run.reads === null ? null : runs.find((other) => other.name === run.reads);
    const rewards = read ? await computedRewards(tx, ids, read.key) : null;
    const ofEpisodes = new Map(episodes.map((episode) => [episode.episode_id, episode.reward]));
    const method = findMethod(run.name);
    const judgements = runOver(method, run.params, {
      episodes,
      // A credit method that reads computed rewards compares the steps that have one.
      steps: rewards ? steps.filter((step) => rewards.has(stepKey(step.episode_id, step.step_id))) : steps,
      reports,
      rewardOf: (step) =>
        (rewards ? rewards.get(stepKey(step.episode_id, step.step_id)) : ofEpisodes.get(step.episode_id)) ?? null,
      ownRewards: rewards !== null,
      recorded,
      survives: (episodeId, stepId) => !dropped.has(stepKey(episodeId, stepId)) && !dropped.has(stepKey(episodeId, '')),
    });
    for (const judgement of judgements) {
      if (judgement.table === 'verdicts' && judgement.keep !== true)
        dropped.add(stepKey(judgement.episode_id, judgement.step_id));
    }
    await tx.query(
      `insert into judged_methods (method_key, method, version, kind, params) values ($1, $2, $3, $4, $5) on conflict do nothing`,
      [
        run.key,
        run.name,
        run.version,
        method.kind,
        JSON.stringify(run.reads === null ? run.params : { ...run.params, reads: run.reads }),
      ],
    );
    await clear(tx, run.key, episodes);
    for (const [table, rows] of groupBy(judgements, (judgement) => judgement.table)) {
      await put(tx, table, run.key, rows);
      counts[table] = (counts[table] ?? 0) + rows.length;
    }
  }
  return { counts, touched: new Map(episodes.map((episode) => [episode.episode_id, episode.touched])) };
}

const COLUMNS = {
  verdicts: ['episode_id text', 'step_id text', 'keep boolean', 'reason text', 'detail json'],
  scores: ['key text', 'value double precision', 'reason text', 'detail json'],
  rewards: ['episode_id text', 'step_id text', 'value double precision', 'reason text'],
  credits: ['episode_id text', 'step_id text', 'value double precision', 'reason text', 'detail json'],
} as const;

/** What the method said before about these episodes and their groups goes, whatever it says now. */
async function clear(tx: Session, key: string, episodes: readonly EpisodeFacts[]): Promise<void> {
  const ids = episodes.map((episode) => episode.episode_id);
  const keys = [...ids.map((id) => `e/${id}`), ...new Set(episodes.map((episode) => `g/${groupOf(episode)}`))];
  for (const table of Object.keys(COLUMNS)) {
    const column = table === 'scores' ? 'key' : 'episode_id';
    await tx.query(
      `delete from ${table} where ${column} = any($2::text[]) and method_key = $1`,
      [key, table === 'scores' ? keys : ids],
      { name: `judge_clear_${table}` },
    );
  }
}

async function put(tx: Session, table: Judgement['table'], key: string, rows: readonly Judgement[]): Promise<void> {
  // Most credits are a number and nothing else.
  const bare = table === 'credits' && !rows.some((row) => 'detail' in row);
  const columns = bare ? COLUMNS.credits.filter((column) => column !== 'detail json') : COLUMNS[table];
  const names = columns.map((column) => column.split(' ')[0]).join(', ');
  await tx.query(
    `insert into ${table} (${names}, method_key) select ${names}, $2 from json_to_recordset($1::json) as r (${columns.join(', ')})`,
    [JSON.stringify(rows), key],
    { name: `judge_put_${table}${bare ? '_bare' : ''}` },
  );
}
