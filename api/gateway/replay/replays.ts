/**
 * Calls of attempts that replay an episode. Up to the place they are answered from its record, without sampling, as long as agent, order and
 * request are those that were recorded; at the place and after it they go to a model. A call that is another one is refused, so that the team
 * ends, and recorded with the reason: nothing counts as a replay that was none.
 */
import { TroupeError } from '../../../errors.ts';
import type { Event } from '../../../ingest/events/events.ts';
import { asText, hashId, isRecord, type JsonObject } from '../../../ingest/events/json.ts';
import type { ArtifactStore } from '../../../ingest/log/log.ts';
import type { Db } from '../../../store/db/pool.ts';
import { faultOf } from '../../../store/loop/play/faults.ts';
import { NO_AGENT, type ReplayAnswer, type SourceCall, type Walk, walkAlong } from '../../../store/loop/play/replay.ts';
import {
  isUpstream,
  type RecordedSource,
  recordedCalls,
  sourceCalls,
  whyUnreadable,
} from '../../../store/loop/play/source.ts';
import { type Replaying, replayingOf } from '../../../trainer/loop/play/replaying.ts';
import type { Ingestion } from '../../ingestion/ingestion.ts';
import type { AnswerBody, CallRecord } from '../answer.ts';
import { record } from '../gateway.ts';
import { callDrafts, draftsOf } from '../record.ts';
import type { CallContext, Lineage } from '../request.ts';
import { upstreamDrafts } from '../upstream/record.ts';
import { answerGiven, answerOf, asCopied, asGiven, kindOf, plainRequest, textOf } from './replayed-answer.ts';
import {
  type CallRequest,
  differenceOf,
  instructed,
  keysOf,
  type RequestData,
  requestsAs,
  reseeded,
  withoutText,
} from './replayed-request.ts';

export type ReplayOptions = {
  readonly db: Db;
  readonly ingestion: Ingestion;
  readonly artifacts: ArtifactStore;
  readonly recordTimeoutMs: number;
  /** What is taken out of events before they are stored, and so out of the record that requests are compared with. */
  readonly redact: (event: Event) => Event;
};

type AnswerSource =
  /** A model answers: this request, in this context. */
  | { readonly by: 'model'; readonly body: JsonObject; readonly context: CallContext }
  /** Answered, and recorded. */
  | {
      readonly by: 'record';
      readonly body: JsonObject & { readonly id?: string };
      readonly ids: CallRecord;
      readonly recorded: boolean;
    };

export type Replays = {
  /** Null for a call of an episode that replays none. @throws TroupeError `diverged` for one that was not recorded so */
  readonly take: (call: CallRequest & { readonly bodyOf: AnswerBody | null }) => Promise<AnswerSource | null>;
};

/** One attempt under way. */
type ReplayRun = Replaying & {
  readonly episode: string;
  readonly walk: Walk;
  readonly calls: readonly SourceCall[];
  /** Agents whose next call gets the answer that stands here. */
  readonly answers: Map<string, ReplayAnswer>;
  /** Set at the first call that was not recorded so. */
  diverged: TroupeError | null;
  /** A text that is left out of every prompt from now on. */
  leftOut: string | null;
};

/** Attempts that are remembered. */
const REMEMBERED = 1024;

export function openReplays(options: ReplayOptions): Replays {
  const runs = new Map<string, Promise<ReplayRun | null>>();
  const runOf = (episode: string): Promise<ReplayRun | null> => {
    const known = runs.get(episode);
    if (known) return known;
    if (runs.size >= REMEMBERED) runs.delete(runs.keys().next().value!);
    const run = begin(options.db, episode);
    runs.set(episode, run);
    run.then((found) => found === null && runs.delete(episode)).catch(() => runs.delete(episode));
    return run;
  };
  return {
    take: async (call) => {
      const run = call.context.episode === null ? null : await runOf(call.context.episode);
      return run === null ? null : takeTurn(run, call, options);
    },
  };
}

