/** One step of an ATIF trajectory as events. Each carries the key of its trajectory and the number of its step, to find its way back. */
import type { Content, Draft, Message } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { toContent, toMessage } from '../kit/chat-message.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import type { Emitter } from '../kit/native.ts';
import { timeOfText } from '../kit/run.ts';
import { withOurs } from '../kit/usage.ts';
import { callIdOf, isCall, isCopied, type Numbering, referencesOf, type Trajectory } from './atif-trajectory.ts';

/** The events of a step; `input`, the conversation before it where that is known, is extended by the messages of the step. */
export function trajectorySteps(
  emit: Emitter,
  trajectory: Trajectory,
  step: JsonObject,
  input: Message[] | null,
  numbering: Numbering,
): Draft[] {
  const stepDrafts = stepEmitter(emit, trajectory, step, numbering);
  const message = step.source === 'agent' ? toMessage(asChat(step)) : plainMessage(step);
  const before = input && [...input];
  input?.push(message, ...answersOf(step));
  if (step.source !== 'agent') return [stepDrafts.message(step.source as string, message), ...stepDrafts.handOvers()];
  if (isCopied(step)) return [stepDrafts.message(trajectory.agent, message, ['copied_context'])];
  if (isCall(step)) return [...stepDrafts.generation(message, before), ...stepDrafts.tools(true)];
  const calls = stepDrafts.tools(false);
  const hasText = step.message !== '' || calls.length === 0;
  return hasText
    ? [stepDrafts.message(trajectory.agent, plainMessage({ ...step, source: 'assistant' })), ...calls]
    : calls;
}

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

