/** One step of an ATIF trajectory as events. Each carries the key of its trajectory and the number of its step, to find its way back. */
import type { Content, Message } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { toContent, toMessage } from '../kit/chat-message.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import { isTokenIds } from '../kit/rollout-calls.ts';
import { timeOfText } from '../kit/run.ts';
import type { Trace } from '../kit/trace.ts';
import { withOurs } from '../kit/usage.ts';
import { callIdOf, isCall, isCopied, referencesOf, type Trajectory } from './atif-trajectory.ts';

/** Adds the events of a step; `input`, the conversation before it where that is known, is extended by the messages of the step. */
export function addStep(
  trace: Trace,
  trajectory: Trajectory,
  native: JsonObject,
  input: Message[] | null,
  next: () => number,
): void {
  const step: Step = {
    ...{ trace, trajectory, native, next },
    callId: callIdOf(trajectory, native),
    place: [trajectory.key, native.step_id as number],
    origin: {
      ...{ trajectory: trajectory.key, step: native.step_id, source: native.source },
      ...given('timestamp', native.timestamp),
    },
    time: timeOfText(native.timestamp),
  };
  const message = native.source === 'agent' ? toMessage(asChat(native)) : plainMessage(native);
  const before = input && [...input];
  input?.push(message, ...answersOf(native));
  if (native.source !== 'agent') {
    addMessage(step, native.source as string, message);
    // A program hands over between its turns, without a call of a tool.
    for (const [i, result] of resultsOf(native).entries()) addHandOvers(step, result, i);
  } else if (isCopied(native)) {
    const calls = callsOf(native).length > 0 ? { tool_calls: native.tool_calls } : {};
    addMessage(step, trajectory.agent, message, ['tool_calls', 'reasoning_content'], {
      native: { ...step.origin, ...calls },
      flags: ['copied_context'],
    });
  } else if (isCall(native)) {
    addGeneration(step, message, before);
    addTools(step, true);
  } else {
    if (native.message !== '' || callsOf(native).length + resultsOf(native).length === 0)
      addMessage(step, trajectory.agent, plainMessage({ ...native, source: 'assistant' }), [
        'tool_calls',
        'observation',
      ]);
    addTools(step, false);
  }
}

type Step = {
  readonly trace: Trace;
  readonly trajectory: Trajectory;
  readonly native: JsonObject;
  readonly next: () => number;
  readonly callId: string;
  readonly place: readonly (string | number)[];
  readonly origin: JsonObject;
  readonly time: string | null;
};

/** What every step has that is in a place of its own, or in that of its events. */
const FRAME = ['step_id', 'source', 'message', 'timestamp'];

const asChat = (step: JsonObject) => ({
  role: 'assistant',
  content: step.message,
  ...given('reasoning_content', typeof step.reasoning_content === 'string' ? step.reasoning_content : undefined),
  ...(callsOf(step).length > 0
    ? {
        tool_calls: callsOf(step).map(({ tool_call_id: id, function_name: name, arguments: asked }) => ({
          id,
          type: 'function',
          function: { name, arguments: asked },
        })),
      }
    : {}),
});

const plainMessage = (step: JsonObject): Message => ({
  role: step.source as string,
  ...given('content', toContent(step.message) as Content),
});

const callsOf = (step: JsonObject): JsonObject[] => (step.tool_calls ?? []) as JsonObject[];
const resultsOf = (step: JsonObject): JsonObject[] =>
  isRecord(step.observation) ? ((step.observation.results ?? []) as JsonObject[]) : [];

/** The call that a result answers: the one it names, else the only one of a step with one result. */
function answeredIn(step: JsonObject, { source_call_id: source }: JsonObject): unknown {
  const [call, ...more] = callsOf(step);
  return source ?? (more.length === 0 && resultsOf(step).length === 1 ? call?.tool_call_id : null) ?? null;
}

const answersOf = (step: JsonObject): Message[] =>
  resultsOf(step).map((result) => ({
    role: 'tool',
    ...given('tool_call_id', answeredIn(step, result) ?? undefined),
    ...given('content', toContent(result.content) as Content),
  }));

function addMessage(
  { trace, native, next, callId, place, origin, time }: Step,
  from: string,
  { role, content }: Message,
  mapped: readonly string[] = [],
  more: { readonly native?: JsonObject; readonly flags?: string[] } = {},
): void {
  const rest = without(native, ...FRAME, ...mapped);
  const unmapped = rest && { step: rest };
  const data = { seq: next(), message_id: callId, from, role, content, native: origin, ...more, unmapped };
  trace.add('message.sent', place, data, time);
}