/** Null where it replays nothing. What an earlier process answered is known to be answered. */
async function begin(db: Db, episode: string): Promise<ReplayRun | null> {
  const replaying = await replayingOf(db, episode);
  if (replaying === null) return null;
  const { place } = replaying;
  const calls = await sourceCalls(db, place.episode_id);
  const walk = walkAlong(calls, place.call_id);
  const target = calls.find(({ call_id }) => call_id === place.call_id);
  const answers = new Map(Object.entries(place.answers ?? {}));
  const put = new Map([
    ...(target === undefined ? [] : [[givenId(episode, atOf(target)), place.agent ?? NO_AGENT] as const]),
    ...[...answers.keys()].map((agent) => [givenId(episode, withOf(place, agent)), agent] as const),
  ]);
  const known = await recordedCalls(db, episode, [...calls.map(({ call_id }) => call_id), ...put.keys()]);
  for (const call of known.keys()) {
    const agent = put.get(call);
    if (agent !== undefined) answers.delete(agent);
    walk.answered(agent === undefined ? call : place.call_id!);
  }
  const skipped = replaying.asked.skip === true ? known.get(place.call_id ?? '') : undefined;
  const leftOut = skipped === undefined ? null : textOf(skipped.completed);
  return { ...replaying, episode, walk, calls, answers, leftOut, diverged: null };
}

/** The lineage of an answer that is given to another agent after the place. */
const withOf = ({ episode_id, call_id }: Replaying['place'], agent: string): Lineage => ({
  with: { episode_id, call_id, agent },
});

/** The lineage of the call at the place. */
const atOf = ({ origin, call_id }: SourceCall): Lineage => ({ at: { episode_id: origin, call_id } });

type ReplayedCall = Parameters<Replays['take']>[0];

async function takeTurn(run: ReplayRun, call: ReplayedCall, options: ReplayOptions): Promise<AnswerSource> {
  if (run.diverged !== null) throw run.diverged;
  try {
    return await answerTurn(run, call, options);
  } catch (error) {
    if (error instanceof Unreadable) throw await refuse(run, error.message, call, options);
    throw error;
  }
}

/** The record of a call cannot be read, though it could be when the replay was asked for. */
class Unreadable extends Error {}

async function answerTurn(run: ReplayRun, call: ReplayedCall, options: ReplayOptions): Promise<AnswerSource> {
  const requests = requestsAs(call, options.redact);
  const { agent } = call.context;
  const turn = run.walk.next({ agent, requests: keysOf(requests, call.body) });
  switch (turn.is) {
    case 'recorded':
      return fromRecord(run, turn.call, call, options);
    case 'after':
      return onward(run, call, options);
    case 'place':
      return atPlace(run, turn, call, options);
    case 'other':
      throw await refuse(run, await reasonOf(run, turn, requests, options), call, options);
  }
}

async function atPlace(
  run: ReplayRun,
  { call: source, parent }: { readonly call: SourceCall; readonly parent: string | null },
  call: ReplayedCall,
  options: ReplayOptions,
): Promise<AnswerSource> {
  const { fault, skip } = run.asked;
  if (skip === true) {
    run.leftOut = textOf((await readCall(run, source, options)).completed);
    return fromRecord(run, source, call, options);
  }
  const context = { ...call.context, parent: call.context.parent ?? parent, replay: atOf(source) };
  if (fault === undefined) return onward(run, { ...call, context }, options);
  const put = faultOf(fault);
  if ('instruction' in put) return toModel(run, { ...call, body: instructed(call.body, put.instruction), context });
  const before = run.calls.slice(0, run.calls.indexOf(source));
  const records = await recordedCalls(
    options.db,
    run.place.episode_id,
    [...before, source].map(({ call_id }) => call_id),
  );
  const outputOf = ({ call_id, agent }: SourceCall) => ({ agent, text: textOf(records.get(call_id)?.completed ?? {}) });
  const text = put.answer({ ...outputOf(source), before: before.map(outputOf) });
  if (text === null)
    throw await refuse(
      run,
      `The fault ${fault} needs ${put.needs}, and call ${source.call_id} has none.`,
      call,
      options,
    );
  return given(run, text, { ...call, context }, { copied: true }, options);
}

