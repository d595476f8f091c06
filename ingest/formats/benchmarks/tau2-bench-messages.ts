/** Messages of a tau2-bench simulation. The agent sees no call and no result of the user's own tools. */
import type { Draft, Message } from '../../events/events.ts';
import { asText, canonicalJson, given, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { readArguments, toMessage } from '../kit/chat-message.ts';
import { toolLedger } from '../kit/conversation.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { type Emitter, refusal } from '../kit/native.ts';
import { usageOf } from '../kit/usage.ts';

export type Fields = Readonly<Record<string, unknown>>;

export const AGENT = 'agent';
const ROLES: ReadonlySet<unknown> = new Set(['system', 'user', 'assistant', 'tool']);

/** Why a list holds no messages; null where it does. */
export function badMessages(messages: unknown, field: string, ticks: unknown): NativeRefusal | null {
  if (!Array.isArray(messages) && Array.isArray(ticks))
    return refusal(
      'bad_shape',
      field,
      'messages; a full-duplex run holds ticks of audio, which are not read',
      messages,
    );
  if (!Array.isArray(messages)) return refusal('bad_type', field, 'a list of messages', messages);
  for (const [i, message] of messages.entries()) {
    if (!isRecord(message)) return refusal('bad_type', `${field}[${i}]`, 'a message object', message);
    const { role, content, tool_messages: several } = message;
    if (!ROLES.has(role)) return refusal('bad_shape', `${field}[${i}].role`, 'system, user, assistant or tool', role);
    if (content !== undefined && content !== null && typeof content !== 'string')
      return refusal('bad_type', `${field}[${i}].content`, 'a text or null', content);
    if (several !== undefined && !(Array.isArray(several) && several.every(isRecord)))
      return refusal('bad_type', `${field}[${i}].tool_messages`, 'a list of messages', several);
  }
  return null;
}

export type Played = { readonly episodeId: string; readonly model?: string; readonly params?: Fields };

/** `seq` counts the messages; several results in one message are one each. */
export function messageDrafts(
  emit: Emitter,
  messages: readonly Fields[],
  { episodeId, model, params }: Played,
): Draft[] {
  const ledger = toolLedger();
  /** Calls without an answer, oldest first: results may come without an id. */
  let open: { readonly id: string; readonly by: string }[] = [];
  const answered = ({ id, requestor }: Fields): { readonly id: string; readonly own: string } | null => {
    const by = requestor === 'user' ? 'user' : AGENT;
    const call = isIdentifier(id) ? { id, by } : open.find((one) => one.by === by);
    if (call === undefined) return null;
    const at = open.findIndex((one) => one.id === call.id);
    open = open.filter((_, i) => i !== at);
    return { id: call.id, own: ledger.result(call.id) };
  };
  const seen: Message[] = [];
  let turn = 0;
  return messages.flatMap(flat).flatMap((message, seq): Draft[] => {
    const role = asText(message.role);
    const content = typeof message.content === 'string' ? message.content : undefined;
    const about = { episode_id: episodeId, seq };
    const asked = callsOf(message, seq).map((call) => ({ call, own: ledger.call(call.id as string) }));
    const by = role === 'user' ? 'user' : AGENT;
    open.push(...asked.map(({ call }) => ({ id: call.id as string, by })));
    const called = (more: { readonly call_id?: string; readonly turn?: number }): Draft[] =>
      asked.map(({ call, own }, index) =>
        emit.event('tool.called', [episodeId, seq, index], {
          ...about,
          ...more,
          tool_call_id: own,
          index,
          agent_id: by,
          name: call.name as string,
          type: 'function',
          arguments: call.arguments ?? null,
          native: { tool_call_id: call.id },
        }),
      );
    if (role === 'tool') {
      const answers = answered(message);
      if (message.requestor !== 'user') seen.push(shown({ ...message, id: answers?.id ?? '' }, seq));
      return [
        emit.event('tool.returned', [episodeId, seq], {
          ...about,
          tool_call_id: answers?.own ?? `m${seq}`,
          status: message.error === true ? 'error' : 'ok',
          ...given('output', content),
          native: given('tool_call_id', message.id ?? undefined),
        }),
      ];
    }
    if (role === 'assistant' && !(seq === 0 && isGreeting(message))) {
      const input = [...seen];
      const call = { ...about, call_id: `m${seq}`, agent_id: AGENT, turn: turn++ };
      seen.push(shown(message, seq));
      const response = responseOf(message.raw_data);
      return [
        emit.event('generation.requested', [episodeId, seq], {
          ...call,
          input,
          ...given('model', model),
          ...given('params', params as Record<string, unknown> | undefined),
        }),
        emit.event('generation.completed', [episodeId, seq], {
          ...call,
          choices: [
            {
              index: 0,
              ...given('content', shown(message, seq, response).content),
              ...given('finish_reason', response.finishReason),
            },
          ],
          ...given('response_id', response.id),
          ...given('response_model', response.model),
          ...given('usage', usageOf(message.usage)),
          ...(typeof message.generation_time_seconds === 'number'
            ? { latency_ms: 1000 * message.generation_time_seconds }
            : {}),
          ...given('unmapped', without({ cost: message.cost ?? undefined })),
        }),
        ...called({ call_id: `m${seq}`, turn: call.turn }),
      ];
    }
    // A greeting of the benchmark's own, or a user: one who only uses a tool of its own says nothing to the agent.
    const silent = asked.length > 0 && (content === undefined || content === '');
    if (asked.length === 0) seen.push(shown(message, seq));
    const sent = {
      ...about,
      message_id: `m${seq}`,
      from: role === 'assistant' ? AGENT : role,
      role,
      ...given('content', content),
      ...given('unmapped', without({ usage: message.usage ?? undefined, cost: message.cost ?? undefined })),
    };
    return [...(silent ? [] : [emit.event('message.sent', [episodeId, seq], sent)]), ...called({})];
  });
}

/** The benchmark lets the agent begin with a text that no model wrote. */
const isGreeting = ({ usage, raw_data: raw, tool_calls: calls }: Fields): boolean => !usage && !raw && !calls;

const flat = (message: Fields): readonly Fields[] =>
  Array.isArray(message.tool_messages)
    ? message.tool_messages.map((one: Fields) => ({ ...one, role: 'tool' }))
    : [message];

/** With an id where it came with an empty one. */
const callsOf = ({ tool_calls: calls }: Fields, seq: number): Fields[] =>
  Array.isArray(calls)
    ? calls
        .filter((call): call is Fields => isRecord(call) && isIdentifier(call.name))
        .map((call, at) => (isIdentifier(call.id) ? call : { ...call, id: `m${seq}/${at}` }))
    : [];

/** What the model server answered, which the benchmark keeps beside what it read of it. */
type Response = {
  readonly id?: string;
  readonly model?: string;
  readonly finishReason?: string;
  readonly reasoning?: string;
  /** By id, the arguments of tool calls as the model wrote them. */
  readonly written: ReadonlyMap<unknown, string>;
};

function responseOf(raw: unknown): Response {
  const { id, model, choices } = isRecord(raw) ? raw : {};
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const { message, finish_reason: finishReason } = isRecord(choice) ? choice : {};
  const { reasoning_content: reasoning, tool_calls: calls } = isRecord(message) ? message : {};
  const written = (Array.isArray(calls) ? calls : []).flatMap((call: unknown) =>
    isRecord(call) && isRecord(call.function) && typeof call.function.arguments === 'string'
      ? [[call.id, call.function.arguments] as const]
      : [],
  );
  return {
    ...(isIdentifier(id) ? { id } : {}),
    ...(typeof model === 'string' ? { model } : {}),
    ...(typeof finishReason === 'string' ? { finishReason } : {}),
    ...(typeof reasoning === 'string' && reasoning !== '' ? { reasoning } : {}),
    written: new Map(written),
  };
}

/** As the chat API says it. Reasoning is in the answer of a call only: the benchmark does not show it to the model again. */
function shown(message: Fields, seq: number, response?: Response): Message {
  const { role, content } = message;
  const calls = callsOf(message, seq);
  const argumentsOf = ({ id, arguments: read }: Fields): unknown => {
    const written = response?.written.get(id);
    const isSame = canonicalJson(readArguments(written).arguments) === canonicalJson(read ?? {});
    return written !== undefined && isSame ? written : (read ?? {});
  };
  return toMessage({
    role: role as string,
    content: (content ?? null) as string | null,
    ...given('reasoning_content', response?.reasoning),
    ...(role === 'tool' ? { tool_call_id: asText(message.id ?? '') } : {}),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map((call) => ({
            id: call.id,
            type: 'function',
            function: { name: call.name, arguments: argumentsOf(call) },
          })),
        }),
  } as never);
}
