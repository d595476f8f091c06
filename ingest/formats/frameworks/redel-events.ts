/** The events of a ReDel session, one by one, as ours. Their messages are those of kani, the library under ReDel. */
import type { EventData } from '../../events/events.ts';
import { asText, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type ChatMessage, readArguments, toMessage } from '../kit/chat-message.ts';
import { toolLedger } from '../kit/conversation.ts';
import { partsOf } from '../kit/parts.ts';
import { Reader } from '../kit/reader.ts';
import { timeOfSeconds } from '../kit/run.ts';
import type { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';

const STATES: ReadonlySet<unknown> = new Set(['running', 'waiting', 'stopped', 'errored']);

/** An event of a session with its line. */
export type SessionEvent = { readonly event: JsonObject & { readonly type: string }; readonly seq: number };

/** States the facts of a session; `seq` is the line of the event. */
export function addEvents(trace: Trace, events: readonly SessionEvent[]): void {
  const ledgers = new Map<string, AgentLedger>();
  const usage = usageBySeq(events);
  for (const { event: native, seq } of events) {
    const event = new Reader(native);
    const { type } = native;
    const time = timeOfSeconds(event.any('timestamp'));
    event.any('type');
    if (type === 'kani_spawn') addAgent(trace, event, seq, time);
    else if (type === 'kani_message') {
      const agent = event.ownId('id');
      const ledger = ledgers.get(agent) ?? agentLedger(agent);
      ledgers.set(agent, ledger);
      addMessage(trace, event, { agent, seq, time, ledger, usage: usage.get(seq) });
    } else if (type === 'kani_state_change' && STATES.has(native.state)) {
      const state = event.any('state') as EventData<'agent.changed'>['state'];
      const agent = event.ownId('id');
      trace.add('agent.changed', [seq], { seq, agent_id: agent, state, unmapped: event.rest() }, time);
    } else if (type === 'send_message') {
      const data = { from: 'user', role: 'user', content: event.text('content'), channel: 'session' };
      trace.add('message.sent', [seq], { seq, message_id: `user/${seq}`, ...data, unmapped: event.rest() }, time);
    } else if (type === 'error')
      trace.add('environment.observed', [seq], { seq, kind: type, content: native.msg }, time);
    else if (type !== 'tokens_used' && type !== 'root_message' && type !== 'round_complete')
      trace.add('environment.observed', [seq], { seq, kind: type, content: event.rest() }, time);
  }
}

function addAgent(trace: Trace, event: Reader, seq: number, time: string | null): void {
  const id = event.ownId('id');
  const { always_included_messages: always } = event.native;
  const system = Array.isArray(always) ? always.find((one) => isRecord(one) && one.role === 'system') : undefined;
  const functions = event.list('functions') ?? [];
  const data = {
    name: event.id('name'),
    parent_agent_id: event.id('parent'),
    depth: event.whole('depth'),
    model: event.text('engine_repr') || undefined,
    system_instructions: typeof system?.content === 'string' ? system.content : undefined,
    tools: functions.length > 0 ? functions : undefined,
  };
  trace.add('agent.defined', [id], { agent_id: id, seq, ...data, unmapped: event.rest() }, time);
}

type AgentLedger = ReturnType<typeof agentLedger>;

/** The tool calls of an agent. Old function calls have no id: a result answers the last call of its name. */
function agentLedger(agent: string) {
  const ledger = toolLedger();
  const counts = new Map<string, number>();
  const nameless = (name: string, more: 0 | 1): string => {
    const count = (counts.get(name) ?? 0) + more;
    counts.set(name, count);
    return `${name}.${count}`;
  };
  return {
    call: (id: string | null, name: string) => `${agent}/${ledger.call(id ?? nameless(name, 1))}`,
    result: (id: string | null, name: string) => `${agent}/${ledger.result(id ?? nameless(name, 0))}`,
  };
}

function addMessage(
  trace: Trace,
  event: Reader,
  {
    agent,
    seq,
    time,
    ledger,
    usage,
  }: { agent: string; seq: number; time: string | null; ledger: AgentLedger; usage: JsonObject | undefined },
): void {
  const message = new Reader(event.any('msg') as JsonObject);
  const role = message.any('role') as string;
  const content = message.any('content');
  const unmapped = () => without({ ...event.rest(), msg: message.filledRest() });
  if (role === 'assistant') {
    const asks = asksIn(message);
    const call = { seq, call_id: `${agent}/${seq}`, agent_id: agent };
    const choices = [{ index: 0, content: answerOf(message.native.content, asks) }];
    const answer = { ...call, choices, usage: usageOf(usage), unmapped: unmapped() };
    trace.add('generation.completed', [agent, seq], answer, time);
    for (const [index, { id, name, asked }] of asks.entries()) {
      const native = id === null ? undefined : { tool_call_id: id };
      const tool = { tool_call_id: ledger.call(id, name), index, name, type: 'function', ...asked, native };
      trace.add('tool.called', [agent, seq, index], { ...call, ...tool }, time);
    }
  } else if (role === 'function' || role === 'tool') {
    const { tool_call_id: id, is_tool_call_error: failed, name } = message.native;
    message.these('tool_call_id', 'is_tool_call_error');
    const result = {
      tool_call_id: ledger.result(isIdentifier(id) ? id : null, asText(name)),
      status: failed === true ? ('error' as const) : ('ok' as const),
      output: message.native.content,
      native: { tool_call_id: id },
    };
    trace.add('tool.returned', [agent, seq], { seq, ...result, unmapped: unmapped() }, time);
  } else {
    const text = content === undefined ? undefined : partsOf(content);
    const data = { message_id: `${agent}/${seq}`, from: role, to: [agent], role, content: text };
    trace.add('message.sent', [agent, seq], { seq, ...data, unmapped: unmapped() }, time);
  }
}

/** What an assistant asked for: a list of tool calls, or one function call without an id. */
function asksIn(message: Reader) {
  const [several, single] = [message.any('tool_calls'), message.any('function_call')];
  const one = isRecord(single) ? [{ id: null, function: single }] : [];
  const list: readonly unknown[] = Array.isArray(several) && several.length > 0 ? several : one;
  return list.flatMap((call) => {
    const asked = isRecord(call) && isRecord(call.function) ? call.function : {};
    if (!isRecord(call) || !isIdentifier(asked.name)) return [];
    const id = isIdentifier(call.id) ? call.id : null;
    return [{ id, name: asked.name, asked: readArguments(asked.arguments) }];
  });
}

function answerOf(content: unknown, asks: ReturnType<typeof asksIn>) {
  const calls = asks.map(({ id, name, asked }) => ({
    id: id ?? name,
    type: 'function',
    function: { name, arguments: asked.arguments_raw ?? asked.arguments },
  }));
  const written = typeof content === 'string' || content == null ? content : partsOf(content);
  const message: ChatMessage = { role: 'assistant', content: written };
  return toMessage(calls.length > 0 ? { ...message, tool_calls: calls } : message).content;
}

/** Usage by the line of the message it belongs to: the last of the same agent that a model wrote. */
function usageBySeq(events: readonly SessionEvent[]): ReadonlyMap<number, JsonObject> {
  const latest = new Map<unknown, number>();
  const usage = new Map<number, JsonObject>();
  for (const { event, seq } of events) {
    const { type, timestamp: _, id, ...used } = event;
    if (type === 'kani_message' && isRecord(event.msg) && event.msg.role === 'assistant') latest.set(id, seq);
    const at = type === 'tokens_used' ? latest.get(id) : undefined;
    if (at !== undefined) usage.set(at, { ...usage.get(at), ...used });
  }
  return usage;
}
