/**
 * A job that asks a judge model what went wrong in episodes, and records each answer as feedback. What was recorded is the cache: the same
 * model is never asked the same question about the same conversation twice, so a job that was stopped or killed goes on where it was.
 */
import { type Static, Type } from 'typebox';
import { TroupeError } from '../../../errors.ts';
import type { EventData } from '../../../ingest/events/events.ts';
import { hashId } from '../../../ingest/events/json.ts';
import { KEYED } from '../../../ingest/log/keyed.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import type { Db } from '../../db/pool.ts';
import { facts, firstOf, query, rowsOf } from '../../db/query.ts';
import { checkedSpec, type Handler, type JobContext } from '../../queue/jobs/jobs.ts';
import { textOfTruth } from '../judging/facts.ts';
import { askModes, MAST_PROMPT_VERSION, MAST_TAXONOMY } from './ask-mast.ts';
import {
  type AskedRun,
  allAtOnce,
  binarySearch,
  type Diagnosis,
  PROMPT_VERSION,
  stepByStep,
} from './ask-who-and-when.ts';
import { type Ask, NoAnswer, type TokenBudget, type Usage } from './chat.ts';
import { type CaseEntry, readEntries } from './entries.ts';
import { HAS_FAILED } from './failed.ts';
import { blameFound, type FindingDraft, modesFound, nothingFound } from './findings.ts';
import { contentHash, transcriptOf } from './transcript.ts';

const DIAGNOSES: Readonly<Record<string, Diagnosis>> = {
  'who-and-when': allAtOnce,
  'who-and-when-step-by-step': stepByStep,
  'who-and-when-binary-search': binarySearch,
};
const ANNOTATIONS = [...Object.keys(DIAGNOSES), 'mast'] as const;

const Limit = Type.Optional(Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]));
const AnnotateSpec = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 512 }),
  method: Type.Enum([...ANNOTATIONS]),
  /** Where to ask, for whoever holds the job; the store does not read them. */
  endpoint: Type.String(),
  key_env: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  episodes: Type.Optional(Type.Array(Type.String())),
  with_reference: Type.Optional(Type.Boolean()),
  max_calls: Limit,
  max_tokens: Limit,
  conversation_tokens: Type.Optional(Type.Integer({ minimum: 100 })),
  concurrency: Type.Optional(Type.Integer({ minimum: 1, maximum: 64 })),
});

export type AnnotationRequest = Static<typeof AnnotateSpec>;

/** @throws TroupeError `usage` naming the field that does not fit. */
export const annotateSpec = (spec: unknown): AnnotationRequest => checkedSpec(AnnotateSpec, spec);

const CONVERSATION_TOKENS = 24_000;
const CONCURRENCY = 4;
/** So many episodes in a row that the endpoint failed on end the job: the next ones would fare no better. */
const MOST_FAILURES = 3;

export type AnnotateSettings = {
  /** The way to the endpoint that a spec names. */
  readonly askOf: (spec: { readonly model: string; readonly endpoint: string; readonly key_env: string | null }) => Ask;
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly signal: AbortSignal;
  /** Resolves once the tables have read what the log holds. */
  readonly caughtUp: (db: Db) => Promise<unknown>;
};

export type AnnotationResult = {
  /** Episodes that were to be annotated. */
  readonly episodes: number;
  readonly cached: number;
  readonly annotated: number;
  /** Of those, how many got a record with the reason for a missing answer. */
  readonly refused: number;
  /** Episodes that the endpoint failed on; nothing is recorded, so they are asked about again. */
  readonly failed: number;
  /** Why it ended before the last episode; null where it did not. */
  readonly stopped: string | null;
  readonly usage: Usage;
};

type Episode = {
  readonly episode_id: string;
  readonly query: string | null;
  readonly ground_truth: unknown;
};

/** The handler of jobs of kind `annotate`. */
export const annotateHandler =
  (context: JobContext, settings: AnnotateSettings): Handler =>
  (job, report) =>
    annotate(context, annotateSpec(job.spec), settings, report);

