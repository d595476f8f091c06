/**
 * Logs of Inspect AI, one a document: {version, eval, samples}. Read from what inspect_ai 0.3.285 (PyPI) writes with a scripted model,
 * `log_format="json"`, and from the names of its log schema. A sample, each epoch of it, is an episode. Long texts stand once in
 * `attachments`, the messages of model calls once in `events_data`. An `.eval` file is a ZIP of such parts, read sample by sample.
 */
import type { Draft, EventData, Message, Part } from '../../events/events.ts';
import { asText, given, hashId, isRecord, ownOf, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { toolLedger } from '../kit/conversation.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import type { Converted, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { refusal, refused, revisedEmitter } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf, timeOfText } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';
import { eventDrafts } from './inspect-events.ts';
import { type Fields, messageOf, partsOf, resolved, textOf } from './inspect-messages.ts';

const NAME = 'inspect';
const emit = revisedEmitter(NAME);

const isLog = (record: unknown): record is Fields =>
  isRecord(record) &&
  isRecord(record.eval) &&
  'run_id' in record.eval &&
  'task' in record.eval &&
  'model' in record.eval &&
  ('plan' in record || 'samples' in record);

export const inspect: Format = {
  name: NAME,
  summary:
    'Inspect AI logs, .eval or JSON: {version, status, eval, plan, results, samples: [{id, epoch, input, messages, events}]}',
  recognises: ({ records }) => records.some(isLog),
  convert,
  restates: new Set(['task.defined']),
};

/** The log of one sample of an archive: of its header what the events of a sample are made of. */
export function logOfSample(header: unknown, sample: unknown): unknown {
  const run = isRecord(header) && isRecord(header.eval) ? header.eval : {};
  const read = ['run_id', 'eval_id', 'task', 'model', 'solver'].filter((name) => name in run);
  return { eval: Object.fromEntries(read.map((name) => [name, run[name]])), samples: [sample] };
}

function convert(record: NativeRecord): Converted {
  const { value: log } = record;
  if (!isLog(log))
    return refused(refusal('bad_shape', 'eval', 'an Inspect log {eval: {run_id, task, model}, samples}', log));
  const { samples } = log;
  if (!Array.isArray(samples)) return refused(refusal('bad_type', 'samples', 'a list of samples', samples));
  const refusals: NativeRefusal[] = [];
  const bodies: string[] = [];
  const header = without(log, 'samples')!;
  const drafts = samples.flatMap((native: unknown, i): Draft[] => {
    const bad = badSample(native, `samples[${i}]`);
    if (bad) {
      refusals.push(bad);
      return [];
    }
    const sample = native as Fields;
    const original = writtenJson(sample);
    bodies.push(original);
    return sampleDrafts(header.eval as Fields, sample, original);
  });
  if (samples.length === 0) refusals.push(refusal('bad_shape', 'samples', 'at least one sample', samples));
  return { drafts, refusals, raw: null, bodies, repeated: record.ordinal > 0 };
}

function badSample(native: unknown, place: string): NativeRefusal | null {
  if (!isRecord(native)) return refusal('bad_type', place, 'a sample object', native);
  const { id, epoch, events, messages } = native;
  if (!isIdentifier(id) && typeof id !== 'number') return refusal('bad_type', `${place}.id`, 'a text or a number', id);
  if (!Number.isSafeInteger(epoch)) return refusal('bad_type', `${place}.epoch`, 'a whole number', epoch);
  if (events !== undefined && (!Array.isArray(events) || !events.every(isRecord)))
    return refusal('bad_type', `${place}.events`, 'a list of events', events);
  if (messages !== undefined && !Array.isArray(messages))
    return refusal('bad_type', `${place}.messages`, 'a list of messages', messages);
  return null;
}

function sampleDrafts(run: Fields, sample: Fields, original: string): Draft[] {
  const { id, epoch, uuid, target, metadata, scores, error, limit } = sample;
  const task = isIdentifier(run.task) ? run.task : NAME;
  const episodeId = isIdentifier(uuid) ? uuid : hashId(NAME, run.eval_id ?? run.run_id, id, epoch);
  // Until November 2024 the events stood in a transcript, with their attachments.
  const transcript = isRecord(sample.transcript) ? sample.transcript : {};
  const attachments = [sample.attachments, transcript.content].find(isRecord) ?? {};
  const events = ((resolved(sample.events ?? transcript.events ?? [], attachments) as Fields[]) ?? []).filter(isRecord);
  const shared = isRecord(sample.events_data) ? sample.events_data.messages : undefined;
  const pool = Array.isArray(shared) ? (resolved(shared, attachments) as unknown[]).map(messageOf) : [];
  const input = resolved(sample.input, attachments);
  const query = typeof input === 'string' ? input : Array.isArray(input) ? askedIn(input) : null;
  const output = isRecord(sample.output) ? resolved(sample.output, attachments) : {};
  const answer = isRecord(output) && typeof output.completion === 'string' ? output.completion : '';
  return runDrafts(emit, {
    format: NAME,
    episodeId,
    canonical: original,
    task: taskOf(
      NAME,
      query,
      {
        ...given('ground_truth', target ?? undefined),
        ...given('tags', without({ task, ...given('metadata', isRecord(metadata) ? metadata : undefined) })),
      },
      `${task}/${asText(id)}`,
    ),
    started: {
      attempt: (epoch as number) - 1,
      group_id: hashId(NAME, run.eval_id ?? run.run_id, id),
      ...(isIdentifier(run.run_id) ? { session_id: run.run_id } : {}),
      flags: [NO_TOKEN_IDS],
      ...given('tags', without({ task, model: run.model, eval_id: run.eval_id, solver: run.solver ?? undefined })),
    },
    startedAt: timeOfText(sample.started_at),
    events: [
      ...(events.some(({ event }) => event === 'model')
        ? eventDrafts(emit, episodeId, events, pool)
        : messageDrafts(
            episodeId,
            (resolved(sample.messages ?? [], attachments) as unknown[]).filter(isRecord),
            isRecord(output) ? output : {},
          )),
      ...scoreDrafts(episodeId, isRecord(scores) ? scores : {}),
    ],
    finished: {
      outcome: isRecord(error) ? 'error' : 'unknown',
      ...(answer === '' ? {} : { answer }),
      stop_reason: isRecord(error) ? 'error' : isRecord(limit) ? `limit: ${asText(limit.type)}` : 'completed',
      ...given('totals', isRecord(sample.model_usage) ? { model_usage: sample.model_usage } : undefined),
      ...given('unmapped', isRecord(error) ? { error } : undefined),
    },
    finishedAt: timeOfText(sample.completed_at),
  });
}

const askedIn = (messages: readonly unknown[]): string | null => {
  const asked = messages.find((message) => isRecord(message) && message.role === 'user');
  return isRecord(asked) ? textOf(asked.content) : null;
};

/** A log that was written without its events: the messages at the end, and what the last output was billed, are all that is known. */
function messageDrafts(episodeId: string, messages: readonly Fields[], output: Fields): Draft[] {
  const ledger = toolLedger();
  const last = messages.findLast(({ role }) => role === 'assistant');
  const [chosen] = Array.isArray(output.choices) ? (output.choices as unknown[]) : [];
  const before: Message[] = [];
  return messages.flatMap((message, seq): Draft[] => {
    const about = { episode_id: episodeId, seq };
    const shown = messageOf(message);
    const input = [...before];
    before.push(shown);
    if (message.role === 'assistant') {
      const call = { ...about, call_id: `m${seq}`, agent_id: 'solver' };
      const calls = (Array.isArray(message.tool_calls) ? message.tool_calls : []).filter(
        (one: unknown): one is Fields => isRecord(one) && isIdentifier(one.id) && isIdentifier(one.function),
      );
      return [
        emit.event('generation.requested', [episodeId, seq], { ...call, input }),
        emit.event('generation.completed', [episodeId, seq], {
          ...call,
          choices: [
            {
              index: 0,
              content: partsOf(message),
              ...(message === last ? given('finish_reason', finishReasonIn(chosen)) : {}),
            },
          ],
          ...(typeof message.model === 'string' ? { response_model: message.model } : {}),
          ...(message === last ? given('usage', usageOf(output.usage, 'within')) : {}),
        }),
        ...calls.map((asked, index) =>
          emit.event('tool.called', [episodeId, seq, index], {
            ...call,
            tool_call_id: ledger.call(asked.id as string),
            index,
            name: asked.function as string,
            type: 'function',
            arguments: asked.arguments ?? null,
            native: { tool_call_id: asked.id },
          }),
        ),
      ];
    }
    if (message.role === 'tool' && isIdentifier(message.tool_call_id)) {
      const failed = isRecord(message.error);
      return [
        emit.event('tool.returned', [episodeId, seq], {
          ...about,
          tool_call_id: ledger.result(message.tool_call_id),
          status: failed ? 'error' : 'ok',
          output: shown.content as Part[],
          ...(failed ? { error: message.error } : {}),
          native: { tool_call_id: message.tool_call_id },
        }),
      ];
    }
    const sent = {
      ...about,
      message_id: `m${seq}`,
      from: shown.role,
      role: shown.role,
      ...given('content', shown.content),
    };
    return [emit.event('message.sent', [episodeId, seq], sent)];
  });
}

/** The letters that Inspect writes for values, as it reads them back itself: correct, partial, incorrect, no answer. */
const LETTERS: Readonly<Record<string, number>> = { C: 1, P: 0.5, I: 0, N: 0 };

function scoreDrafts(episodeId: string, scores: Fields): Draft[] {
  return Object.entries(scores).flatMap(([name, native]): Draft[] => {
    if (!isRecord(native) || !isIdentifier(name)) return [];
    const { value, explanation } = native;
    const many = isRecord(value)
      ? Object.entries(value).map(([part, one]) => [`${name}/${part}`, one] as const)
      : [[name, value] as const];
    return many.flatMap(([called, one]): Draft[] => {
      const number = typeof one === 'string' ? ownOf(LETTERS, one) : one;
      if (!isIdentifier(called) || one === null || one === undefined) return [];
      const data = {
        feedback_id: hashId(NAME, episodeId, called),
        target: { kind: 'episode', id: episodeId, episode_id: episodeId },
        kind: 'score',
        name: called,
        ...(number === undefined ? {} : { value: number }),
        ...(typeof one === 'string' ? { label: one } : {}),
        ...(typeof explanation === 'string' ? { explanation } : {}),
        ...given('unmapped', without(native, 'value', 'explanation')),
      } as EventData<'feedback.recorded'>;
      return [emit.event('feedback.recorded', [episodeId, called], data)];
    });
  });
}
