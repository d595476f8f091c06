/**
 * Agent Lightning (microsoft/agent-lightning): v1 events of rollouts and the rollouts themselves (agentlightning/schemas.py), and the
 * spans of v0.3 (types/tracer.py, semconv.py). An attempt at a rollout is an episode; tokens are as they were sampled.
 */
import { asText, given, hashId, isRecord, type JsonObject, ownOf, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Act, Judgement } from '../../traces/trace.ts';
import { traceReading } from '../../traces/trace-import.ts';
import { type Conversion, type Format, listed, listsOf, type NativeRecord, type NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';
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
  restates: new Set(['task.defined']),
};

const isEvent = (value: unknown): value is JsonObject =>
  isRecord(value) && typeof value.event_type === 'string' && 'timestamp' in value && 'data' in value;
const isRollout = (value: unknown): boolean =>
  isRecord(value) && 'rollout_id' in value && 'input' in value && !('event_type' in value);
const isSpan = (value: unknown): boolean =>
  isRecord(value) && 'rollout_id' in value && 'span_id' in value && isRecord(value.attributes);

function convert(record: NativeRecord): Conversion {
  const reading = traceReading(NAME);
  const rollouts: JsonObject[] = [];
  for (const [at, one] of listsOf(record.value).flat().entries()) {
    const bad = badRecord(one);
    if (bad) {
      reading.refusals.push({ ...bad, at });
      continue;
    }
    const item = one as JsonObject;
    if (isRollout(item)) {
      rollouts.push(item);
      continue;
    }
    const trace = `${asText(item.rollout_id)}/${asText(item.attempt_id)}`;
    reading.keep(trace, item);
    if (isSpan(item)) {
      const judged = annotationsOf(NAME, item, trace);
      reading.judgements.push(...judged);
      reading.acts.push(lightningSpanAct(NAME, item, trace));
    } else if (item.event_type === 'reward') reading.judgements.push(rewardOf(item, trace));
    else reading.acts.push(eventAct(item, trace));
  }
  for (const rollout of rollouts) {
    const status = isRecord(rollout.status) ? rollout.status : {};
    const last = typeof status.last_attempt_id === 'string' ? status.last_attempt_id : '0';
    const known = reading.acts
      .map(({ trace }) => trace)
      .filter((trace) => trace.startsWith(`${asText(rollout.rollout_id)}/`));
    for (const trace of new Set([...known, `${asText(rollout.rollout_id)}/${last}`])) {
      reading.acts.push(rolloutAct(rollout, trace, trace === `${asText(rollout.rollout_id)}/${last}`));
      reading.keep(trace, rollout);
    }
  }
  return reading.converted();
}

function badRecord(value: unknown): NativeRefusal | null {
  if (!isRecord(value) || (!isEvent(value) && !isRollout(value) && !isSpan(value))) {
    return refusal('bad_shape', '', 'an event, a rollout or a span', value);
  }
  const bad = badIdentifier(value.rollout_id, 'rollout_id');
  if (bad || isRollout(value)) return bad;
  const badAttempt = badIdentifier(value.attempt_id, 'attempt_id');
  if (badAttempt) return badAttempt;
  if (isSpan(value)) return badIdentifier(value.span_id, 'span_id');
  if (timeOfSeconds(value.timestamp) === null)
    return refusal('bad_time', 'timestamp', 'seconds since 1970', value.timestamp);
  if (!isRecord(value.data)) return refusal('bad_type', 'data', 'an object', value.data);
  if (value.event_type !== 'reward') return null;
  const { value: reward } = value.data;
  return reward === undefined || reward === null || typeof reward === 'number' || typeof reward === 'boolean'
    ? null
    : refusal('bad_number', 'data.value', 'a number or null', reward);
}

function eventAct(event: JsonObject, trace: string): Act {
  const data = event.data as JsonObject;
  const type = event.event_type as string;
  const time = timeOfSeconds(event.timestamp);
  const place = {
    format: NAME,
    trace,
    id: hashId(NAME, event),
    parent: null,
    name: type,
    start: time,
    end: time,
  };
  const rest = without(event, 'event_type', 'rollout_id', 'attempt_id', 'timestamp', 'data');
  if (type === 'model_request') return { ...place, ...lightningCall(data, rest) };
  if (type === 'tool_result' && isIdentifier(data.tool_call_id)) {
    const failed = data.error !== undefined && data.error !== null;
    return {
      ...place,
      what: {
        kind: 'tool',
        tool: isIdentifier(data.name) ? data.name : 'unknown',
        callId: data.tool_call_id,
        ...given('output', data.content ?? undefined),
      },
      agent: isIdentifier(data.agent) ? data.agent : null,
      ...(failed ? { error: data.error } : {}),
      unmapped: without({ ...rest, data: without(data, 'tool_call_id', 'name', 'content', 'error', 'agent') }),
    };
  }
  return {
    ...place,
    what: { kind: 'observation', seen: isIdentifier(type) ? type : 'event', content: data },
    agent: isIdentifier(data.agent) ? data.agent : null,
    unmapped: rest,
  };
}

function rewardOf(event: JsonObject, trace: string): Judgement {
  const data = event.data as JsonObject;
  const known = typeof data.value === 'number' || typeof data.value === 'boolean';
  return {
    format: NAME,
    id: null,
    trace,
    act: null,
    name: 'reward',
    value: known ? Number(data.value) : null,
    ...given('explanation', typeof data.message === 'string' ? data.message : undefined),
    ...given('by', typeof data.source === 'string' ? data.source : undefined),
    time: timeOfSeconds(event.timestamp),
    ...(known ? {} : { flags: ['no_value'] }),
    unmapped: without(data, 'value', 'message', 'source', ...(data.reason === null ? ['reason'] : [])),
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
