/**
 * Logs of Inspect AI, one a document: {version, eval, samples}. Read from what inspect_ai 0.3.285 (PyPI) writes with a scripted model,
 * `log_format="json"`, and from the names of its log schema. A sample, each epoch of it, is an episode. Long texts stand once in
 * `attachments`, the messages of model calls once in `events_data`. An `.eval` file is a ZIP of such parts, read sample by sample.
 */
import type { Draft, Message, Part } from '../../events/events.ts';
import { asText, hashId, isRecord, type JsonObject, ownOf, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { refusal, refused } from '../kit/native.ts';
import { isWhole, Reader } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import { addEvents } from './inspect-events.ts';
import { messageOf, partsOf, resolved, textOf, toolsIn } from './inspect-messages.ts';

const NAME = 'inspect';

const isLog = (record: unknown): record is JsonObject =>
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
};

/** The log of one sample of an archive: of its header what the events of a sample are made of. */
export function logOfSample(header: unknown, sample: unknown): unknown {
  const run = isRecord(header) && isRecord(header.eval) ? header.eval : {};
  const read = ['run_id', 'eval_id', 'task', 'model', 'solver'].filter((name) => name in run);
  return { eval: Object.fromEntries(read.map((name) => [name, run[name]])), samples: [sample] };
}

function convert(record: NativeRecord): Conversion {
  const { value: log } = record;
  if (!isLog(log))
    return refused(refusal('bad_shape', 'eval', 'an Inspect log {eval: {run_id, task, model}, samples}', log));
  const { samples } = log;
  if (!Array.isArray(samples)) return refused(refusal('bad_type', 'samples', 'a list of samples', samples));
  const refusals: NativeRefusal[] = [];
  const bodies: string[] = [];
  const header = without(log, 'samples')!;
  const drafts = samples.flatMap((native: unknown, i): readonly Draft[] => {
    const bad = badSample(native, `samples[${i}]`);
    if (bad) {
      refusals.push(bad);
      return [];
    }
    const sample = native as JsonObject;
    const original = writtenJson(sample);
    bodies.push(original);
    return sampleDrafts(header.eval as JsonObject, sample, original);
  });
  if (samples.length === 0) refusals.push(refusal('bad_shape', 'samples', 'at least one sample', samples));
  return { drafts, refusals, raw: null, bodies, repeated: record.ordinal > 0 };
}

function badSample(native: unknown, place: string): NativeRefusal | null {
  if (!isRecord(native)) return refusal('bad_type', place, 'a sample object', native);
  const { id, epoch, events, messages } = native;
  if (!isIdentifier(id) && typeof id !== 'number') return refusal('bad_type', `${place}.id`, 'a text or a number', id);
  if (!isWhole(epoch)) return refusal('bad_type', `${place}.epoch`, 'a whole number', epoch);
  if (events !== undefined && (!Array.isArray(events) || !events.every(isRecord)))
    return refusal('bad_type', `${place}.events`, 'a list of events', events);
  if (messages !== undefined && !Array.isArray(messages))
    return refusal('bad_type', `${place}.messages`, 'a list of messages', messages);
  return null;
}