function addGeneration(
  { trace, trajectory, native: step, next, callId, place, origin: native, time }: Step,
  { content }: Message,
  before: Message[] | null,
): void {
  const { agent, document } = trajectory;
  const call = { seq: next(), call_id: callId, agent_id: agent };
  const { model_name, metrics: given_, reasoning_content: thought, ...others } = step;
  const model = typeof model_name === 'string' ? model_name : undefined;
  const metrics = (given_ ?? {}) as JsonObject;
  const { prompt_token_ids: prompt, completion_token_ids: ids, logprobs, extra, ...usage } = metrics;
  const tokens = isTokenIds(ids) ? ids : undefined;
  const probabilities = isNumbers(logprobs) && (!tokens || tokens.length === logprobs.length) ? logprobs : undefined;
  const restOfMetrics = without({
    extra,
    ...(isTokenIds(prompt) ? {} : { prompt_token_ids: prompt }),
    ...(tokens ? {} : { completion_token_ids: ids }),
    ...(probabilities ? {} : { logprobs }),
  });
  const rest = without(
    {
      ...others,
      ...(model === undefined ? { model_name } : {}),
      ...(isRecord(given_) ? {} : { metrics: given_ }),
      ...(typeof thought === 'string' ? {} : { reasoning_content: thought }),
    },
    ...[...FRAME, 'tool_calls', 'observation'],
  );
  const tools = (document.agent as JsonObject).tool_definitions;
  const shown = before ?? undefined;
  trace.add('generation.requested', place, { ...call, model, input: shown, tools, native }, time);
  const choice = {
    content,
    finish_reason: finishReasonIn(extra, step.extra),
    token_ids: tokens,
    logprobs: probabilities,
  };
  trace.add(
    'generation.completed',
    place,
    {
      ...call,
      choices: [{ index: 0, ...choice }],
      prompt_token_ids: isTokenIds(prompt) ? prompt : undefined,
      response_model: model,
      usage: isRecord(given_) ? withOurs(usage) : undefined,
      native,
      flags: logprobs != null && !probabilities ? ['logprobs_mismatch'] : undefined,
      unmapped: without({ step: rest, metrics: restOfMetrics }),
    },
    time,
  );
}

/** The tools of a step and their results. Without a call of a model and a message the first tool call carries what else the step says. */
function addTools(step: Step, called: boolean): void {
  const { trace, trajectory, native, next, callId, place, origin, time } = step;
  const own = { call_id: called ? callId : undefined };
  for (const [index, call] of callsOf(native).entries()) {
    const { tool_call_id: id, function_name: name, arguments: asked, ...more } = call;
    const carries = !called && native.message === '' && index === 0;
    trace.add(
      'tool.called',
      [...place, index],
      {
        seq: next(),
        ...own,
        agent_id: trajectory.agent,
        tool_call_id: trace.ledger.call(`${trajectory.key}/${asText(id)}`),
        index,
        name: name as string,
        type: 'function',
        arguments: asked,
        native: { ...origin, tool_call_id: id, ...(carries ? { carries } : {}) },
        unmapped: without({
          call: without(more),
          step: carries ? without(native, ...FRAME, 'tool_calls', 'observation') : undefined,
        }),
      },
      time,
    );
  }
  for (const [index, result] of resultsOf(native).entries()) {
    const { source_call_id: source, content, ...more } = result;
    const call = answeredIn(native, result);
    const answered = call === null ? undefined : trace.ledger.result(`${trajectory.key}/${asText(call)}`);
    const at = [...place, 'result', index];
    const about = { seq: next(), ...own, native: { ...origin, result: index, ...given('source_call_id', source) } };
    const [parts, unmapped] = [toContent(content), without(more)];
    if (answered === undefined)
      trace.add('environment.observed', at, { ...about, kind: 'output', content: parts, unmapped }, time);
    else {
      const status = isError(more.extra) ? 'error' : 'ok';
      trace.add('tool.returned', at, { ...about, tool_call_id: answered, status, output: parts, unmapped }, time);
    }
    addHandOvers(step, result, index, answered);
  }
}

function addHandOvers(
  { trace, trajectory, next, place, time }: Step,
  result: JsonObject,
  index: number,
  toolCall?: string,
): void {
  for (const [n, reference] of referencesOf(result).entries()) {
    const { trajectory_id: id, session_id: session } = reference;
    const child = trajectory.children.find((one) => one.document.trajectory_id === id);
    const to = child?.agent ?? id ?? session ?? reference.trajectory_path;
    if (!isIdentifier(to)) continue;
    const elsewhere = !child && isIdentifier(session) && session !== trace.episodeId;
    trace.add(
      'control.transferred',
      [...place, 'to', index, n],
      {
        seq: next(),
        from_agent: trajectory.agent,
        to_agent: to,
        kind: 'delegate',
        tool_call_id: toolCall,
        child_episode_id: elsewhere ? session : undefined,
      },
      time,
    );
  }
}

/** Beside a result, as the converters of Harbor say it: of Claude Code, Pi and Kimi. */
const isError = (extra: unknown): boolean =>
  isRecord(extra) && (extra.tool_result_is_error === true || extra.is_error === true);

const isNumbers = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'number' && Math.abs(one) <= 3.4e38);
