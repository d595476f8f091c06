/**
 * Episodes of rLLM (rllm-org/rllm at 9beb6e0f, version 0.3.0.pre), one a document or a list of them: what `Episode.to_dict` (types.py),
 * the trainer's episode log (utils/episode_logger.py) and the evaluation's store (eval/episode_store.py) write; single trajectories too.
 * A trajectory is what one agent did, a step one call of its model with the conversation up to its answer.
 */
import { asText, canonicalJson, given, hashId, isRecord, type JsonObject, ownOf, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { refusal, refused } from '../kit/native.ts';
import { chatCall, chatMessages, isTokenIds } from '../kit/rollout-calls.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'rllm';

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
  if (members.length === 0 && refusals.length === 0 && whole.task == null)
    return refused(refusal('bad_shape', 'trajectories', 'at least one trajectory', whole.trajectories));
  const trace = Trace.revised(NAME, record, episodeId);
  for (const member of members) addTrajectory(trace, member, refusals);
  addJudgements(trace, whole, members);
  return { ...trace.finish(runOf(whole, members), refusals), repeated: ids && record.ordinal > 0 };
}

const UNNAMED = 'default_traj_name';

type Member = { readonly native: JsonObject; readonly name: string; readonly agentId: string; readonly place: string };

/** How an episode ended that has no answer to judge. */
const BROKEN: Readonly<Record<string, 'error' | 'timeout'>> = { error: 'error', timeout: 'timeout' };

function runOf(whole: JsonObject, members: readonly Member[]) {
  const { is_correct: correct, termination_reason: reason, session_id: session } = whole;
  const nativeId = whole.id ?? whole.episode_id;
  const [, group, attempt] = (isIdentifier(nativeId) ? /^(.+):(\d{1,9})$/.exec(nativeId) : null) ?? [];
  const stop = typeof reason === 'string' ? reason : undefined;
  const judged = typeof correct !== 'boolean' ? 'unknown' : correct ? 'success' : 'failure';
  return {
    task: taskIn(whole.task ?? members[0]?.native.task),
    started: {
      native: { format: NAME, ids: given('id', nativeId) },
      session_id: isIdentifier(session) ? session : undefined,
      ...(group === undefined ? {} : { group_id: hashId(NAME, group), attempt: Number(attempt) }),
      tags: without({ step: whole.training_step ?? undefined, epoch: whole.epoch ?? undefined }),
      unmapped: without(whole, ...READ_OF_EPISODE),
    },
    agents: members.map(({ agentId, name }) => ({ agent_id: agentId, name, role: name })),
    finished: { outcome: (stop === undefined ? undefined : ownOf(BROKEN, stop)) ?? judged, stop_reason: stop } as const,
  };
}

function addJudgements(trace: Trace, { is_correct: correct, metrics }: JsonObject, members: readonly Member[]): void {
  for (const { native, agentId } of members) {
    const { reward, signals } = native;
    if (typeof reward === 'number') {
      trace.judged('reward', 'reward', reward, agentId);
      if (members.length === 1) trace.judged('reward', 'reward', reward);
    }
    for (const [name, value] of numbersIn(signals)) trace.judged('score', name, value, agentId);
  }
  if (typeof correct === 'boolean') trace.judged('score', 'is_correct', correct);
  for (const [name, value] of numbersIn(metrics)) trace.judged('score', name, value);
}

const numbersIn = (from: unknown) =>
  Object.entries(isRecord(from) ? from : {}).filter(
    (entry): entry is [string, number] => isIdentifier(entry[0]) && typeof entry[1] === 'number',
  );

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

function addTrajectory(trace: Trace, { native, agentId, place }: Member, refusals: NativeRefusal[]): void {
  const steps = native.steps as unknown[];
  const rewarded = steps.some((step) => isRecord(step) && typeof step.reward === 'number' && step.reward !== 0);
  let whole: { readonly messages: readonly ChatMessage[]; readonly turn: number } | undefined;
  for (const [turn, step] of steps.entries()) {
    const field = `${place}${place === '' ? '' : '.'}steps[${turn}]`;
    const talk = isRecord(step) ? talkOf(step, field) : { refusal: refusal('bad_type', field, 'a step object', step) };
    if (!isRecord(step) || 'refusal' in talk) {
      if ('refusal' in talk) refusals.push(talk.refusal);
      continue;
    }
    whole = { messages: talk.messages, turn };
    const callId = `${agentId}/${turn}`;
    const output = isRecord(step.model_output) ? step.model_output : {};
    const version = step.weight_version ?? output.weight_version ?? undefined;
    const info = isRecord(step.info) && Object.keys(step.info).length > 0 ? step.info : undefined;
    trace.rollout({
      ...{ callId, agentId, turn, input: talk.input, answer: talk.answer },
      finish: output.finish_reason,
      sampled: {
        prompt: isFilled(step.prompt_ids) ? step.prompt_ids : output.prompt_ids,
        ids: isFilled(step.response_ids) ? step.response_ids : output.completion_ids,
        logprobs: isFilled(step.logprobs) ? step.logprobs : output.logprobs,
      },
      completed: {
        ...usageOf(step, output),
        ...given('model_version', version === undefined ? undefined : asText(version)),
      },
      unmapped: without({ action: step.action ?? undefined, advantage: step.advantage ?? undefined, info }),
    });
    if (rewarded && typeof step.reward === 'number')
      trace.feedback(['reward', callId], {
        target: { kind: 'step', id: `${callId}/0`, episode_id: trace.episodeId },
        ...{ kind: 'reward', name: 'reward', value: step.reward, by: 'env' },
      });
  }
  if (whole) trace.lastResults({ callId: `${agentId}/${whole.turn}`, agentId, turn: whole.turn }, whole.messages);
}

const isFilled = (value: unknown): boolean => Array.isArray(value) && value.length > 0;

/** Lengths that the engine counted, where the tokens themselves are not there. */
function usageOf(step: JsonObject, { prompt_length: prompt, completion_length: completion }: JsonObject) {
  const known = isTokenIds(step.response_ids) && step.response_ids.length > 0;
  const counted = typeof completion === 'number' && completion > 0 && typeof prompt === 'number';
  return known || !counted ? {} : { usage: { input_tokens: prompt, output_tokens: completion } };
}

/** What the model was shown and answered; an evaluation may hold `input` and `output` alone. */
function talkOf(step: JsonObject, field: string) {
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