/** A call from the place on. */
async function onward(run: ReplayRun, call: ReplayedCall, options: ReplayOptions): Promise<AnswerSource> {
  const agent = call.context.agent ?? NO_AGENT;
  const answer = run.answers.get(agent);
  const { episode_id, call_id } = run.place;
  if (answer !== undefined) {
    run.answers.delete(agent);
    const context = { ...call.context, replay: call.context.replay ?? withOf(run.place, agent) };
    return given(run, answer, { ...call, context }, { copied: false }, options);
  }
  if (run.leftOut === null) return toModel(run, call);
  const { body, removed } = withoutText(call.body, run.leftOut);
  const context = removed ? { ...call.context, replay: { without: { episode_id, call_id } } } : call.context;
  return toModel(run, { ...call, body, context });
}

const toModel = ({ sample }: ReplayRun, { body, context }: ReplayedCall): AnswerSource => ({
  by: 'model',
  body: reseeded(body, sample),
  context,
});

/** The id of a call that a replay answers itself, in the form of all ids of calls. */
const givenId = (episode: string, lineage: Lineage | undefined): string =>
  hashId('given', episode, lineage ?? null).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

async function readCall({ place }: ReplayRun, { call_id }: SourceCall, { db }: ReplayOptions): Promise<RecordedSource> {
  const found = (await recordedCalls(db, place.episode_id, [call_id])).get(call_id);
  const why = whyUnreadable(found);
  if (why === null) return found!;
  throw new Unreadable(`Call ${call_id} cannot be answered from the record, since ${why}.`);
}

const momentOf = (callId: string, episodeId: string, at: Date): CallRecord => ({
  callId,
  episodeId,
  created: Math.floor(at.getTime() / 1000),
});

/** The recorded answer, under the id of its call, so that what is made of the id is the same again. */
async function fromRecord(
  run: ReplayRun,
  source: SourceCall,
  call: ReplayedCall,
  options: ReplayOptions,
): Promise<AnswerSource> {
  const found = await readCall(run, source, options);
  const now = new Date();
  const ids = momentOf(source.call_id, run.episode, now);
  const lineage = { of: { episode_id: source.origin, call_id: source.call_id } };
  const { context, kind, read } = call;
  const frame = { callId: source.call_id, episodeId: run.episode, context, latencyMs: 0, ...timesOf(now) };
  if (isUpstream(found)) {
    const { raw, response } = await rawRecord(found, options);
    if (kindOf(response) !== kind)
      throw await refuse(
        run,
        `Call ${source.call_id} was made over another API: ${kindOf(response)}, not ${kind}.`,
        call,
        options,
      );
    const { unmapped } = found.completed as { unmapped: { upstream: string } };
    const drafts = upstreamDrafts({
      ...frame,
      kind,
      request: call.body,
      response,
      status: 200,
      error: null,
      firstTokenMs: null,
      raw,
      flags: [],
      upstream: { ...NO_PRICES, name: unmapped.upstream },
      model: asText(call.body.model),
    });
    return kept(asCopied(drafts, found.completed, lineage), response, ids, options);
  }
  if (read === null || call.bodyOf === null)
    throw await refuse(
      run,
      `Call ${source.call_id} was answered by a policy, and no policy reads this request.`,
      call,
      options,
    );
  const answer = answerOf(found.completed);
  const body = call.bodyOf(answer, read, ids);
  const seed = Number(found.completed.seed ?? 0);
  const drafts = draftsOf({ ...frame, request: read, seed, outcome: { answer, responseId: body.id } });
  return kept(asCopied(drafts, found.completed, lineage), body, ids, options);
}

const NO_PRICES = { prices: {}, tokenIds: null, logprobs: 'raw', checkpoints: {} } as const;
const timesOf = (now: Date) => ({ requestedAt: now.toISOString(), completedAt: now.toISOString() });

