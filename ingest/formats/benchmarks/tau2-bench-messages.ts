/** Messages of a tau2-bench simulation. The agent sees no call and no result of the user's own tools. */
import type { Message } from '../../events/events.ts';
import { asText, canonicalJson, given, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { readArguments, toMessage } from '../kit/chat-message.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import type { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';

export type Native = Readonly<Record<string, unknown>>;

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

/** `seq` counts the messages; several results in one message are one each. */
export function addMessages(trace: Trace, messages: readonly Native[], model?: string, params?: Native): void {
  /** Calls without an answer, oldest first: results may come without an id. */
  let open: { readonly id: string; readonly by: string }[] = [];
  const answered = ({ id, requestor }: Native): { readonly id: string; readonly own: string } | null => {
    const by = requestor === 'user' ? 'user' : AGENT;
    const call = isIdentifier(id) ? { id, by } : open.find((one) => one.by === by);
    if (call === undefined) return null;
    const at = open.findIndex((one) => one.id === call.id);
    open = open.filter((_, i) => i !== at);
    return { id: call.id, own: trace.ledger.result(call.id) };
  };
  const called = (message: Native, seq: number, more: { readonly call_id?: string; readonly turn?: number }): void => {
    const by = message.role === 'user' ? 'user' : AGENT;
    for (const [index, call] of callsOf(message, seq).entries()) {
      const id = call.id as string;
      open.push({ id, by });
      trace.tool(seq, index, id, {
        ...more,
        agent_id: trace.member(by),
        name: call.name as string,
        type: 'function',
        arguments: call.arguments ?? null,
      });
    }
  };
  const seen: Message[] = [];
  let turn = 0;
  for (const [seq, message] of messages.flatMap(flat).entries()) {
    const role = asText(message.role);
    const content = typeof message.content === 'string' ? message.content : undefined;
    if (role === 'tool') {
      const answers = answered(message);
      if (message.requestor !== 'user') seen.push(shown({ ...message, id: answers?.id ?? '' }, seq));
      trace.add('tool.returned', [seq], {
        seq,
        tool_call_id: answers?.own ?? `m${seq}`,
        status: message.error === true ? 'error' : 'ok',
        output: content,
        native: { tool_call_id: message.id ?? undefined },
      });
    } else if (role === 'assistant' && !(seq === 0 && isGreeting(message))) {
      const call = { seq, call_id: `m${seq}`, agent_id: AGENT, turn: turn++ };
      const response = responseOf(message.raw_data);
      trace.add('generation.requested', [seq], { ...call, input: [...seen], model, params });
      seen.push(shown(message, seq));
      const seconds = message.generation_time_seconds;
      trace.add('generation.completed', [seq], {
        ...call,
        choices: [{ index: 0, content: shown(message, seq, response).content, finish_reason: response.finishReason }],
        response_id: response.id,
        response_model: response.model,
        usage: usageOf(message.usage),
        latency_ms: typeof seconds === 'number' ? 1000 * seconds : undefined,
        unmapped: without({ cost: message.cost ?? undefined }),
      });
      called(message, seq, { call_id: `m${seq}`, turn: call.turn });
    } else {
      // A greeting of the benchmark's own, or a user: one who only uses a tool of its own says nothing to the agent.
      const calls = callsOf(message, seq).length;
      if (calls === 0) seen.push(shown(message, seq));
      if (calls === 0 || (content !== undefined && content !== ''))
        trace.add('message.sent', [seq], {
          seq,
          message_id: `m${seq}`,
          from: role === 'assistant' ? AGENT : role,
          role,
          content,
          unmapped: without({ usage: message.usage ?? undefined, cost: message.cost ?? undefined }),
        });
      called(message, seq, {});
    }
  }
}

/** The benchmark lets the agent begin with a text that no model wrote. */
const isGreeting = ({ usage, raw_data: raw, tool_calls: calls }: Native): boolean => !usage && !raw && !calls;

const flat = (message: Native): readonly Native[] =>
  Array.isArray(message.tool_messages)
    ? message.tool_messages.map((one: Native) => ({ ...one, role: 'tool' }))
    : [message];

/** With an id where it came with an empty one. */
const callsOf = ({ tool_calls: calls }: Native, seq: number): Native[] =>
  Array.isArray(calls)
    ? calls
        .filter((call): call is Native => isRecord(call) && isIdentifier(call.name))
        .map((call, at) => (isIdentifier(call.id) ? call : { ...call, id: `m${seq}/${at}` }))
    : [];

/** What the model server answered, which the benchmark keeps beside what it read of it. */
type Response = {
  readonly id: string | undefined;
  readonly model: string | undefined;
  readonly finishReason: string | undefined;
  readonly reasoning: string | undefined;
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
    id: isIdentifier(id) ? id : undefined,
    model: typeof model === 'string' ? model : undefined,
    finishReason: typeof finishReason === 'string' ? finishReason : undefined,
    reasoning: typeof reasoning === 'string' && reasoning !== '' ? reasoning : undefined,
    written: new Map(written),
  };
}

/** As the chat API says it. Reasoning is in the answer of a call only: the benchmark does not show it to the model again. */
function shown(message: Native, seq: number, response?: Response): Message {
  const { role, content } = message;
  const calls = callsOf(message, seq);
  const argumentsOf = ({ id, arguments: read }: Native): unknown => {
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