function stepEmitter(emit: Emitter, trajectory: Trajectory, step: JsonObject, numbering: Numbering) {
  const { episodeId, key, agent } = trajectory;
  const time = timeOfText(step.timestamp);
  const callId = callIdOf(trajectory, step);
  const native = { trajectory: key, step: step.step_id, source: step.source, ...given('timestamp', step.timestamp) };
  const place = [episodeId, key, step.step_id as number];
  const here = () => ({ episode_id: episodeId, seq: numbering.next() });

  const message = (from: string, { role, content }: Message, flags?: string[]): Draft => {
    const mapped = isCall(step) || isCopied(step) || step.source !== 'agent' ? [] : ['tool_calls', 'observation'];
    const rest = without(
      step,
      'step_id',
      'source',
      'message',
      'timestamp',
      ...mapped,
      ...(isCopied(step) ? ['tool_calls', 'reasoning_content'] : []),
    );
    return emit.event(
      'message.sent',
      place,
      {
        ...here(),
        message_id: callId,
        from,
        role,
        ...given('content', content),
        native: { ...native, ...(isCopied(step) && callsOf(step).length > 0 ? { tool_calls: step.tool_calls } : {}) },
        ...given('flags', flags),
        ...given('unmapped', rest && { step: rest }),
      },
      time,
    );
  };

  const generation = (output: Message, before: readonly Message[] | null): Draft[] => {
    const call = { ...here(), call_id: callId, agent_id: agent };
    const { model_name: model, metrics: given_, ...others } = step;
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
        ...(typeof model === 'string' ? {} : { model_name: model }),
        ...(isRecord(given_) ? {} : { metrics: given_ }),
      },
      'step_id',
      'source',
      'message',
      'timestamp',
      'tool_calls',
      'observation',
      ...(typeof step.reasoning_content === 'string' ? ['reasoning_content'] : []),
    );
    return [
      emit.event(
        'generation.requested',
        place,
        {
          ...call,
          ...(typeof model === 'string' ? { model } : {}),
          ...(before ? { input: [...before] } : {}),
          ...given('tools', (trajectory.document.agent as JsonObject).tool_definitions),
          native,
        },
        time,
      ),
      emit.event(
        'generation.completed',
        place,
        {
          ...call,
          choices: [
            {
              index: 0,
              content: output.content as Content,
              ...given('finish_reason', finishReasonIn(extra, step.extra)),
              ...given('token_ids', tokens),
              ...given('logprobs', probabilities),
            },
          ],
          ...(isTokenIds(prompt) ? { prompt_token_ids: prompt } : {}),
          ...(typeof model === 'string' ? { response_model: model } : {}),
          ...(isRecord(given_) ? { usage: withOurs(usage) } : {}),
          native,
          ...(logprobs != null && !probabilities ? { flags: ['logprobs_mismatch'] } : {}),
          ...given('unmapped', without({ step: rest, metrics: restOfMetrics })),
        },
        time,
      ),
    ];
  };

  const tools = (called: boolean): Draft[] => {
    const own = called ? { call_id: callId } : {};
    const carries = !called && step.message === '';
    const rest = without(step, 'step_id', 'source', 'message', 'timestamp', 'tool_calls', 'observation');
    return [
      ...callsOf(step).map(({ tool_call_id: id, function_name: name, arguments: asked, ...more }, index) =>
        emit.event(
          'tool.called',
          [...place, index],
          {
            ...here(),
            ...own,
            agent_id: agent,
            tool_call_id: numbering.call(`${key}/${asText(id)}`),
            index,
            name: name as string,
            type: 'function',
            arguments: asked,
            native: { ...native, tool_call_id: id, ...(carries && index === 0 ? { carries: true } : {}) },
            ...given('unmapped', without({ call: without(more), ...(carries && index === 0 ? { step: rest } : {}) })),
          },
          time,
        ),
      ),
      ...resultsOf(step).flatMap((result, i) => answer(result, i, own)),
    ];
  };

  const answer = (result: JsonObject, index: number, own: { call_id?: string }): Draft[] => {
    const { source_call_id: source, content, ...more } = result;
    const call = answeredIn(step, result);
    const answered = call === null ? null : numbering.result(`${key}/${asText(call)}`);
    const about = { ...here(), ...own, native: { ...native, result: index, ...given('source_call_id', source) } };
    const unmapped = given('unmapped', without(more));
    const parts = toContent(content);
    return [
      answered === null
        ? emit.event(
            'environment.observed',
            [...place, 'result', index],
            { ...about, kind: 'output', ...given('content', parts), ...unmapped },
            time,
          )
        : emit.event(
            'tool.returned',
            [...place, 'result', index],
            {
              ...about,
              tool_call_id: answered,
              status: isError(more.extra) ? 'error' : 'ok',
              ...given('output', parts),
              ...unmapped,
            },
            time,
          ),
      ...referencesOf(result).flatMap((reference, n) => handOver(reference, answered, [index, n])),
    ];
  };

  const handOver = (reference: JsonObject, toolCall: string | null, at: readonly number[]): Draft[] => {
    const { trajectory_id: id, session_id: session } = reference;
    const child = trajectory.children.find((one) => one.document.trajectory_id === id);
    const to = child?.agent ?? id ?? session ?? reference.trajectory_path;
    if (!isIdentifier(to)) return [];
    const elsewhere = !child && isIdentifier(session) && session !== episodeId;
    return [
      emit.event(
        'control.transferred',
        [...place, 'to', ...at],
        {
          ...here(),
          from_agent: agent,
          to_agent: to,
          kind: 'delegate',
          ...(toolCall === null ? {} : { tool_call_id: toolCall }),
          ...(elsewhere ? { child_episode_id: session } : {}),
        },
        time,
      ),
    ];
  };
  /** Hand-overs of a step that calls no tool: a program hands over between its turns. */
  const handOvers = (): Draft[] =>
    resultsOf(step).flatMap((result, i) =>
      referencesOf(result).flatMap((reference, n) => handOver(reference, null, [i, n])),
    );
  return { message, generation, tools, handOvers };
}

/** Beside a result, as the converters of Harbor say it: of Claude Code, Pi and Kimi. */
const isError = (extra: unknown): boolean =>
  isRecord(extra) && (extra.tool_result_is_error === true || extra.is_error === true);

const isTokenIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0 && id < 2 ** 31);
const isNumbers = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'number' && Math.abs(one) <= 3.4e38);
