/** Events of OpenHands until 2025: actions {id, source, action, args} and observations {source, observation, content, extras, cause}. */
import { asText, canonicalJson, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { badMessage, type ChatMessage } from '../kit/chat-message.ts';
import { APPARENT_ERROR, resultFlags } from '../kit/conversation.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import { partsOf } from '../kit/parts.ts';
import { chatCall } from '../kit/rollout-calls.ts';
import { usageOf } from '../kit/usage.ts';
import { type Item, idsIn } from './openhands-drafts.ts';

export const isEarlyEvent = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  typeof record.source === 'string' &&
  (typeof record.action === 'string'
    ? isRecord(record.args)
    : typeof record.observation === 'string' && 'content' in record && 'extras' in record);

/** What the program does by itself, not its model. */
const OWN = new Set(['system', 'recall', 'change_agent_state', 'condensation', 'condensation_request', 'null']);
OWN.add('loop_recovery').add('pause').add('resume');
const SILENT = new Set([
  'change_agent_state',
  'agent_state_changed',
  'null',
  'condensation_request',
  'pause',
  'resume',
]);

export function earlyItems(events: readonly JsonObject[]): Item[] {
  const answered = new Set<string>();
  const asked = new Map<string, string>();
  const billed = billing();
  let stop: string | undefined;
  let answer: string | undefined;
  const items = events.flatMap((event, place): Item[] => {
    const args = isRecord(event.args) ? event.args : {};
    const ids = idsIn(event.id ?? place);
    const { action } = event;
    if (typeof action !== 'string') return observationItems(event, ids);
    if (action === 'system') return [systemOf(args, ids)];
    if (action === 'message' && event.source !== 'agent')
      return [
        { kind: 'message', ids, role: event.source === 'user' ? 'user' : 'environment', content: contentIn(args) },
      ];
    if (action === 'condensation') return [forgottenIn(args)];
    if (OWN.has(action) || event.source !== 'agent')
      return SILENT.has(action) ? [] : [{ kind: 'observed', name: action, content: args }];
    const reply = answerOf(event, args, place);
    // An empty observation follows a message too, which is no tool.
    if (action !== 'message') asked.set(ids[0] ?? '', reply.toolCallId);
    if (action === 'finish') answer = finalIn(args);
    if (action === 'finish' || action === 'reject') stop = action;
    const items: Item[] = answered.has(reply.item.callId) ? [] : [reply.item];
    answered.add(reply.item.callId);
    if (action !== 'delegate' || !isIdentifier(args.agent)) return items;
    const task = isRecord(args.inputs) ? args.inputs : {};
    const content = typeof task.task === 'string' ? task.task : canonicalJson(task);
    return [...items, { kind: 'delegate', to: args.agent, callId: reply.toolCallId, task: content }];
  });
  return [...items, { kind: 'end', answer, stop }];

  function observationItems(event: JsonObject, ids: string[]): Item[] {
    const kind = event.observation as string;
    const extras = isRecord(event.extras) ? event.extras : {};
    if (kind === 'agent_state_changed' && extras.agent_state === 'error') stop = 'error';
    const metadata = isRecord(event.tool_call_metadata) ? event.tool_call_metadata : {};
    const cause = Number.isSafeInteger(event.cause) ? asked.get(asText(event.cause)) : undefined;
    const callId = isIdentifier(metadata.tool_call_id) ? metadata.tool_call_id : cause;
    const back: Item[] = kind === 'delegate' ? [{ kind: 'return' }] : [];
    if (callId === undefined)
      return SILENT.has(kind)
        ? back
        : [...back, { kind: 'observed', name: kind, content: { content: event.content, extras } }];
    const status = kind === 'error' ? 'error' : kind === 'user_rejected' ? 'denied' : 'ok';
    const isFailed = status === 'ok' && (event.success === false || exitCodeOf(extras) > 0);
    const flags = isFailed ? [APPARENT_ERROR] : resultFlags(event.content).flags;
    return [...back, { kind: 'result', ids, callId, status, output: partsOf(event.content ?? ''), flags }];
  }

  /** The whole response is stored beside each of its actions; without it the action is all that is known of the model's output. */
  function answerOf(event: JsonObject, args: JsonObject, place: number) {
    const metadata = isRecord(event.tool_call_metadata) ? event.tool_call_metadata : {};
    const response = isRecord(metadata.model_response) ? metadata.model_response : {};
    const [choice] = Array.isArray(response.choices) ? response.choices.filter(isRecord) : [];
    const written = isRecord(choice?.message) ? messageOf(choice.message) : null;
    const id = idsIn(event.id ?? place)[0] ?? String(place);
    const toolCallId = isIdentifier(metadata.tool_call_id) ? metadata.tool_call_id : `e${id}`;
    const callId = written && isIdentifier(response.id) ? response.id : `e${id}`;
    const fresh = !answered.has(callId);
    const usage = billed(event.llm_metrics, written ? (usageOf(response.usage) ?? {}) : undefined, fresh);
    const item: Item & { readonly kind: 'answer' } = {
      kind: 'answer',
      ids: idsIn(event.id ?? place),
      callId,
      message: written ?? messageFrom(event, args, toolCallId),
      about:
        without({
          response_model: typeof response.model === 'string' ? response.model : undefined,
          usage: without(usage),
        }) ?? {},
      finish: finishReasonIn(choice, response),
    };
    return { item, toolCallId };
  }
}

/** What answers were billed, of counts over the whole run: their own usage where it is known, else what was added since the answer before. */
function billing() {
  const before = { input: 0, output: 0, cost: 0 };
  return (metrics: unknown, own: Record<string, unknown> | undefined, isFresh: boolean): Record<string, unknown> => {
    const { accumulated_cost: cost, accumulated_token_usage: all } = isRecord(metrics) ? metrics : {};
    const usage = own ?? grown(all);
    if (!isFresh) return usage;
    before.input += Number(usage.input_tokens ?? 0);
    before.output += Number(usage.output_tokens ?? 0);
    if (typeof cost !== 'number' || !(cost > before.cost)) return usage;
    const cost_usd = cost - before.cost;
    before.cost = cost;
    return { ...usage, cost_usd };
  };

  function grown(all: unknown) {
    const { prompt_tokens: input, completion_tokens: output } = isRecord(all) ? all : {};
    const isKnown = typeof input === 'number' && typeof output === 'number';
    if (!isKnown || (input <= before.input && output <= before.output)) return {};
    return { input_tokens: input - before.input, output_tokens: output - before.output };
  }
}

/** A message of LiteLLM without the members that are null; null where it is no message. */
function messageOf(native: JsonObject): ChatMessage | null {
  const { tool_calls: calls, provider_specific_fields: _, ...rest } = native;
  const asked = Array.isArray(calls) ? calls.map((call, i) => chatCall(call, `call/${i}`)) : [];
  const filled = Object.fromEntries(
    Object.entries(rest).filter(([name, value]) => value !== null || name === 'content'),
  );
  const message = { ...filled, ...(asked.length > 0 ? { tool_calls: asked } : {}) };
  return badMessage(message, 'message') === null ? (message as ChatMessage) : null;
}

function messageFrom(event: JsonObject, args: JsonObject, id: string): ChatMessage {
  if (event.action === 'message')
    return { role: 'assistant', content: typeof args.content === 'string' ? args.content : '' };
  const call = { id, name: event.action, arguments: without(args, 'thought') ?? {} };
  return {
    role: 'assistant',
    content: typeof args.thought === 'string' ? args.thought : '',
    tool_calls: [chatCall(call, id)],
  };
}

const systemOf = (args: JsonObject, ids: string[]): Item => ({
  kind: 'system',
  ids,
  text: typeof args.content === 'string' ? args.content : '',
  tools: Array.isArray(args.tools) ? args.tools : undefined,
  ...(isIdentifier(args.agent_class) ? { agent: args.agent_class } : {}),
});

function contentIn(args: JsonObject) {
  const urls = Array.isArray(args.image_urls) ? args.image_urls.filter((url) => typeof url === 'string') : [];
  const text = typeof args.content === 'string' ? args.content : '';
  if (urls.length === 0) return text;
  return [{ type: 'text', content: text }, ...urls.map((uri) => ({ type: 'uri', modality: 'image', uri }))];
}

/** A range forgets all between its ends. */
function forgottenIn(args: JsonObject): Item {
  const { forgotten_event_ids: list, forgotten_events_start_id: from, forgotten_events_end_id: to } = args;
  const ids = new Set(Array.isArray(list) ? idsIn(...list) : []);
  if (Number.isSafeInteger(from) && Number.isSafeInteger(to) && (to as number) - (from as number) < 1_000_000)
    for (let id = from as number; id <= (to as number); id++) ids.add(String(id));
  return {
    kind: 'forgot',
    ids,
    summary: typeof args.summary === 'string' ? args.summary : null,
    offset: Number.isSafeInteger(args.summary_offset) ? Math.max(0, args.summary_offset as number) : null,
    content: args,
  };
}

function finalIn({ final_thought: final, outputs, thought }: JsonObject): string | undefined {
  const content = isRecord(outputs) ? outputs.content : undefined;
  return [final, content, thought].find((text): text is string => typeof text === 'string' && text !== '');
}

function exitCodeOf({ metadata, exit_code: code }: JsonObject): number {
  const found = isRecord(metadata) ? metadata.exit_code : code;
  return typeof found === 'number' ? found : 0;
}
