/** The events of an Inspect sample as ours. Attachments must stand in their places. */
import type { Draft, Message } from '../../events/events.ts';
import { given, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { toolLedger } from '../kit/conversation.ts';
import type { Emitter } from '../kit/native.ts';
import { timeOfText } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';
import { type Fields, messageOf, partsOf } from './inspect-messages.ts';

/** Who acts in a span: the agent of the nearest enclosing span of type agent. */
type Agent = { readonly id: string; readonly name: string; readonly parent: string | null };

/** The agent of a sample that has no span of an agent. */
const SOLVER = 'solver';

/** Notes about the state of the program; they stand in the record alone. */
const SILENT = new Set(['sample_init', 'span_begin', 'span_end', 'step', 'state', 'store', 'score', 'compaction']);

/**
 * Events in their order. Before there were spans (version 0.3.90), steps of type agent enclosed an agent in the same way.
 * An agent that is run twice is one member, by its name and parent.
 */
export function eventDrafts(
  emit: Emitter,
  episodeId: string,
  events: readonly Fields[],
  pool: readonly Message[],
): Draft[] {
  const spans = new Map<unknown, Fields>();
  for (const event of events) if (event.event === 'span_begin') spans.set(event.id, event);
  const ledger = toolLedger();
  const defined = new Set<string>();
  const agents = new Map<unknown, Agent | null>();

  function agentOf(span: unknown): Agent | null {
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
  }

  function definition({ id, name, parent }: Agent): Draft[] {
    if (defined.has(id)) return [];
    defined.add(id);
    const member = {
      episode_id: episodeId,
      agent_id: id,
      name,
      ...(parent === null ? {} : { parent_agent_id: parent }),
    };
    return [emit.event('agent.defined', [episodeId, id], member)];
  }

  return events.flatMap((event, seq): Draft[] => {
    const agent = agentOf(event.span_id) ?? { id: SOLVER, name: SOLVER, parent: null };
    const about = { episode_id: episodeId, seq };
    if (event.event === 'span_begin' && event.type === 'agent') {
      const begun = agentOf(event.id);
      return begun ? definition(begun) : [];
    }
    if (event.event === 'model') return [...definition(agent), ...modelDrafts(event, { ...about, agent_id: agent.id })];
    if (event.event === 'tool') return toolDrafts(event, about, agent.id);
    if (!isIdentifier(event.event) || SILENT.has(event.event)) return [];
    const content = without(event, 'event', 'span_id', 'uuid', 'timestamp', 'working_start', 'pending');
    const data = { ...about, kind: event.event, ...given('content', content) };
    return [emit.event('environment.observed', [episodeId, seq], data, timeOfText(event.timestamp))];
  });

  function modelDrafts(event: Fields, place: { episode_id: string; seq: number; agent_id: string }): Draft[] {
    const output = isRecord(event.output) ? event.output : {};
    const choices = (Array.isArray(output.choices) ? output.choices : []).filter(isRecord);
    const call = {
      ...place,
      call_id: isIdentifier(event.uuid) ? event.uuid : `m${place.seq}`,
      ...(isIdentifier(event.role) ? { role: event.role } : {}),
    };
    const error = event.error ?? output.error ?? undefined;
    const model = typeof event.model === 'string' ? { model: event.model } : {};
    const input = inputOf(event, pool);
    const config = isRecord(event.config) && Object.keys(event.config).length > 0 ? { params: event.config } : {};
    let index = 0;
    return [
      emit.event(
        'generation.requested',
        [episodeId, place.seq],
        {
          ...call,
          ...model,
          ...config,
          ...(input ? { input } : {}),
          ...given('tools', Array.isArray(event.tools) && event.tools.length > 0 ? event.tools : undefined),
        },
        timeOfText(event.timestamp),
      ),
      emit.event(
        'generation.completed',
        [episodeId, place.seq],
        {
          ...call,
          choices: choices.map((choice, i) => ({
            index: i,
            content: isRecord(choice.message) ? partsOf(choice.message) : [],
            ...(typeof choice.stop_reason === 'string' ? { finish_reason: choice.stop_reason } : {}),
          })),
          ...(typeof output.model === 'string' ? { response_model: output.model } : {}),
          ...given('usage', usageOf(output.usage, 'within')),
          ...(typeof output.time === 'number' ? { latency_ms: output.time * 1000 } : {}),
          ...(event.cache === 'read' ? { cached: true } : {}),
          ...given('error', error),
          ...given('unmapped', unmappedOf(event, choices)),
        },
        timeOfText(event.completed),
      ),
      ...choices.slice(0, 1).flatMap(({ message }) =>
        (isRecord(message) && Array.isArray(message.tool_calls) ? message.tool_calls : []).flatMap(
          (asked: unknown): Draft[] => {
            if (!isRecord(asked) || !isIdentifier(asked.id) || !isIdentifier(asked.function)) return [];
            const data = {
              ...call,
              tool_call_id: ledger.call(asked.id),
              index: index++,
              name: asked.function,
              type: typeof asked.type === 'string' ? asked.type : 'function',
              arguments: asked.arguments ?? null,
              ...(typeof asked.parse_error === 'string' ? { parse_error: asked.parse_error } : {}),
              native: { tool_call_id: asked.id },
            };
            return [emit.event('tool.called', [episodeId, place.seq, data.index], data, timeOfText(event.completed))];
          },
        ),
      ),
    ];
  }

  function toolDrafts(event: Fields, about: { episode_id: string; seq: number }, by: string): Draft[] {
    if (!isIdentifier(event.id)) return [];
    const time = timeOfText(event.completed);
    const error = isRecord(event.error) ? event.error : null;
    const id = ledger.result(event.id);
    const status =
      error === null ? 'ok' : error.type === 'timeout' ? 'timeout' : error.type === 'approval' ? 'denied' : 'error';
    const transfer = {
      ...about,
      from_agent: by,
      to_agent: event.agent as string,
      kind: 'handoff' as const,
      tool_call_id: id,
    };
    return [
      ...(isIdentifier(event.agent)
        ? [emit.event('control.transferred', [episodeId, about.seq], transfer, timeOfText(event.timestamp))]
        : []),
      emit.event(
        'tool.returned',
        [episodeId, about.seq],
        {
          ...about,
          tool_call_id: id,
          status,
          ...given('output', event.result ?? undefined),
          ...(error === null ? {} : { error }),
          ...(typeof event.working_time === 'number' ? { duration_ms: event.working_time * 1000 } : {}),
          ...(event.truncated == null ? {} : { truncated: true }),
          native: { tool_call_id: event.id },
        },
        time,
      ),
    ];
  }
}

/** The messages a model was shown: written out, or as ranges of the pool of the sample. Undefined where a range names no message. */
function inputOf({ input, input_refs: refs }: Fields, pool: readonly Message[]): Message[] | undefined {
  if (!Array.isArray(refs)) return Array.isArray(input) ? input.map(messageOf) : undefined;
  const ranges = refs.flatMap((ref: unknown) => (Array.isArray(ref) ? [ref as unknown[]] : []));
  const whole = ranges.every(
    ([from, to]) => Number.isSafeInteger(from) && Number.isSafeInteger(to) && (to as number) <= pool.length,
  );
  return whole ? ranges.flatMap(([from, to]) => pool.slice(from as number, to as number)) : undefined;
}

function unmappedOf(event: Fields, choices: readonly Fields[]): Record<string, unknown> | undefined {
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
