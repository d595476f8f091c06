/** A call through the gateway as drafts of events. Pure: ids and times are arguments. */
import { TroupeError } from '../../errors.ts';
import type { Draft } from '../../ingest/events/events.ts';
import { GATEWAY, gatewayEventId } from '../../ingest/events/gateway-events.ts';
import { toMessage } from '../../ingest/formats/kit/chat-message.ts';
import { INCOMPLETE } from '../../ingest/traces/trace.ts';
import type { SampleAnswer, SampleStart } from '../../trainer/sample/infer-wire.ts';
import type { Constraint } from './constraint.ts';
import type { CallContext, CompletionRequest, Prompt } from './request.ts';
import type { Sampling } from './sampling.ts';
import { finishOf, messageOf, toolEvents } from './tools.ts';
import { costOf } from './upstream/price.ts';
import type { Price } from './upstream/settings.ts';

export type RecordedCall = {
  readonly callId: string;
  readonly episodeId: string;
  readonly context: CallContext;
  readonly request: CompletionRequest;
  readonly seed: number;
  /** RFC 3339. */
  readonly requestedAt: string;
  readonly completedAt: string;
  readonly latencyMs: number;
  /** Of the policy's tokens; null where it has none. */
  readonly price?: Price | null;
  /** The response, or the error with what was sent before it. */
  readonly outcome:
    | { readonly answer: SampleAnswer; readonly responseId: string }
    | { readonly error: unknown; readonly sent?: PartialTexts | undefined };
};

/** Text that a client got of a response that did not end, by choice. */
export type PartialTexts = { readonly begun: SampleStart; readonly texts: Map<number, string> };

/**
 * generation.requested and generation.completed, with all candidates. A call without an episode is an episode of its own, opened,
 * flagged `no_episode` and finished here; otherwise the agent's program opens and finishes the episode.
 */
export function draftsOf(call: RecordedCall): Draft[] {
  const { request, outcome } = call;
  return callDrafts(call, {
    requested: { model: request.model, params: paramsOf(request, call.seed), ...inputOf(request.prompt) },
    completed: completion(call),
    beside: toolsOf(call),
    outcome: 'error' in outcome ? (isWithdrawn(outcome.error) ? 'aborted' : 'error') : 'unknown',
  });
}

/** Ids, context and times of a call. Times are RFC 3339. */
export type CallFrame = Pick<RecordedCall, 'callId' | 'episodeId' | 'context' | 'requestedAt' | 'completedAt'>;

/** Request and response in the fields of the events; `outcome` is that of an episode of one call. */
export type CallFields = {
  readonly requested: object;
  readonly completed: { readonly choices: readonly object[]; readonly [field: string]: unknown };
  readonly outcome: 'unknown' | 'aborted' | 'error';
  /** Events between the response and the end of the episode: tool calls, the raw record. */
  readonly beside?: readonly Draft[];
};

/** One call, and its own episode if it belongs to none. */
export function callDrafts(
  { callId, episodeId, context, requestedAt, completedAt }: CallFrame,
  { requested, completed, outcome, beside = [] }: CallFields,
): Draft[] {
  const { task, group, agent, role, turn, parent, replay } = context;
  const who = { agent_id: agent, role, turn };
  const draft = (name: Draft['name'], time: string, data: object): Draft =>
    ({
      name,
      source: GATEWAY,
      id: gatewayEventId(callId, name),
      time,
      data: { episode_id: episodeId, ...data },
    }) as unknown as Draft;
  const alone = context.episode === null;
  return [
    ...(alone
      ? [draft('episode.started', requestedAt, { task_id: task, group_id: group, flags: ['no_episode'] })]
      : []),
    draft('generation.requested', requestedAt, {
      call_id: callId,
      ...who,
      ...(task === null ? {} : { task_id: task }),
      ...(group === null ? {} : { group_id: group }),
      ...requested,
      ...(replay === undefined ? {} : { unmapped: { replay } }),
    }),
    draft('generation.completed', completedAt, { call_id: callId, ...who, ...expandedFrom(parent, completed) }),
    ...beside,
    ...(alone ? [draft('episode.finished', completedAt, { outcome, stop_reason: 'one call' })] : []),
  ];
}

/** All choices of a call are expanded from the same step. */
const expandedFrom = (parent: string | null, completed: CallFields['completed']): object =>
  parent === null
    ? completed
    : { ...completed, choices: completed.choices.map((choice) => ({ ...choice, parent_step_id: parent })) };

