/** Events of the OpenHands SDK, {kind, id, timestamp, source}, and the state of a conversation, which holds what was billed. */
import type { Content, Part } from '../../events/events.ts';
import { asText, canonicalJson, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { APPARENT_ERROR, resultFlags, UNKNOWN_RESULT } from '../kit/conversation.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import { partsOf } from '../kit/parts.ts';
import { chatCall } from '../kit/rollout-calls.ts';
import { usageOf } from '../kit/usage.ts';
import { type Item, idsIn } from './openhands-drafts.ts';

export const isSdkEvent = (record: unknown): record is JsonObject & { readonly kind: string } =>
  isRecord(record) &&
  typeof record.kind === 'string' &&
  typeof record.source === 'string' &&
  'id' in record &&
  'timestamp' in record;

export const isSdkState = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  isRecord(record.agent) &&
  isRecord(record.workspace) &&
  'id' in record &&
  ('execution_status' in record || 'agent_status' in record);

/** Notes for clients of a running conversation. */
const SILENT = new Set(['ConversationStateUpdateEvent', 'StreamingDeltaEvent', 'CondensationRequest', 'PauseEvent']);

export function sdkItems(events: readonly JsonObject[], state: JsonObject | null): Item[] {
  const byResponse = new Map<string, JsonObject[]>();
  for (const event of events)
    if (event.kind === 'ActionEvent' && isIdentifier(event.llm_response_id))
      byResponse.set(event.llm_response_id, [...(byResponse.get(event.llm_response_id) ?? []), event]);
  const emitted = new Set<unknown>();
  const billed = billedIn(state);
  let answer: string | undefined;
  const items = events.flatMap((event): Item[] => {
    const ids = idsIn(event.id);
    switch (event.kind) {
      case 'SystemPromptEvent': {
        const context = isRecord(event.dynamic_context) ? [event.dynamic_context] : [];
        const text = textIn([event.system_prompt, ...context]);
        return [{ kind: 'system', ids, text, tools: Array.isArray(event.tools) ? event.tools : undefined }];
      }
      case 'MessageEvent': {
        const message = isRecord(event.llm_message) ? event.llm_message : {};
        const more = Array.isArray(event.extended_content) ? event.extended_content : [];
        const content = [...(Array.isArray(message.content) ? message.content : []), ...more];
        if (event.source !== 'agent')
          return [{ kind: 'message', ids, role: roleOf(message, event), content: contentOf(content) }];
        return [answerItem([event], { text: content, thought: message.reasoning_content })];
      }
      case 'ActionEvent': {
        if (isRecord(event.action) && event.action.kind === 'FinishAction') answer = finalIn(event.action);
        const group = byResponse.get(asText(event.llm_response_id)) ?? [event];
        if (emitted.has(group)) return [];
        emitted.add(group);
        return [
          answerItem(group, {
            text: group.flatMap(({ thought }) => (Array.isArray(thought) ? thought : [])),
            thought: group.map(({ reasoning_content: thought }) => thought).find((one) => typeof one === 'string'),
          }),
        ];
      }
      case 'ObservationEvent':
      case 'UserRejectObservation':
      case 'AgentErrorEvent':
        return [resultOf(event, ids)];
      case 'TokenEvent':
        return [{ kind: 'tokens', prompt: event.prompt_token_ids, sampled: event.response_token_ids }];
      case 'Condensation':
        return [
          {
            kind: 'forgot',
            ids: new Set(Array.isArray(event.forgotten_event_ids) ? idsIn(...event.forgotten_event_ids) : []),
            summary: typeof event.summary === 'string' ? event.summary : null,
            offset: Number.isSafeInteger(event.summary_offset) ? Math.max(0, event.summary_offset as number) : null,
            content: without(event, 'id', 'timestamp', 'kind', 'source', 'parent_id'),
          },
        ];
      default:
        if (SILENT.has(asText(event.kind)) || !isIdentifier(event.kind)) return [];
        return [{ kind: 'observed', name: event.kind, content: without(event, 'id', 'timestamp', 'kind') ?? {} }];
    }
  });
  const status = state?.execution_status ?? state?.agent_status;
  return [
    ...items,
    { kind: 'end', answer: answer || undefined, stop: typeof status === 'string' ? status : undefined },
  ];

  function answerItem(
    group: readonly JsonObject[],
    { text, thought }: { text: readonly unknown[]; thought: unknown },
  ): Item {
    const [event] = group as [JsonObject];
    const calls = group.flatMap((one) => (isRecord(one.tool_call) ? [chatCall(one.tool_call, asText(one.id))] : []));
    const response = isIdentifier(event.llm_response_id) ? event.llm_response_id : null;
    const { usage, model, latency } = (response === null ? null : billed.get(response)) ?? {};
    const message: ChatMessage = {
      role: 'assistant',
      content: textIn(text),
      ...(typeof thought === 'string' && thought !== '' ? { reasoning_content: thought } : {}),
      ...(calls.length > 0 ? { tool_calls: calls.filter(isNamed) } : {}),
    };
    return {
      kind: 'answer',
      ids: idsIn(...group.map(({ id }) => id)),
      callId: response ?? `e${asText(event.id)}`.slice(0, 200),
      message,
      finish: finishReasonIn(event.llm_message, event),
      about: {
        ...(response === null ? {} : { response_id: response }),
        ...(usage ? { usage } : {}),
        ...(typeof model === 'string' ? { response_model: model } : {}),
        ...(typeof latency === 'number' ? { latency_ms: 1000 * latency } : {}),
      },
    };
  }
}

const isNamed = (call: unknown): boolean =>
  isRecord(call) && isRecord(call.function) && isIdentifier(call.function.name);

type BilledUsage = { usage?: Record<string, unknown> | undefined; model?: unknown; latency?: unknown };

/** What each response was billed and how long it took, over all models of the conversation. */
function billedIn(state: JsonObject | null): ReadonlyMap<string, BilledUsage> {
  const billed = new Map<string, BilledUsage>();
  const stats = isRecord(state?.stats) ? state.stats : {};
  const metrics = [stats.usage_to_metrics, stats.service_to_metrics].find(isRecord) ?? {};
  for (const one of Object.values(metrics).filter(isRecord)) {
    const usages = Array.isArray(one.token_usages) ? one.token_usages : [];
    // A price is known to be that of a response where each has one.
    const costs = Array.isArray(one.costs) && one.costs.length === usages.length ? one.costs : [];
    for (const [i, usage] of usages.entries())
      if (isRecord(usage) && isIdentifier(usage.response_id))
        billed.set(usage.response_id, {
          usage: usageOf({
            ...without(usage, 'model', 'response_id', 'context_window', 'per_turn_token'),
            ...(isRecord(costs[i]) ? { cost: costs[i].cost } : {}),
          }),
          model: usage.model,
        });
    for (const took of Array.isArray(one.response_latencies) ? one.response_latencies.filter(isRecord) : [])
      if (isIdentifier(took.response_id))
        billed.set(took.response_id, { ...billed.get(took.response_id), latency: took.latency });
  }
  return billed;
}

function resultOf({ kind, observation: seen, ...event }: JsonObject, ids: string[]): Item {
  const callId = isIdentifier(event.tool_call_id) ? event.tool_call_id : `e${ids[0] ?? ''}`;
  const result = { kind: 'result', ids, callId } as const;
  if (kind === 'UserRejectObservation')
    return { ...result, status: 'denied', output: asText(event.rejection_reason ?? '') };
  if (kind === 'AgentErrorEvent') return { ...result, status: 'error', output: asText(event.error ?? '') };
  if (!isRecord(seen)) return { ...result, status: 'ok', output: partsOf(seen ?? ''), flags: [UNKNOWN_RESULT] };
  const { kind: _, content, is_error, ...rest } = seen;
  const more = Array.isArray(event.extended_content) ? event.extended_content : [];
  const blocks = content == null ? [{ type: 'text', text: canonicalJson(rest) }] : [content].flat();
  const failed = is_error === true || (typeof seen.error === 'string' && seen.error !== '');
  const isFailed = !failed && typeof seen.exit_code === 'number' && seen.exit_code > 0;
  return {
    ...result,
    status: failed ? 'error' : 'ok',
    output: contentOf([...blocks, ...more]),
    flags: isFailed ? [APPARENT_ERROR] : resultFlags(content).flags,
  };
}

const roleOf = ({ role }: JsonObject, { source }: JsonObject): string =>
  role === 'user' || role === 'system' ? role : source === 'user' ? 'user' : 'environment';

const textIn = (blocks: readonly unknown[]): string =>
  blocks.flatMap((block) => (isRecord(block) && typeof block.text === 'string' ? [block.text] : [])).join('\n');

/** One text as it is; images are the places where they lie. */
function contentOf(blocks: readonly unknown[]): Content {
  const parts = blocks.flatMap((block) => {
    if (!isRecord(block)) return partsOf([block]) as Part[];
    if (typeof block.text === 'string') return [{ type: 'text', content: block.text }];
    if (Array.isArray(block.image_urls))
      return block.image_urls.map((uri: unknown) => ({ type: 'uri', modality: 'image', uri }));
    return [{ ...block, type: isIdentifier(block.type) ? block.type : 'json' }];
  });
  const [only] = parts;
  return parts.length === 0
    ? ''
    : parts.length === 1 && only?.type === 'text' && 'content' in only
      ? asText(only.content)
      : parts;
}

const finalIn = ({ message }: JsonObject): string | undefined => (typeof message === 'string' ? message : undefined);
