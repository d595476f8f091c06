/** The events of an Inspect sample as ours. Attachments must stand in their places. */
import type { EventData, Message } from '../../events/events.ts';
import { isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { Reader } from '../kit/reader.ts';
import type { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import { messageOf, partsOf, toolsIn } from './inspect-messages.ts';

/** Who acts in a span: the agent of the nearest enclosing span of type agent. */
type Agent = { readonly id: string; readonly name: string; readonly parent: string | null };

/** The agent of a sample that has no span of an agent. */
const SOLVER = 'solver';

/** Notes about the state of the program; they stand in the record alone. */
const SILENT = new Set(['sample_init', 'span_begin', 'span_end', 'step', 'state', 'store', 'score', 'compaction']);

/** Who acts in a span, of all spans; steps of type agent, before there were spans (version 0.3.90), enclosed an agent in the same way. */
function agentsOf(events: readonly JsonObject[]): (span: unknown) => Agent | null {
  const spans = new Map<unknown, JsonObject>();
  for (const event of events) if (event.event === 'span_begin') spans.set(event.id, event);
  const agents = new Map<unknown, Agent | null>();
  return function agentOf(span: unknown): Agent | null {
    const known = agents.get(span);
    if (known !== undefined) return known;
    agents.set(span, null);
    const own = spans.get(span);
    const around = own && own.parent_id !== span ? agentOf(own.parent_id) : null;
    const agent =
      own?.type === 'agent' && isIdentifier(own.name)
        ? { id: own.name, name: own.name, parent: around && around.id !== own.name ? around.id : null }
        : around;
    agents.set(span, agent);
    return agent;
  };
}

/** Events in their order. An agent that is run twice is one member, by its name and parent. */
export function addEvents(trace: Trace, events: readonly JsonObject[], pool: readonly Message[]): void {
  const agentOf = agentsOf(events);
  const defined = new Set<string>();
  const define = ({ id, name, parent }: Agent): void => {
    if (defined.has(id)) return;
    defined.add(id);
    trace.add('agent.defined', [id], { agent_id: id, name, parent_agent_id: parent ?? undefined });
  };
  for (const [seq, native] of events.entries()) {
    const event = new Reader(native);
    const agent = agentOf(native.span_id) ?? { id: SOLVER, name: SOLVER, parent: null };
    const kind = native.event;
    if (kind === 'span_begin' && native.type === 'agent') {
      const begun = agentOf(native.id);
      if (begun) define(begun);
    } else if (kind === 'model') {
      define(agent);
      addCall(trace, event, seq, agent.id, pool);
    } else if (kind === 'tool') addResult(trace, event, seq, agent.id);
    else if (isIdentifier(kind) && !SILENT.has(kind)) {
      event.these('event', 'span_id', 'uuid', 'working_start', 'pending');
      const time = event.time('timestamp');
      trace.add('environment.observed', [seq], { seq, kind, content: event.rest() }, time);
    }
  }
}

function addCall(trace: Trace, event: Reader, seq: number, agent: string, pool: readonly Message[]): void {
  const output = event.object('output') ?? new Reader({});
  const choices = (output.list('choices') ?? []).filter(isRecord);
  const call = { seq, agent_id: agent, call_id: event.id('uuid') ?? `m${seq}`, role: event.id('role') };
  const [asked, completed] = [event.time('timestamp'), event.time('completed')];
  const config = event.object('config')?.native ?? {};
  const tools = event.list('tools') ?? [];
  const request = {
    ...call,
    model: event.text('model'),
    params: Object.keys(config).length > 0 ? config : undefined,
    input: inputOf(event.native, pool),
    tools: tools.length > 0 ? tools : undefined,
  };
  trace.add('generation.requested', [seq], request, asked);
  const seconds = output.number('time');
  const answer = {
    ...call,
    choices: choices.map(({ message, stop_reason: reason }, index) => ({
      index,
      content: isRecord(message) ? partsOf(message) : [],
      finish_reason: typeof reason === 'string' ? reason : undefined,
    })),
    response_model: output.text('model'),
    usage: usageOf(output.any('usage'), 'within'),
    latency_ms: seconds === undefined ? undefined : seconds * 1000,
    ...(event.any('cache') === 'read' ? { cached: true } : {}),
    error: event.any('error') ?? output.any('error'),
    unmapped: unmappedOf(event.native, choices),
  };
  trace.add('generation.completed', [seq], answer, completed);
  const [first] = choices;
  if (!isRecord(first?.message)) return;
  for (const [index, { id, function: name, type, arguments: given, parse_error: bad }] of toolsIn(
    first.message,
  ).entries()) {
    const data = {
      ...call,
      name,
      type: typeof type === 'string' ? type : 'function',
      arguments: given ?? null,
      parse_error: typeof bad === 'string' ? bad : undefined,
    };
    trace.tool(seq, index, id, data, completed);
  }
}

function addResult(trace: Trace, event: Reader, seq: number, by: string): void {
  const nativeId = event.id('id');
  if (nativeId === undefined) return;
  const error = event.object('error')?.native;
  const to = event.id('agent');
  const id = trace.ledger.result(nativeId);
  if (to !== undefined) {
    const transfer = { seq, from_agent: by, to_agent: to, kind: 'handoff' as const, tool_call_id: id };
    trace.add('control.transferred', [seq], transfer, event.time('timestamp'));
  }
  const seconds = event.number('working_time');
  const result = {
    seq,
    tool_call_id: id,
    status: statusOf(error),
    output: event.any('result'),
    error,
    duration_ms: seconds === undefined ? undefined : seconds * 1000,
    ...(event.has('truncated') ? { truncated: true } : {}),
    native: { tool_call_id: nativeId },
  };
  trace.add('tool.returned', [seq], result, event.time('completed'));
}

function statusOf(error: JsonObject | undefined): EventData<'tool.returned'>['status'] {
  if (error === undefined) return 'ok';
  return error.type === 'timeout' ? 'timeout' : error.type === 'approval' ? 'denied' : 'error';
}

/** The messages a model was shown: written out, or as ranges of the pool of the sample. Undefined where a range names no message. */
function inputOf({ input, input_refs: refs }: JsonObject, pool: readonly Message[]): Message[] | undefined {
  if (!Array.isArray(refs)) return Array.isArray(input) ? input.map(messageOf) : undefined;
  const ranges = refs.flatMap((ref: unknown) => (Array.isArray(ref) ? [ref as unknown[]] : []));
  const whole = ranges.every(
    ([from, to]) => Number.isSafeInteger(from) && Number.isSafeInteger(to) && (to as number) <= pool.length,
  );
  return whole ? ranges.flatMap(([from, to]) => pool.slice(from as number, to as number)) : undefined;
}

function unmappedOf(event: JsonObject, choices: readonly JsonObject[]): Record<string, unknown> | undefined {
  const logprobs = choices.map(({ logprobs }) => logprobs ?? null);
  return without({
    ...without(
      event,
      ...[
        'event',
        'uuid',
        'span_id',
        'timestamp',
        'completed',
        'working_start',
        'working_time',
        'pending',
        'model',
        'role',
      ],
      ...['input', 'input_refs', 'tools', 'config', 'output', 'call', 'cache', 'error', 'traceback', 'traceback_ansi'],
    ),
    ...(logprobs.some((one) => one !== null) ? { logprobs } : {}),
  });
}