function completion({
  callId,
  request,
  seed,
  latencyMs,
  price = null,
  outcome,
}: RecordedCall): CallFields['completed'] {
  const { who, sampling } = request;
  const { temperature } = sampling;
  const given = { policy: who?.kind === 'policy' ? who.name : null, seed, temperature, latency_ms: latencyMs };
  if ('error' in outcome) return { ...given, ...cutOff(outcome.sent), error: errorFields(outcome.error) };
  const { answer } = outcome;
  const usage = { input_tokens: answer.usage.prompt_tokens, output_tokens: answer.usage.completion_tokens };
  return {
    ...given,
    choices: answer.choices.map((choice, index) => {
      const { text, called, stop_text: _, ...drawn } = choice;
      const content = called === undefined ? text : toMessage(messageOf(choice, callId, index)).content;
      return { index, content, ...drawn, finish_reason: finishOf(choice) };
    }),
    prompt_token_ids: answer.prompt_token_ids,
    response_id: outcome.responseId,
    response_model: answer.model,
    checkpoint_id: answer.checkpoint,
    usage: price === null ? usage : { ...usage, cost_usd: costOf(usage, price) },
  };
}

/** Token ids come with the end of a response, so one that was cut off has its text alone. */
const cutOff = (sent: PartialTexts | undefined) =>
  sent === undefined
    ? { choices: [] }
    : {
        choices: [...sent.texts].map(([index, content]) => ({ index, content, finish_reason: INCOMPLETE })),
        prompt_token_ids: sent.begun.prompt_token_ids,
        response_model: sent.begun.model,
        checkpoint_id: sent.begun.checkpoint,
        flags: [INCOMPLETE],
      };

/** Tool calls of the response, and tool results in the messages. */
function toolsOf({ callId, episodeId, context, request: { prompt }, completedAt, outcome }: RecordedCall): Draft[] {
  if (!('messages' in prompt)) return [];
  const { agent, turn } = context;
  const where = {
    episode_id: episodeId,
    call_id: callId,
    ...(agent === null ? {} : { agent_id: agent }),
    ...(turn === null ? {} : { turn }),
  };
  const choices = 'answer' in outcome ? outcome.answer.choices : [];
  const replies = choices.map((choice, index) => ({ index, message: messageOf(choice, callId, index) }));
  if (!prompt.messages.some(({ role }) => role === 'tool') && !replies.some(({ message }) => message.tool_calls))
    return [];
  return toolEvents(where, prompt.messages, replies, { source: GATEWAY, completedAt });
}

/** A prompt of token ids has no text: it is recorded with the response, as `prompt_token_ids`. */
function inputOf(prompt: Prompt): object {
  if ('ids' in prompt) return {};
  if ('text' in prompt) return { input: [{ role: 'user', content: prompt.text }], flags: ['text_prompt'] };
  return {
    input: prompt.messages.map(toMessage),
    ...(prompt.tools === null ? {} : { tools: prompt.tools }),
  };
}

const paramsOf = ({ sampling, constraint, stream, route, repeats }: CompletionRequest, seed: number) => ({
  ...sampled(sampling),
  ...(constraint === null ? {} : constrained(constraint)),
  seed,
  ...(stream === null ? {} : { stream: true }),
  ...(route === undefined ? {} : { route }),
  // Of the Responses API: whether the first message is the instructions, and which response the input goes on from.
  ...(repeats.instructions ? { instructions: true } : {}),
  ...(repeats.previous_response_id ? { previous_response_id: repeats.previous_response_id } : {}),
});

/** As the chat interface writes it, whichever interface asked. */
const constrained = (constraint: Constraint) =>
  'schema' in constraint
    ? { response_format: { type: 'json_schema', json_schema: { schema: constraint.schema } } }
    : {
        tool_choice: constraint.tool === null ? 'required' : { type: 'function', function: { name: constraint.tool } },
      };

const sampled = ({ n, temperature, topK, topP, minP, maxTokens, stop, topLogprobs, oneCall }: Sampling) => ({
  n,
  temperature,
  ...(topK === 0 ? {} : { top_k: topK }),
  ...(topP === 1 ? {} : { top_p: topP }),
  ...(minP === 0 ? {} : { min_p: minP }),
  ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
  ...(stop.length === 0 ? {} : { stop }),
  ...(topLogprobs === 0 ? {} : { top_logprobs: topLogprobs }),
  ...(oneCall ? { parallel_tool_calls: false } : {}),
});

const isWithdrawn = (error: unknown): boolean => error instanceof TroupeError && error.code === 'interrupted';

const errorFields = (error: unknown) =>
  error instanceof TroupeError
    ? { code: error.code, message: error.message }
    : { code: 'internal', message: 'an unexpected error' };