function sampleDrafts(native: JsonObject, sampled: JsonObject, canonical: string): readonly Draft[] {
  const [run, sample] = [new Reader(native), new Reader(sampled)];
  const { id, uuid, attachments, transcript: old, events_data: pools } = sample.native;
  const task = run.id('task') ?? NAME;
  const evaluation = native.eval_id ?? native.run_id;
  // Until November 2024 the events stood in a transcript, with their attachments.
  const transcript = isRecord(old) ? old : {};
  const texts = [attachments, transcript.content].find(isRecord) ?? {};
  const all = resolved(sample.native.events ?? transcript.events ?? [], texts);
  const events = (Array.isArray(all) ? all : []).filter(isRecord);
  const shared = isRecord(pools) ? pools.messages : undefined;
  const pool = Array.isArray(shared) ? (resolved(shared, texts) as unknown[]).map(messageOf) : [];
  const input = resolved(sample.native.input, texts);
  const query = typeof input === 'string' ? input : Array.isArray(input) ? askedIn(input) : null;
  const answered = resolved(sample.native.output, texts);
  const output = new Reader(isRecord(answered) ? answered : {});
  const [error, limit] = [sample.object('error')?.native, sample.object('limit')];
  const record = { value: null, canonical, ordinal: 0 };
  const trace = Trace.revised(NAME, record, isIdentifier(uuid) ? uuid : hashId(NAME, evaluation, id, sampled.epoch));
  if (events.some(({ event }) => event === 'model')) addEvents(trace, events, pool);
  else addMessages(trace, (resolved(sample.list('messages') ?? [], texts) as unknown[]).filter(isRecord), output);
  addScores(trace, sample.object('scores')?.native ?? {});
  const usage = sample.object('model_usage')?.native;
  return trace.finish({
    task: taskOf(
      NAME,
      query,
      {
        ground_truth: sample.any('target'),
        tags: without({ task, metadata: sample.object('metadata')?.native }),
      },
      `${task}/${asText(id)}`,
    ),
    started: {
      attempt: (sampled.epoch as number) - 1,
      group_id: hashId(NAME, evaluation, id),
      session_id: run.id('run_id'),
      tags: without({ task, model: native.model, eval_id: native.eval_id, solver: native.solver ?? undefined }),
    },
    startedAt: sample.time('started_at'),
    finished: {
      outcome: error ? 'error' : 'unknown',
      answer: output.text('completion') || undefined,
      stop_reason: error ? 'error' : limit ? `limit: ${asText(limit.any('type'))}` : 'completed',
      totals: usage && { model_usage: usage },
      unmapped: error && { error },
    },
    finishedAt: sample.time('completed_at'),
  }).drafts;
}

const askedIn = (messages: readonly unknown[]): string | null => {
  const asked = messages.find((message) => isRecord(message) && message.role === 'user');
  return isRecord(asked) ? textOf(asked.content) : null;
};

/** A log that was written without its events: the messages at the end, and what the last output was billed, are all that is known. */
function addMessages(trace: Trace, messages: readonly JsonObject[], output: Reader): void {
  const last = messages.findLast(({ role }) => role === 'assistant');
  const [chosen] = output.list('choices') ?? [];
  const before: Message[] = [];
  for (const [seq, native] of messages.entries()) {
    const message = new Reader(native);
    const said = messageOf(native);
    const input = [...before];
    before.push(said);
    const answers = message.id('tool_call_id');
    if (native.role === 'assistant') {
      const call = { call_id: `m${seq}`, agent_id: 'solver' };
      const isLast = native === last;
      trace.add('generation.requested', [seq], { seq, ...call, input });
      trace.add('generation.completed', [seq], {
        seq,
        ...call,
        choices: [{ index: 0, content: partsOf(native), finish_reason: isLast ? finishReasonIn(chosen) : undefined }],
        response_model: message.text('model'),
        usage: isLast ? usageOf(output.any('usage'), 'within') : undefined,
      });
      for (const [index, asked] of toolsIn(native).entries())
        trace.tool(seq, index, asked.id, {
          ...call,
          name: asked.function,
          type: 'function',
          arguments: asked.arguments ?? null,
        });
    } else if (native.role === 'tool' && answers !== undefined) {
      const error = message.object('error')?.native;
      trace.result(seq, answers, { status: error ? 'error' : 'ok', output: said.content as Part[], error });
    } else trace.message(seq, said.role, said.content as Part[], { role: said.role });
  }
}

/** The letters that Inspect writes for values, as it reads them back itself: correct, partial, incorrect, no answer. */
const LETTERS: Readonly<Record<string, number>> = { C: 1, P: 0.5, I: 0, N: 0 };

function addScores(trace: Trace, scores: JsonObject): void {
  for (const [name, native] of Object.entries(scores)) {
    if (!isRecord(native) || !isIdentifier(name)) continue;
    const score = new Reader(native);
    const value = score.any('value');
    const explanation = score.text('explanation');
    score.any('explanation');
    const unmapped = score.rest();
    const many = isRecord(value)
      ? Object.entries(value).map(([part, one]) => [`${name}/${part}`, one] as const)
      : [[name, value] as const];
    for (const [called, one] of many) {
      if (!isIdentifier(called) || one === null || one === undefined) continue;
      const number = typeof one === 'string' ? ownOf(LETTERS, one) : (one as number);
      const label = typeof one === 'string' ? one : undefined;
      trace.feedback([called], { kind: 'score', name: called, value: number, label, explanation, unmapped });
    }
  }
}
