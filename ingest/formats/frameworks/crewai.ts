/**
 * CrewAI trace batches: the events of one execution, ordered by emission_sequence. Tool events carry no id of a call, so a result is
 * paired by its parent event, else with the latest open call of the same tool. The log file of a crew is `crewai-log.ts`.
 */
import type { Message } from '../../events/events.ts';
import { canonicalJson, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { badMessage, type ChatMessage, toMessage } from '../kit/chat-message.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { joinsOf } from '../kit/lines.ts';
import { recordId, revisedEmitter } from '../kit/native.ts';
import { format, isWhole, type Reader, unreadable } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import { convertCrewLog, isCrewLogEntry, logsIn } from './crewai-log.ts';
import { convertCrewOutput, isCrewOutput } from './crewai-output.ts';

const NAME = 'crewai';
const emit = revisedEmitter(NAME);

const isBatch = (record: JsonObject): boolean =>
  Array.isArray(record.events) &&
  (('batch_id' in record && 'execution_metadata' in record) ||
    record.events.some((event) => isRecord(event) && 'emission_sequence' in event));

export const crewai = format({
  name: NAME,
  summary:
    'CrewAI trace batches {batch_id, events: [{event_id, type, event_data, emission_sequence}]}, its log file, and what a kickoff returned',
  called: 'a trace batch object',
  recognises: (record) => isBatch(record) || isCrewLogEntry(record) || isCrewOutput(record),
  gathers: ({ records }) => (records.length > 0 && records.every(isCrewLogEntry) ? 'file' : null),
  // Neither ids nor the task of an entry identify its run: a log grows, and no part of it stands alone.
  joins: joinsOf({
    names: (entries) => logsIn(NAME, entries),
    timeOf: ({ timestamp }) => (typeof timestamp === 'string' ? timestamp : null),
    needsName: false,
  }),
  convert: (row, record) =>
    isCrewOutput(row.native) ? convertCrewOutput(NAME, row, record) : convertBatch(row, record),
  convertAll: (entries, record) => convertCrewLog(NAME, entries, record),
  restates: ['task.defined', 'agent.defined'],
});

function convertBatch(batch: Reader, record: NativeRecord): Conversion {
  batch.list('events', 'a list of events');
  const named = batch.idIfAny('batch_id');
  const seen = new Set<string>();
  const events = batch
    .each('events', 'a list of events', 'an event object', eventOf)
    .toSorted((a, b) => a.sequence - b.sequence || (a.id < b.id ? -1 : 1))
    .filter(({ id }) => !seen.has(id) && seen.add(id));
  const start = events.find(({ type }) => /_(?:kickoff|execution)_started$/.test(type) && !type.startsWith('agent'));
  const end = events.findLast(({ type }) => /^(?:crew_kickoff|flow)_(?:completed|failed|finished)$/.test(type));
  const asked = start?.data.native.inputs;
  const inputs = isRecord(asked) ? asked : {};
  // The first task of a later part of a batch is not the first of the run.
  const begins = start !== undefined || (events[0]?.sequence ?? 0) <= 1;
  const described = begins ? events.find(({ type }) => type === 'task_started') : undefined;
  const { user_context: user } = batch.native;
  const trace = new BatchTrace(emit, NAME, record, named ?? recordId(NAME, record));
  for (const event of events) if (event !== end) trace.addEvent(event);
  for (const { agent } of events) if (agent !== undefined && !trace.defined.has(agent)) trace.member(agent);
  const run = trace.finish(
    {
      task: taskOf(NAME, inputs.task ?? described?.data.native.task_description, {}, inputs.task_id),
      started: {
        native: { format: NAME, version: batch.any('version') },
        session_id: isRecord(user) && isIdentifier(user.session_id) ? user.session_id : undefined,
        unmapped: batch.rest(),
      },
      startedAt: events[0]?.time ?? null,
      finished: {
        outcome: end?.type.endsWith('_failed') ? 'failure' : 'unknown',
        seq: (end ?? events.at(-1))?.sequence ?? 0,
        answer: end?.data.text('output') ?? end?.data.text('result'),
        stop_reason: end?.data.text('error'),
        unmapped: end?.data.rest(),
      },
      finishedAt: end?.time ?? null,
    },
    batch.problems,
  );
  return { ...run, repeated: named !== undefined && record.ordinal > 0 };
}

type CrewEvent = ReturnType<typeof eventOf>;

function eventOf(event: Reader, i: number) {
  const type = event.text('type', 'the type of the event');
  const data = event.object('event_data', 'an object');
  const order = event.any('emission_sequence');
  const sequence = typeof order === 'string' && /^\d{1,15}$/.test(order.trim()) ? Number(order) : (order ?? i + 1);
  if (!isWhole(sequence)) return unreadable('bad_number', event.path('emission_sequence'), 'a whole number', order);
  data.any('type');
  // A role is prose, often with a line end after it.
  const role = data.text('agent_role')?.trim();
  return {
    type,
    id: event.ownId('event_id'),
    parent: event.text('parent_event_id'),
    sequence,
    time: event.time('timestamp'),
    data,
    agent: isIdentifier(role) ? role : undefined,
  };
}

const aboutOf = ({ type, id, sequence: seq, parent }: CrewEvent) => ({
  seq,
  parent_id: parent,
  native: { type, ids: { event_id: id } },
});

const callIdOf = ({ data, id }: CrewEvent): string => data.id('call_id') ?? id;

/** Takes events in their order; a call or a tool is paired with earlier events. */
class BatchTrace extends Trace {
  readonly defined = new Set<string>();
  readonly #latest = new Map<string | undefined, { readonly callId: string; count: number }>();
  readonly #open: { readonly id: string; readonly tool: string; readonly asked: string }[] = [];

  addEvent(event: CrewEvent): void {
    const { type, id, data, agent, time } = event;
    const about = aboutOf(event);
    switch (type) {
      case 'agent_execution_started':
      case 'agent_execution_completed':
      case 'agent_execution_error':
        if (agent !== undefined) this.#changed(event, agent);
        return;
      case 'llm_call_started':
        this.#requested(event);
        return;
      case 'llm_call_completed':
      case 'llm_call_failed':
        this.#completed(event);
        return;
      case 'tool_usage_started':
        this.#called(event, time);
        return;
      case 'tool_usage_finished':
      case 'tool_usage_error':
        this.#returned(event);
        return;
      case 'task_started': {
        const decision = { ...data.native, type: undefined, agent_id: agent };
        this.add('decision.made', [id], { ...about, kind: 'assign', decision }, time);
        return;
      }
      case 'crew_test_result':
      case 'agent_evaluation_completed':
        if (this.#scored(event)) return;
    }
    this.add('environment.observed', [id], { ...about, kind: type, content: data.native }, time);
  }

  #changed(event: CrewEvent, agent: string): void {
    const { type, id, data, time } = event;
    const persona = [data.text('agent_goal'), data.text('agent_backstory')].filter(Boolean).join('\n\n');
    const started = type === 'agent_execution_started';
    if (started) {
      this.defined.add(agent);
      const system = persona === '' ? undefined : persona;
      this.add('agent.defined', [agent], { agent_id: agent, name: agent, role: agent, system_instructions: system });
    }
    const state = started ? 'started' : type === 'agent_execution_error' ? 'errored' : 'stopped';
    const reason = started ? undefined : data.text('error');
    this.add('agent.changed', [id], { ...aboutOf(event), agent_id: agent, state, reason, unmapped: data.rest() }, time);
  }

  #requested(event: CrewEvent): void {
    const { data, agent, time } = event;
    const callId = callIdOf(event);
    const messages = data.any('messages');
    const input = inputOf(messages);
    const call = { ...aboutOf(event), call_id: callId, agent_id: agent, model: data.text('model'), input };
    const ids = data.these('task_id', 'agent_id');
    const unread = without({ ...ids, messages: input ? undefined : messages });
    this.add(
      'generation.requested',
      [callId],
      { ...call, tools: data.any('tools'), params: data.rest(), unmapped: unread },
      time,
    );
  }

  #completed(event: CrewEvent): void {
    const { data, agent, time, type } = event;
    const callId = callIdOf(event);
    this.#latest.set(agent, { callId, count: 0 });
    const failed = type === 'llm_call_failed';
    const response = data.any('response');
    const content = response === undefined || typeof response === 'string' ? response : writtenArguments(response);
    const choice = { index: 0, content, finish_reason: data.text('finish_reason') };
    const error = data.any('error');
    data.any('messages');
    this.add(
      'generation.completed',
      [callId],
      {
        ...aboutOf(event),
        call_id: callId,
        agent_id: agent,
        choices: failed ? [] : [choice],
        usage: usageOf(data.record('usage')),
        response_id: data.id('response_id'),
        response_model: data.text('model'),
        error: failed ? (error ?? 'failed') : undefined,
        unmapped: data.rest(),
      },
      time,
    );
  }

  #called(event: CrewEvent, time: string | null): void {
    const { id, data, agent } = event;
    const by = this.#latest.get(agent);
    const name = data.id('tool_name') ?? 'unknown';
    data.any('tool_args');
    const { tool_args: asked } = data.native;
    this.#open.push({ id, tool: name, asked: canonicalJson(asked ?? null) });
    this.add(
      'tool.called',
      [id],
      {
        ...aboutOf(event),
        tool_call_id: id,
        call_id: by?.callId,
        index: by && by.count++,
        agent_id: agent,
        name,
        type: 'function',
        ...(typeof asked === 'string' ? { arguments_raw: asked } : { arguments: asked }),
        unmapped: data.rest(),
      },
      time,
    );
  }

  #returned(event: CrewEvent): void {
    const { id, data, time, type, parent } = event;
    const open = this.#open;
    const asked = canonicalJson(data.any('tool_args') ?? null);
    const tool = data.any('tool_name');
    const place = [
      open.findLastIndex((one) => one.id === parent),
      open.findLastIndex((one) => one.tool === tool && one.asked === asked),
      open.findLastIndex((one) => one.tool === tool),
    ].find((at) => at >= 0);
    // An older version reports only the end: the call was made nevertheless.
    if (place === undefined) this.#called(event, null);
    const [call] = open.splice(place ?? open.length - 1, 1);
    const failed = type === 'tool_usage_error';
    const { started_at: from, finished_at: to } = data.native;
    const took = typeof from === 'string' && typeof to === 'string' ? Date.parse(to) - Date.parse(from) : Number.NaN;
    data.any('output');
    this.add(
      'tool.returned',
      [id],
      {
        ...aboutOf(event),
        tool_call_id: call!.id,
        status: failed ? 'error' : 'ok',
        output: data.native.output,
        error: failed ? data.any('error') : undefined,
        from_cache: data.boolean('from_cache'),
        duration_ms: took >= 0 ? took : undefined,
        unmapped: data.rest(),
      },
      time,
    );
  }

  /** A score of the crew or of an agent; false for a result that holds no number. */
  #scored({ id, type, data, agent, time, sequence }: CrewEvent): boolean {
    const { episodeId } = this;
    const whole = type === 'crew_test_result';
    const { quality, score, metric_category: category } = data.native;
    const stated = whole ? quality : isRecord(score) ? score.score : score;
    const value = typeof stated === 'string' && /^-?\d+(\.\d+)?$/.test(stated) ? Number(stated) : stated;
    if (typeof value !== 'number' && typeof value !== 'boolean') return false;
    data.these('quality', 'metric_category', 'score');
    const feedback = isRecord(score) ? score.feedback : undefined;
    const ofAgent = !whole && agent !== undefined;
    this.events.push(
      emit.event(
        'feedback.recorded',
        [episodeId, id],
        {
          feedback_id: hashId(episodeId, id),
          target: { kind: ofAgent ? 'agent' : 'episode', id: ofAgent ? agent : episodeId, episode_id: episodeId },
          kind: 'score',
          name: whole ? 'quality' : isIdentifier(category) ? category : 'evaluation',
          value,
          by: 'model',
          seq: sequence,
          explanation: typeof feedback === 'string' ? feedback : undefined,
          unmapped: data.rest(),
        },
        time,
      ),
    );
    return true;
  }
}

/** A prompt, or chat messages; undefined where neither can be read. */
function inputOf(messages: unknown): Message[] | undefined {
  if (typeof messages === 'string') return [{ role: 'user', content: messages }];
  if (!Array.isArray(messages) || messages.some((message) => badMessage(message, '') !== null)) return undefined;
  return messages.map((message) => toMessage(message as ChatMessage));
}
