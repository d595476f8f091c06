/**
 * Episodes of rLLM (rllm-org/rllm at 9beb6e0f, version 0.3.0.pre), one a document or a list of them: what `Episode.to_dict` (types.py),
 * the trainer's episode log (utils/episode_logger.py) and the evaluation's store (eval/episode_store.py) write; single trajectories too.
 * A trajectory is what one agent did, a step one call of its model with the conversation up to its answer.
 */
import type { Draft } from '../../events/events.ts';
import { asText, canonicalJson, given, hashId, isRecord, type JsonObject, ownOf, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { refusal, refused, revisedEmitter } from '../kit/native.ts';
import {
  chatCall,
  chatMessages,
  distinct,
  isTokenIds,
  lastResultDrafts,
  rolloutCallDrafts,
} from '../kit/rollout-calls.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from '../kit/run.ts';

const NAME = 'rllm';
const emit = revisedEmitter(NAME);

const isEpisode = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  Array.isArray(record.trajectories) &&
  'is_correct' in record &&
  ('id' in record || 'episode_id' in record);

const isTrajectory = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  Array.isArray(record.steps) &&
  'name' in record &&
  'reward' in record &&
  record.steps.some((step) => isRecord(step) && ('chat_completions' in step || 'response_ids' in step));

export const rllm: Format = {
  name: NAME,
  summary:
    'rLLM episodes {id, task, is_correct, trajectories: [{name, steps: [{chat_completions, response_ids, logprobs}]}]}',
  recognises: ({ records }) => records.some((record) => isEpisode(record) || isTrajectory(record)),
  convert,
  restates: new Set(['task.defined']),
};

function convert(record: NativeRecord): Conversion {
  const { value } = record;
  if (!isEpisode(value) && !isTrajectory(value))
    return refused(
      refusal('bad_shape', 'trajectories', 'an episode with trajectories, or a trajectory with steps', value),
    );
  const whole: JsonObject = isEpisode(value) ? value : { trajectories: [value], task: (value as JsonObject).task };
  const refusals: NativeRefusal[] = [];
  const uids: unknown[] = [];
  const members: Member[] = [];
  const names = new Map<string, number>();
  for (const [i, one] of (whole.trajectories as unknown[]).entries()) {
    const place = isEpisode(value) ? `trajectories[${i}]` : '';
    if (!isRecord(one) || !Array.isArray(one.steps)) {
      refusals.push(refusal('bad_shape', place, 'a trajectory with steps', one));
      continue;
    }
    uids.push(one.uid);
    const name = isIdentifier(one.name) && one.name !== UNNAMED ? one.name : 'agent';
    const number = (names.get(name) ?? 0) + 1;
    names.set(name, number);
    members.push({ native: one, name, agentId: number === 1 ? name : `${name}#${number}`, place });
  }
  const ids = uids.length > 0 && uids.every(isIdentifier);
  const nativeId = whole.id ?? whole.episode_id;
  const episodeId = hashId(NAME, ...(ids ? [nativeId ?? null, uids] : [record.canonical, record.ordinal]));
  const calls = members.flatMap((member) => trajectoryDrafts(episodeId, member, refusals));
  if (members.length === 0 && refusals.length === 0 && whole.task == null)
    return refused(refusal('bad_shape', 'trajectories', 'at least one trajectory', whole.trajectories));
  const drafts = episodeDrafts(episodeId, record, whole, members, calls, refusals.length > 0);
  return { drafts, refusals, raw: record.canonical, repeated: ids && record.ordinal > 0 };
}

const UNNAMED = 'default_traj_name';

type Member = { readonly native: JsonObject; readonly name: string; readonly agentId: string; readonly place: string };

/** How an episode ended that has no answer to judge. */
const BROKEN: Readonly<Record<string, 'error' | 'timeout'>> = { error: 'error', timeout: 'timeout' };

function episodeDrafts(
  episodeId: string,
  record: NativeRecord,
  whole: JsonObject,
  members: readonly Member[],
  calls: readonly Draft[],
  incomplete: boolean,
): Draft[] {
  const { is_correct: correct, termination_reason: reason, session_id: session, metrics } = whole;
  const nativeId = whole.id ?? whole.episode_id;
  const [, group, attempt] = (isIdentifier(nativeId) ? /^(.+):(\d{1,9})$/.exec(nativeId) : null) ?? [];
  const hasTokens = calls.some(
    ({ name, data }) =>
      name === 'generation.completed' && (data as { choices: JsonObject[] }).choices.some(({ token_ids: ids }) => ids),
  );
  const feedback = (
    kind: 'reward' | 'score',
    name: string,
    value: number | boolean,
    target: { kind: 'episode' | 'agent'; id: string },
  ): Draft =>
    emit.event('feedback.recorded', [episodeId, kind, name, target.kind, target.id], {
      feedback_id: hashId(NAME, episodeId, kind, name, target.kind, target.id),
      target: { ...target, episode_id: episodeId },
      kind,
      name,
      value,
      by: 'env',
    });
  const onEpisode = { kind: 'episode' as const, id: episodeId };
  const numbers = (from: unknown) =>
    Object.entries(isRecord(from) ? from : {}).filter(
      (entry): entry is [string, number] => isIdentifier(entry[0]) && typeof entry[1] === 'number',
    );
  const broken = typeof reason === 'string' ? ownOf(BROKEN, reason) : undefined;
  return runDrafts(emit, {
    format: NAME,
    episodeId,
    canonical: record.canonical,
    task: taskIn(whole.task ?? members[0]?.native.task),
    started: {
      native: { format: NAME, ids: given('id', nativeId) },
      flags: [...(hasTokens ? [] : [NO_TOKEN_IDS]), ...(incomplete ? ['incomplete'] : [])],
      ...(isIdentifier(session) ? { session_id: session } : {}),
      ...(group === undefined ? {} : { group_id: hashId(NAME, group), attempt: Number(attempt) }),
      ...given('tags', without({ step: whole.training_step ?? undefined, epoch: whole.epoch ?? undefined })),
      ...given('unmapped', without(whole, ...READ_OF_EPISODE)),
    },
    agents: members.map(({ agentId, name }) => ({ agent_id: agentId, name, role: name })),
    events: [
      ...calls,
      ...members.flatMap(({ native, agentId }): Draft[] => {
        const { reward } = native;
        const own = { kind: 'agent' as const, id: agentId };
        return [
          ...(typeof reward === 'number' ? [feedback('reward', 'reward', reward, own)] : []),
          ...(typeof reward === 'number' && members.length === 1
            ? [feedback('reward', 'reward', reward, onEpisode)]
            : []),
          ...numbers(native.signals).map(([name, value]) => feedback('score', name, value, own)),
        ];
      }),
      ...(typeof correct === 'boolean' ? [feedback('score', 'is_correct', correct, onEpisode)] : []),
      ...numbers(metrics).map(([name, value]) => feedback('score', name, value, onEpisode)),
    ],
    finished: {
      outcome: broken ?? (typeof correct !== 'boolean' ? 'unknown' : correct ? 'success' : 'failure'),
      ...(typeof reason === 'string' ? { stop_reason: reason } : {}),
    },
  });
}

const READ_OF_EPISODE = ['id', 'episode_id', 'task', 'is_correct', 'termination_reason', 'session_id', 'trajectories'];
READ_OF_EPISODE.push('metrics', 'training_step', 'epoch', 'task_hash');

/** Members of a task under which data sets write what is asked, in the order in which they are looked for. */
const QUESTIONS = ['instruction', 'question', 'problem', 'prompt', 'query'];

/** A number as an id is a row of some data set, so the text names the task. */
function taskIn(task: unknown): ReturnType<typeof taskOf> {
  if (typeof task === 'string') return taskOf(NAME, task);
  if (!isRecord(task)) return null;
  const data = isRecord(task.metadata) ? { ...task.metadata, ...task } : task;
  const text = QUESTIONS.map((name) => data[name]).find((one) => typeof one === 'string' && one.trim() !== '');
  const id = [task.task_id, task.id].find((one) => isIdentifier(one) && !/^\d+$/.test(one));
  const truth = data.ground_truth ?? data.answer ?? undefined;
  return taskOf(NAME, text, { ...given('ground_truth', truth), tags: { task } }, id);
}

function trajectoryDrafts(episodeId: string, { native, agentId, place }: Member, refusals: NativeRefusal[]): Draft[] {
  const steps = native.steps as unknown[];
  const rewarded = steps.some((step) => isRecord(step) && typeof step.reward === 'number' && step.reward !== 0);
  let whole: { readonly messages: readonly ChatMessage[]; readonly turn: number } | null = null;
  const drafts = steps.flatMap((step, turn): Draft[] => {
    const field = `${place}${place === '' ? '' : '.'}steps[${turn}]`;
    if (!isRecord(step)) {
      refusals.push(refusal('bad_type', field, 'a step object', step));
      return [];
    }
    const talk = talkOf(step, field);
    if ('refusal' in talk) {
      refusals.push(talk.refusal);
      return [];
    }
    whole = { messages: talk.messages, turn };
    const callId = `${agentId}/${turn}`;
    const about = { episodeId, callId, agentId, turn };
    const output = isRecord(step.model_output) ? step.model_output : {};
    const reward = rewarded && typeof step.reward === 'number' ? step.reward : null;
    const version = step.weight_version ?? output.weight_version;
    const target = { kind: 'step' as const, id: `${callId}/0`, episode_id: episodeId };
    return [
      ...rolloutCallDrafts(emit, {
        ...about,
        input: talk.input,
        answer: talk.answer,
        finish: output.finish_reason,
        sampled: {
          prompt: isFilled(step.prompt_ids) ? step.prompt_ids : output.prompt_ids,
          ids: isFilled(step.response_ids) ? step.response_ids : output.completion_ids,
          logprobs: isFilled(step.logprobs) ? step.logprobs : output.logprobs,
        },
        completed: {
          ...usageOf(step, output),
          ...(version == null ? {} : { model_version: asText(version) }),
        },
        unmapped: without({
          ...given('action', step.action ?? undefined),
          ...given('advantage', step.advantage ?? undefined),
          ...given('info', isRecord(step.info) && Object.keys(step.info).length > 0 ? step.info : undefined),
        }),
      }),
      ...(reward === null
        ? []
        : [
            emit.event('feedback.recorded', [episodeId, 'reward', callId], {
              feedback_id: hashId(NAME, episodeId, 'reward', callId),
              target,
              kind: 'reward',
              name: 'reward',
              value: reward,
              by: 'env',
            }),
          ]),
    ];
  });
  const end = whole as { readonly messages: readonly ChatMessage[]; readonly turn: number } | null;
  const last = end
    ? lastResultDrafts(emit, { episodeId, callId: `${agentId}/${end.turn}`, agentId, turn: end.turn }, end.messages)
    : [];
  return distinct([...drafts, ...last]);
}

const isFilled = (value: unknown): boolean => Array.isArray(value) && value.length > 0;

/** Lengths that the engine counted, where the tokens themselves are not there. */
function usageOf(step: JsonObject, { prompt_length: prompt, completion_length: completion }: JsonObject) {
  const known = isTokenIds(step.response_ids) && step.response_ids.length > 0;
  const counted = typeof completion === 'number' && completion > 0 && typeof prompt === 'number';
  return known || !counted ? {} : { usage: { input_tokens: prompt, output_tokens: completion } };
}

type Talk = {
  readonly messages: readonly ChatMessage[];
  readonly input: readonly ChatMessage[];
  readonly answer: ChatMessage | null;
};

/** What the model was shown and answered; an evaluation may hold `input` and `output` alone. */
function talkOf(step: JsonObject, field: string): Talk | { readonly refusal: NativeRefusal } {
  const filled = isFilled(step.chat_completions);
  const read = filled
    ? chatMessages(step.chat_completions, `${field}.chat_completions`)
    : chatMessages(messagesIn(step.input ?? step.observation), `${field}.input`);
  if ('refusal' in read) return read;
  const { messages } = read;
  const at = filled ? messages.findLastIndex(({ role }) => role === 'assistant') : -1;
  if (at >= 0) return { messages, input: messages.slice(0, at), answer: answerOf(step, messages[at]!) };
  const text = [step.model_response, step.output].find((one) => typeof one === 'string' && one !== '');
  const answer = text === undefined ? null : answerOf(step, { role: 'assistant', content: text as string });
  return { messages: answer ? [...messages, answer] : messages, input: messages, answer };
}

const messagesIn = (input: unknown): unknown => {
  if (Array.isArray(input) && input.every((one) => isRecord(one) && 'role' in one)) return input;
  if (input === null || input === undefined || input === '') return [];
  return typeof input === 'string' ? input : canonicalJson(input);
};

/** The answer with the thought and the tool calls that stand beside it in the step. */
function answerOf(step: JsonObject, message: ChatMessage): ChatMessage {
  const output = isRecord(step.model_output) ? step.model_output : {};
  const calls = Array.isArray(output.tool_calls) ? output.tool_calls.filter(isRecord) : [];
  const thought = step.thought;
  return {
    ...message,
    ...(message.tool_calls == null && calls.length > 0 && calls.every(({ name }) => isIdentifier(name))
      ? { tool_calls: calls.map((call, i) => chatCall(call, `call/${i}`)) }
      : {}),
    ...(message.reasoning_content == null && typeof thought === 'string' && thought !== ''
      ? { reasoning_content: thought }
      : {}),
  };
}
