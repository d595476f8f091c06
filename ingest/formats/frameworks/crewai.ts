/**
 * CrewAI trace batches: the events of one execution, ordered by emission_sequence. Tool events carry no id of a call, so a result is
 * paired by its parent event, else with the latest open call of the same tool. The log file of a crew is `crewai-log.ts`.
 */
import type { Draft } from '../../events/events.ts';
import { given, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { marksOf } from '../kit/marks.ts';
import { badIdentifier, recordId, refusal, refused, revisedEmitter } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf, timeOfText } from '../kit/run.ts';
import { crewEmitter } from './crewai-events.ts';
import { convertCrewLog, isCrewLogEntry, logsIn } from './crewai-log.ts';
import { convertCrewOutput, isCrewOutput } from './crewai-output.ts';
import type { CrewEvent } from './crewai-values.ts';

const NAME = 'crewai';
const emit = revisedEmitter(NAME);

const isBatch = (record: unknown): boolean =>
  isRecord(record) &&
  Array.isArray(record.events) &&
  (('batch_id' in record && 'execution_metadata' in record) ||
    record.events.some((event) => isRecord(event) && 'emission_sequence' in event));

export const crewai: Format = {
  name: NAME,
  summary:
    'CrewAI trace batches {batch_id, events: [{event_id, type, event_data, emission_sequence}]}, its log file, and what a kickoff returned',
  recognises: ({ records }) =>
    records.some((record) => isBatch(record) || isCrewLogEntry(record) || isCrewOutput(record)),
  gathers: ({ records }) => (records.length > 0 && records.every(isCrewLogEntry) ? 'file' : null),
  joins: {
    names: (entries) => logsIn(NAME, entries),
    episodes: (entries) => logsIn(NAME, entries),
    // Neither ids nor the task of an entry identify its run: a log grows, and no part of it stands alone.
    marks: () => marksOf([], []),
    timeOf: (entry) => (isRecord(entry) && typeof entry.timestamp === 'string' ? entry.timestamp : null),
    needsName: false,
  },
  convert: (record) =>
    Array.isArray(record.value)
      ? convertCrewLog(emit, NAME, record)
      : isCrewOutput(record.value)
        ? convertCrewOutput(emit, NAME, record)
        : convertBatch(record),
  restates: new Set(['task.defined', 'agent.defined']),
};

function convertBatch(record: NativeRecord): Conversion {
  const { value: batch } = record;
  if (!isRecord(batch)) return refused(refusal('bad_type', '', 'a trace batch object', batch));
  if (!Array.isArray(batch.events)) return refused(refusal('bad_type', 'events', 'a list of events', batch.events));
  const badId =
    batch.batch_id === undefined || batch.batch_id === null ? null : badIdentifier(batch.batch_id, 'batch_id');
  if (badId) return refused(badId);
  const refusals: NativeRefusal[] = [];
  const read = batch.events.flatMap((native: unknown, i) => {
    const event = eventOf(native, i);
    if ('code' in event) refusals.push(event);
    return 'code' in event ? [] : [event];
  });
  const seen = new Set<string>();
  const events = read
    .toSorted((a, b) => a.sequence - b.sequence || (a.id < b.id ? -1 : 1))
    .filter(({ id }) => !seen.has(id) && seen.add(id));
  const named = typeof batch.batch_id === 'string';
  const episodeId = named ? (batch.batch_id as string) : recordId(NAME, record);
  const start = events.find(({ type }) => /_(?:kickoff|execution)_started$/.test(type) && !type.startsWith('agent'));
  const end = events.findLast(({ type }) => /^(?:crew_kickoff|flow)_(?:completed|failed|finished)$/.test(type));
  const inputs = isRecord(start?.data.inputs) ? start.data.inputs : {};
  // The first task of a later part of a batch is not the first of the run.
  const begins = start !== undefined || (events[0]?.sequence ?? 0) <= 1;
  const described = begins ? events.find(({ type }) => type === 'task_started')?.data.task_description : undefined;
  const session = isRecord(batch.user_context) ? batch.user_context.session_id : undefined;
  const draftsOf = crewEmitter(emit, episodeId);
  const drafts: Draft[] = events.flatMap((event) => (event === end ? [] : draftsOf(event)));
  const agents = new Set(events.map(({ agent }) => agent).filter((agent) => agent !== null));
  const failed = end?.type.endsWith('_failed') ?? false;
  const { output = end?.data.result, error } = end?.data ?? {};
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task: taskOf(NAME, inputs.task ?? described, {}, inputs.task_id),
      started: {
        native: { format: NAME, ...given('version', batch.version) },
        ...(isIdentifier(session) ? { session_id: session } : {}),
        flags: [NO_TOKEN_IDS, ...(refusals.length > 0 ? ['incomplete'] : [])],
        ...given('unmapped', without(batch, 'version', 'batch_id', 'events')),
      },
      startedAt: events[0]?.time ?? null,
      agents: [...agents].filter(
        (agent) => !drafts.some((draft) => draft.name === 'agent.defined' && draft.data.agent_id === agent),
      ),
      events: drafts,
      finished: {
        outcome: failed ? 'failure' : 'unknown',
        seq: (end ?? events.at(-1))?.sequence ?? 0,
        ...(typeof output === 'string' ? { answer: output } : {}),
        ...(typeof error === 'string' ? { stop_reason: error } : {}),
        ...given(
          'unmapped',
          end &&
            without(
              end.data,
              'type',
              ...(typeof output === 'string' ? ['output'] : []),
              ...(typeof error === 'string' ? ['error'] : []),
            ),
        ),
      },
      finishedAt: end?.time ?? null,
    }),
    refusals,
    raw: record.canonical,
    repeated: named && record.ordinal > 0,
  };
}

function eventOf(native: unknown, i: number): CrewEvent | NativeRefusal {
  const field = `events[${i}]`;
  if (!isRecord(native)) return refusal('bad_type', field, 'an event object', native);
  const { type, event_data: data, emission_sequence: order, event_id: id, parent_event_id: parent, timestamp } = native;
  if (typeof type !== 'string') return refusal('bad_type', `${field}.type`, 'the type of the event', type);
  if (!isRecord(data)) return refusal('bad_type', `${field}.event_data`, 'an object', data);
  const sequence = typeof order === 'string' && /^\d{1,15}$/.test(order.trim()) ? Number(order) : (order ?? i + 1);
  if (!Number.isSafeInteger(sequence))
    return refusal('bad_number', `${field}.emission_sequence`, 'a whole number', order);
  const bad = badIdentifier(id, `${field}.event_id`);
  if (bad) return bad;
  // A role is prose, often with a line end after it.
  const role = typeof data.agent_role === 'string' ? data.agent_role.trim() : null;
  return {
    type,
    id: id as string,
    parent: typeof parent === 'string' ? parent : null,
    sequence: sequence as number,
    time: timeOfText(timestamp),
    data,
    agent: isIdentifier(role) ? role : null,
  };
}
