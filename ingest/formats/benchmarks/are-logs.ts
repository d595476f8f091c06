/**
 * The logs of the agents of a trace of Meta Agents Research Environments, as drafts: what a model was asked and answered, its tools and
 * what came of them. Thoughts, rationales and plans repeat the answer they were read from.
 */
import type { Message } from '../../events/events.ts';
import { asText, isRecord, type JsonObject, ownOf, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import { jsonIn } from '../kit/span-attributes.ts';
import type { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';

/** A log with the number of its place, and the agent around it where it is that of a sub-agent. */
type Log = { readonly log: JsonObject; readonly seq: number };

export type AgentLogs = {
  /** Native agent id to what is known of it, in the order in which they speak. */
  readonly agents: ReadonlyMap<string, { readonly system?: string; readonly parent?: string; readonly name?: string }>;
  readonly answer: string | undefined;
  readonly asked: string | undefined;
};

const ANSWERS = new Set([
  'llm_output',
  'llm_output_thought_action',
  'llm_output_plan',
  'llm_output_facts',
  'raw_plan',
  'raw_facts',
]);

/** Logs are JSON in texts, those of sub-agents within the log of who called them. `nameOf` is what an agent is called here. */
export function addAgentLogs(
  trace: Trace,
  native: readonly unknown[],
  nameOf: (agent: string, place: number) => string,
  refusals: NativeRefusal[],
): AgentLogs {
  const agents = new Map<string, { system?: string; parent?: string; name?: string }>();
  const names = new Map<string, string>();
  const named = (agent: unknown): string | null => {
    if (!isIdentifier(agent) || agent === 'unknown') return null;
    const name = names.get(agent) ?? nameOf(agent, names.size);
    names.set(agent, name);
    if (!agents.has(name)) agents.set(name, {});
    return name;
  };
  const nested = (child: JsonObject, parent: JsonObject): void => {
    const [caller, own] = [named(parent.agent_id), named(child.agent_id)];
    if (own === null || caller === null || own === caller) return;
    const name = isIdentifier(parent.name) ? { name: parent.name } : {};
    agents.set(own, { parent: caller, ...name, ...agents.get(own) });
  };
  /** What an agent was sent and has not answered, its last call, the tools of it without a result, and its calls so far. */
  type State = { input?: Message[] | undefined; call?: string; open: string[]; turns: number };
  const states = new Map<string | null, State>();
  let answer: string | undefined;
  let asked: string | undefined;
  for (const { log, seq } of flat(native, refusals, nested)) {
    const agent = named(log.agent_id);
    const state: State = states.get(agent) ?? { open: [], turns: 0 };
    states.set(agent, state);
    const id = isIdentifier(log.id) ? log.id : `log/${seq}`;
    const type = asText(log.log_type);
    const about = { seq, agent_id: agent ?? undefined };
    const text = typeof log.content === 'string' ? log.content : undefined;
    const sent = (from: string): void => {
      if (text === undefined) return;
      trace.add('message.sent', [id], { seq, message_id: id, from, role: from, content: text });
    };
    const returned = (status: 'ok' | 'error', output: unknown): boolean => {
      const call = state.open.pop();
      if (call === undefined) return false;
      const error = status === 'error' ? without({ error: log.error, category: log.category }) : undefined;
      trace.add('tool.returned', [call], { seq, tool_call_id: call, status, output, error });
      return true;
    };
    const observed = (kind: string, ...known: readonly string[]): void => {
      const content = without(log, 'id', 'log_type', 'timestamp', 'agent_id', ...known) ?? null;
      trace.add('environment.observed', [id], { seq, kind, content });
    };
    if (type === 'system_prompt' && agent !== null && text !== undefined)
      agents.set(agent, { ...agents.get(agent), system: text });
    else if (type === 'llm_input') state.input = messagesIn(log.content);
    else if (ANSWERS.has(type)) {
      state.call = id;
      state.open = [];
      const call = { ...about, call_id: id, turn: state.turns++ };
      const seconds = log.completion_duration;
      trace.add('generation.requested', [id], { ...call, input: state.input });
      trace.add('generation.completed', [id], {
        ...call,
        choices: [{ index: 0, content: text }],
        usage: billed(log),
        latency_ms: typeof seconds === 'number' && seconds > 0 ? 1000 * seconds : undefined,
      });
      state.input = undefined;
    } else if (type === 'tool_call' && isIdentifier(log.tool_name)) {
      const written = log.tool_arguments;
      state.open.push(id);
      trace.add('tool.called', [id], {
        ...about,
        tool_call_id: id,
        call_id: state.call,
        name: log.tool_name,
        arguments: isRecord(written) ? written : null,
        arguments_raw: isRecord(written) ? undefined : typeof written === 'string' ? written : null,
        type: 'function',
      });
    } else if (type === 'observation') {
      if (!returned('ok', shown(log))) sent('environment');
    } else if (type === 'final_answer') {
      answer = text ?? answer;
      returned('ok', shown(log));
    } else if (type === 'error') {
      if (!returned('error', log.exception ?? log.error)) observed('error');
    } else if (type === 'task' || type === 'agent_user_interface') {
      asked ??= type === 'task' ? text : undefined;
      sent('user');
    } else if (type === 'environment_notifications') sent('environment');
    else if (type === 'hint' || type === 'task_reminder') sent('system');
    else if (type === 'action' && log.event_type !== 'AGENT') observed('event', 'exception_stack_trace');
  }
  return { agents, answer, asked };
}

function flat(
  native: readonly unknown[],
  refusals: NativeRefusal[],
  nested: (child: JsonObject, parent: JsonObject) => void,
): Log[] {
  const logs: JsonObject[] = [];
  const add = (one: unknown, field: string, parent: JsonObject | null): void => {
    const log = typeof one === 'string' ? jsonIn(one) : one;
    if (!isRecord(log) || typeof log.log_type !== 'string') {
      refusals.push(refusal('bad_shape', field, 'a log {log_type, agent_id, …}, also as JSON in a text', one));
      return;
    }
    if (log.log_type !== 'subagent') {
      if (parent) nested(log, parent);
      logs.push(log);
    }
    const children = Array.isArray(log.children) ? log.children : [];
    for (const [i, child] of children.entries()) add(child, `${field}.children[${i}]`, log);
  };
  for (const [i, one] of native.entries()) add(one, `world_logs[${i}]`, null);
  return logs.map((log, seq) => ({ log, seq }));
}

/** Without an answer of the engine all of them are 0. */
const billed = ({
  prompt_tokens,
  completion_tokens,
  reasoning_tokens,
}: JsonObject): Record<string, unknown> | undefined =>
  prompt_tokens || completion_tokens
    ? usageOf({ prompt_tokens, completion_tokens, reasoning_tokens: reasoning_tokens || null })
    : undefined;

/** What the model server is sent: it knows neither tool calls nor results, which the engine gives as what the assistant and the user say. */
const ROLES: Readonly<Record<string, string>> = { 'tool-call': 'assistant', 'tool-response': 'user' };

export function messagesIn(native: unknown): Message[] {
  const list = Array.isArray(native) ? native.filter(isRecord) : [];
  return list.map(({ role, content, attachments }): Message => {
    const files = Array.isArray(attachments) && attachments.length > 0 ? attachments : null;
    const text = typeof content === 'string' ? content : JSON.stringify(content ?? null);
    const name =
      typeof role === 'string' && role !== '' && role.length <= 64 ? (ownOf(ROLES, role) ?? role) : 'unknown';
    return { role: name, content: files ? [{ type: 'text', content: text }, ...files.map(attachment)] : text };
  });
}

/** An image or file is named by its kind and what it holds. */
const attachment = (file: unknown) => ({ ...(isRecord(file) ? file : { content: file }), type: 'attachment' });

const shown = ({ content, attachments }: JsonObject): unknown =>
  Array.isArray(attachments) && attachments.length > 0
    ? [{ type: 'text', content: content ?? null }, ...attachments.map(attachment)]
    : content;
