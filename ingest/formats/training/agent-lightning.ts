/**
 * Agent Lightning (microsoft/agent-lightning): v1 events of rollouts and the rollouts themselves (agentlightning/schemas.py), and the
 * spans of v0.3 (types/tracer.py, semconv.py). An attempt at a rollout is an episode; tokens are as they were sampled.
 */
import { asText, hashId, isRecord, type JsonObject, ownOf, without } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Act, Judgement } from '../../traces/trace.ts';
import { type TraceReading, traceReading } from '../../traces/trace-import.ts';
import { type Conversion, type Format, listed, listsOf, type NativeRecord } from '../kit/format.ts';
import { Reader, unreadable } from '../kit/reader.ts';
import { timeOfSeconds } from '../kit/run.ts';
import { lightningCall } from './agent-lightning-calls.ts';
import { annotationsOf, lightningSpanAct } from './agent-lightning-spans.ts';

const NAME = 'agent-lightning';

export const agentLightning: Format = {
  name: NAME,
  summary:
    'Agent Lightning: events {event_type, rollout_id, attempt_id, timestamp, data}, rollouts {rollout_id, input}, spans of v0.3',
  recognises: ({ records }) =>
    records.some((record) => (isEvent(record) && 'rollout_id' in record) || isRollout(record) || isSpan(record)),
  gathers: () => `import:${NAME}`,
  rereads: listed,
  convert,
};

const isEvent = (value: unknown): value is JsonObject =>
  isRecord(value) && typeof value.event_type === 'string' && 'timestamp' in value && 'data' in value;
const isRollout = (value: unknown): boolean =>
  isRecord(value) && 'rollout_id' in value && 'input' in value && !('event_type' in value);
const isSpan = (value: unknown): boolean =>
  isRecord(value) && 'rollout_id' in value && 'span_id' in value && isRecord(value.attributes);

function convert(record: NativeRecord): Conversion {
  const reading = traceReading(NAME);
  const rollouts: Reader[] = [];
  for (const [at, one] of listsOf(record.value).flat().entries())
    reading.read(at, one, '', KINDS, (item) => {
      const { native } = item;
      if (!isEvent(native) && !isRollout(native) && !isSpan(native)) unreadable('bad_shape', '', KINDS, native);
      const rollout = item.ownId('rollout_id');
      if (isRollout(native)) return void rollouts.push(item);
      const trace = `${rollout}/${item.ownId('attempt_id')}`;
      if (isSpan(native)) {
        item.ownId('span_id');
        pushAll(reading.judgements, annotationsOf(NAME, native, trace));
        reading.acts.push(lightningSpanAct(NAME, native, trace));
      } else addEvent(reading, item, trace);
      reading.keep(trace, native);
    });
  for (const rollout of rollouts) {
    const { rollout_id: id, status } = rollout.native;
    const last = isRecord(status) && typeof status.last_attempt_id === 'string' ? status.last_attempt_id : '0';
    const known = reading.acts.map(({ trace }) => trace).filter((trace) => trace.startsWith(`${asText(id)}/`));
    for (const trace of new Set([...known, `${asText(id)}/${last}`])) {
      reading.acts.push(rolloutAct(rollout.native, trace, trace === `${asText(id)}/${last}`));
      reading.keep(trace, rollout.native);
    }
  }
  return reading.converted();
}

const KINDS = 'an event, a rollout or a span';

function addEvent({ acts, judgements }: TraceReading, event: Reader, trace: string): void {
  const { timestamp } = event.native;
  const time =
    timeOfSeconds(event.any('timestamp')) ?? unreadable('bad_time', 'timestamp', 'seconds since 1970', timestamp);
  const type = event.text('event_type')!;
  const data = new Reader(event.object('data', 'an object').native);
  event.any('data');
  if (type === 'reward') return void judgements.push(rewardOf(data, trace, time));
  const place = {
    ...{ format: NAME, trace, id: hashId(NAME, event.native), parent: null, name: type, start: time, end: time },
  };
  // Data has its place in `unmapped` beside the rest of the event.
  const rest = without(event.native, 'event_type', 'rollout_id', 'attempt_id', 'timestamp', 'data');
  if (type === 'model_request') return void acts.push({ ...place, ...lightningCall(data, rest) });
  const callId = data.id('tool_call_id');
  const agent = data.id('agent') ?? null;
  if (type === 'tool_result' && callId !== undefined) {
    const tool = data.id('name') ?? 'unknown';
    const what = { kind: 'tool' as const, tool, callId, output: data.any('content') };
    const error = data.any('error');
    acts.push({ ...place, what, agent, error, unmapped: without({ ...rest, data: data.rest() }) });
  } else {
    const seen = isIdentifier(type) ? type : 'event';
    acts.push({ ...place, what: { kind: 'observation', seen, content: data.native }, agent, unmapped: rest });
  }
}

function rewardOf(data: Reader, trace: string, time: string): Judgement {
  const value = data.any('value');
  const known = typeof value === 'number' || typeof value === 'boolean';
  if (!known && value !== undefined) unreadable('bad_number', 'data.value', 'a number or null', value);
  return {
    ...{ format: NAME, id: null, trace, act: null, name: 'reward', value: known ? Number(value) : null, time },
    explanation: data.text('message'),
    by: data.text('source'),
    ...(known ? {} : { flags: ['no_value'] }),
    unmapped: data.filledRest(),
  };
}

const OUTCOMES: Readonly<Record<string, 'success' | 'failure'>> = { succeeded: 'success', failed: 'failure' };

function rolloutAct(rollout: JsonObject, trace: string, last: boolean): Act {
  const { input, status, metadata, is_train: train } = rollout;
  const asked = isRecord(input) ? input : {};
  const state = isRecord(status) ? status : {};
  const text =
    typeof input === 'string'
      ? input
      : [asked.question, asked.prompt, asked.query, asked.task].find((one) => typeof one === 'string');
  const attempt = trace.slice(trace.lastIndexOf('/') + 1);
  return {
    format: NAME,
    trace,
    id: `rollout/${asText(rollout.rollout_id)}`,
    parent: null,
    name: '',
    start: timeOfSeconds(state.created_at),
    end: last ? timeOfSeconds(state.updated_at) : null,
    what: { kind: 'episode' },
    revision: timeOfSeconds(state.updated_at) ?? '',
    about: {
      taskId: [asked.task_id, asked.id].find(isIdentifier),
      taskText: text as string | undefined,
      groundTruth: asked.answer ?? asked.ground_truth,
      ...(/^\d{1,6}$/.test(attempt) ? { attempt: Number(attempt) } : {}),
      ...(last
        ? {
            outcome: ownOf(OUTCOMES, asText(state.state)),
            stopReason: typeof state.state === 'string' ? state.state : undefined,
          }
        : {}),
      tags: without({
        rollout_id: rollout.rollout_id,
        is_train: train ?? undefined,
        ...(isRecord(metadata) ? metadata : {}),
      }),
    },
    unmapped: without({
      ...without(rollout, 'rollout_id', 'is_train', 'metadata', 'input'),
      input: without(asked, 'task_id', 'question', 'answer', 'ground_truth'),
    }),
  };
}