/** Annotates what was not annotated before. */
export async function annotate(
  context: JobContext,
  spec: AnnotationRequest,
  { askOf, wait, signal, caughtUp }: AnnotateSettings,
  report: Parameters<Handler>[1],
): Promise<AnnotationResult> {
  const { db } = context;
  await caughtUp(db);
  const key_env = spec.key_env ?? null;
  const budget: TokenBudget = {
    ask: askOf({ model: spec.model, endpoint: spec.endpoint, key_env }),
    signal,
    wait,
    limits: { max_calls: spec.max_calls ?? null, max_tokens: spec.max_tokens ?? null },
    spent: { calls: 0, input_tokens: 0, output_tokens: 0 },
  };
  const ids = spec.episodes ?? (await failedEpisodes(db));
  const tally = { episodes: ids.length, cached: 0, annotated: 0, refused: 0, failed: 0 };
  let stopped: string | null = null;
  let failures = 0;
  const waiting = [...ids];
  const work = async () => {
    for (let id = waiting.shift(); id !== undefined && stopped === null; id = waiting.shift()) {
      const result = await annotateOne(context, budget, spec, id);
      if (result.as === 'stopped') stopped ??= result.reason;
      else tally[result.as]++;
      if (result.as === 'refused') tally.annotated++;
      failures = result.as === 'failed' ? failures + 1 : 0;
      if (result.as === 'failed' && failures >= MOST_FAILURES) stopped ??= result.reason;
      await report(tally.cached + tally.annotated + tally.failed, { ...tally, ...budget.spent });
    }
  };
  await Promise.all(Array.from({ length: spec.concurrency ?? CONCURRENCY }, work));
  return { ...tally, stopped, usage: budget.spent };
}

type Result =
  | { readonly as: 'cached' | 'annotated' | 'refused' }
  | { readonly as: 'failed' | 'stopped'; readonly reason: string };

async function annotateOne(
  { db, log, now }: JobContext,
  budget: TokenBudget,
  spec: Static<typeof AnnotateSpec>,
  id: string,
): Promise<Result> {
  const { episode, entries } = await readEpisode(db, id);
  const mast = spec.method === 'mast';
  const reference = spec.with_reference && !mast ? textOfTruth(episode.ground_truth) : null;
  const promptVersion = mast ? MAST_PROMPT_VERSION : PROMPT_VERSION;
  const tokens = spec.conversation_tokens ?? CONVERSATION_TOKENS;
  const content = contentHash(episode.query, reference, entries);
  const feedbackId = hashId('annotate', spec.model, spec.method, promptVersion, tokens, content, id);
  const known = query
    .selectFrom('facts.feedback')
    .select('feedback_id')
    .where('key', '=', `e/${id}`)
    .where('feedback_id', '=', feedbackId);
  if ((await firstOf(db, known)) !== undefined) return { as: 'cached' };

  const transcript = transcriptOf(entries, tokens);
  const agentLines = entries.flatMap(({ kind, agent }, at) => (kind === 'agent' && agent !== null ? [at] : []));
  const run: AskedRun = { question: episode.query, reference, lines: transcript.lines, agentLines };
  const own: Usage = { calls: 0, input_tokens: 0, output_tokens: 0 };
  let found: FindingDraft;
  try {
    if (agentLines.length === 0) throw new NoAnswer('refused', 'no_agents');
    found = mast
      ? modesFound(id, await askModes(budget, run, own))
      : blameFound(id, entries, await DIAGNOSES[spec.method]!(budget, run, own));
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    if (error.kind !== 'refused') return { as: error.kind === 'failing' ? 'failed' : 'stopped', reason: error.reason };
    found = nothingFound(id, mast, error.reason);
  }
  const record = {
    method: spec.method,
    prompt_version: promptVersion,
    content_hash: content,
    with_reference: reference !== null,
    usage: own,
    ...(transcript.cut === null ? {} : { cut: transcript.cut }),
  };
  await appendOwn(log, [
    {
      name: 'feedback.recorded',
      source: '/annotate',
      id: feedbackId,
      time: now().toISOString(),
      data: {
        feedback_id: feedbackId,
        by: 'model',
        annotator: spec.model,
        taxonomy: mast ? { ...MAST_TAXONOMY } : { name: 'who-when', version: String(PROMPT_VERSION) },
        ...found,
        unmapped: { ...found.unmapped, ...record },
      } as EventData<'feedback.recorded'>,
    },
  ]);
  return { as: found.label === 'refused' ? 'refused' : 'annotated' };
}

async function readEpisode(db: Db, id: string): Promise<{ episode: Episode; entries: readonly CaseEntry[] }> {
  return db.transaction(
    async (tx) => {
      await tx.query(`set local search_path = facts, pg_catalog; ${KEYED}`);
      const episode = await firstOf(
        tx,
        facts
          .selectFrom('episodes as e')
          .leftJoin('tasks as t', 't.task_id', 'e.task_id')
          .select(['e.episode_id', 't.query', 't.ground_truth'])
          .where('e.episode_id', '=', id),
      );
      if (episode === undefined) throw new TroupeError('not_found', `There is no episode ${id}.`);
      return { episode, entries: (await readEntries(tx, [id])).get(id) ?? [] };
    },
    { readOnly: true },
  );
}

/** Those that failed by their outcome or, where it is unknown, by their reward. */
export async function failedEpisodes(db: Db): Promise<string[]> {
  const rows = await rowsOf(
    db,
    query.selectFrom('facts.episodes').select('episode_id').where(HAS_FAILED).orderBy('episode_id'),
  );
  return rows.map((row) => row.episode_id);
}