/** What a model server was sent and answered, and the text that it is stored as. */
async function rawRecord({ completed }: RecordedSource, { artifacts }: ReplayOptions) {
  const { artifact_id } = completed.raw as { artifact_id: string };
  const body = await artifacts.get(artifact_id).catch((cause: unknown) => {
    throw new Unreadable(`The raw record of call ${asText(completed.call_id)} cannot be read.`, { cause });
  });
  const raw = Buffer.from(body).toString('utf8');
  const { response } = JSON.parse(raw) as { response: unknown };
  if (isRecord(response)) return { raw, response };
  throw new Unreadable(`The raw record of call ${asText(completed.call_id)} holds no response.`);
}

/** An answer that the replay names; the context of the call has its lineage. */
async function given(
  run: ReplayRun,
  chosen: ReplayAnswer,
  call: ReplayedCall,
  how: { readonly copied: boolean },
  options: ReplayOptions,
): Promise<AnswerSource> {
  const { kind, body, bodyOf, context } = call;
  if (bodyOf === null) throw await refuse(run, 'Embeddings cannot be given as an answer.', call, options);
  const now = new Date();
  const ids = momentOf(givenId(run.episode, context.replay), run.episode, now);
  const read = call.read ?? plainRequest(kind, body);
  const answer = answerGiven(chosen, read.model, kind === 'chat' || kind === 'text' ? read.sampling.n : 1);
  const whole = bodyOf(answer, read, ids);
  const frame = { callId: ids.callId, episodeId: run.episode, context, latencyMs: 0, ...timesOf(now) };
  const drafts =
    call.read === null
      ? upstreamDrafts({
          ...frame,
          ...{
            kind,
            request: body,
            response: whole,
            status: 200,
            error: null,
            firstTokenMs: null,
            raw: null,
            flags: [],
          },
          upstream: { ...NO_PRICES, name: 'none' },
          model: asText(body.model),
        })
      : draftsOf({ ...frame, request: read, seed: 0, outcome: { answer, responseId: whole.id } });
  return kept(asGiven(drafts, how), whole, ids, options);
}

async function kept(
  drafts: Parameters<typeof asCopied>[0],
  body: JsonObject,
  ids: CallRecord,
  { ingestion, recordTimeoutMs }: ReplayOptions,
): Promise<AnswerSource> {
  return { by: 'record', body, ids, recorded: await record(ingestion, async () => drafts, recordTimeoutMs) };
}

/** Why a call is not the recorded one, with what differs where both are known. */
async function reasonOf(
  { place }: ReplayRun,
  { why, call }: { readonly why: string; readonly call: SourceCall | null },
  requests: readonly RequestData[],
  { db }: ReplayOptions,
): Promise<string> {
  if (call === null) return why;
  const was = (await recordedCalls(db, place.episode_id, [call.call_id])).get(call.call_id)?.requested;
  if (!Array.isArray(was?.input)) return why;
  const all = requests.map(({ input = [] }) => differenceOf(was.input as unknown[], input));
  const [first] = all.filter((one) => one !== null).sort((a, b) => b.length - a.length);
  return first === undefined ? why : `${why.replace(/\.$/, '')}: ${first}.`;
}

/** The refusal of a call, which is recorded as one that failed. All calls of the attempt after it are refused too. */
async function refuse(
  run: ReplayRun,
  why: string,
  call: ReplayedCall,
  { ingestion, recordTimeoutMs }: ReplayOptions,
): Promise<TroupeError> {
  const { episode_id, call_id } = run.place;
  run.diverged ??= new TroupeError(
    'diverged',
    `The replay of ${episode_id} diverged before ${call_id === null ? 'its end' : `call ${call_id}`}: ${why}`,
  );
  const { code, message } = run.diverged;
  const callId = hashId('diverged', run.episode);
  const frame = { callId, episodeId: run.episode, context: call.context, ...timesOf(new Date()) };
  const asked = { model: asText(call.body.model), params: {} };
  await record(
    ingestion,
    async () =>
      callDrafts(frame, { requested: asked, completed: { choices: [], error: { code, message } }, outcome: 'error' }),
    recordTimeoutMs,
  );
  return run.diverged;
}
