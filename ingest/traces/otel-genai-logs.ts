/**
 * What the GenAI conventions put beside a span, in log records or in its events: the content of a call, in the older versions message
 * by message, and evaluations.
 */
import { given, isRecord, without } from '../events/json.ts';
import { idAt, jsonIn, leftover, textAt } from '../formats/kit/span-attributes.ts';
import { toGenaiMessage } from './genai-messages.ts';
import type { Attributes, OtlpLog } from './otlp/span.ts';
import type { Judgement } from './trace.ts';

export const OTEL_GENAI = 'otel-genai';
/** Name of the log that holds the content of a call, and of the events that held its messages one by one until v1.36. */
const DETAILS = 'gen_ai.client.inference.operation.details';
const MESSAGE_EVENT = /^gen_ai\.(system|user|assistant|tool)\.message$/;
const CHOICE_EVENT = 'gen_ai.choice';
const EVALUATION = 'gen_ai.evaluation.result';

export const isContentEvent = (name: string): boolean =>
  name === DETAILS || name === CHOICE_EVENT || MESSAGE_EVENT.test(name);
export const isEvaluation = (name: string): boolean => name === EVALUATION;

/** Attributes with the content of these logs and events of one call, as the newer conventions define them. */
export function contentAttributes(
  entries: readonly { readonly name: string; readonly body: unknown; readonly attributes: Attributes }[],
): Attributes {
  const details = entries.filter(({ name }) => name === DETAILS);
  const bodyOf = ({ body, attributes }: (typeof entries)[number]): Record<string, unknown> =>
    isRecord(body) ? body : (without(attributes, 'event.name', 'gen_ai.system', 'gen_ai.provider.name') ?? {});
  const input = entries.flatMap((one) => {
    const role = MESSAGE_EVENT.exec(one.name)?.[1];
    return role === undefined ? [] : [unifyMessage(role, bodyOf(one))];
  });
  const output = entries
    .filter(({ name }) => name === CHOICE_EVENT)
    .map(bodyOf)
    .sort((a, b) => Number(a.index ?? 0) - Number(b.index ?? 0))
    .map((body) => {
      const message = jsonIn(body.message);
      const inner = isRecord(message)
        ? message
        : { content: body.content ?? body.message ?? null, ...toolCallsOf(body) };
      return { ...unifyMessage('assistant', inner), finish_reason: body.finish_reason };
    });
  return {
    ...Object.assign(
      {},
      ...details.map(({ attributes, body }) => ({ ...(isRecord(body) ? body : {}), ...attributes })),
    ),
    ...(input.length > 0 ? { 'gen_ai.input.messages': input } : {}),
    ...(output.length > 0 ? { 'gen_ai.output.messages': output } : {}),
  };
}

const toolCallsOf = ({ tool_calls: calls }: Record<string, unknown>) => given('tool_calls', calls);

/** A message of the older events as `{role, parts}`. */
function unifyMessage(role: string, body: Record<string, unknown>): Record<string, unknown> {
  const { id, content, tool_calls: native, ...rest } = body;
  const calls = jsonIn(native);
  const flat = {
    role: typeof body.role === 'string' ? body.role : role,
    content: (jsonIn(content) !== undefined && Array.isArray(jsonIn(content)) ? jsonIn(content) : content) ?? null,
    ...(Array.isArray(calls) ? { tool_calls: calls } : {}),
    ...(role === 'tool' && id !== undefined ? { tool_call_id: id } : {}),
    ...without(rest, 'role', 'gen_ai.system', 'gen_ai.provider.name', 'event.name'),
  };
  const { content: text, role: speaker, ...more } = toGenaiMessage(flat);
  const parts = typeof text === 'string' ? [{ type: 'text', content: text }] : (text ?? []);
  return { role: speaker, parts, ...more };
}

/** An evaluation, from a log record or an event of a span. */
export function evaluationOf(
  evaluation: Pick<OtlpLog, 'traceId' | 'spanId' | 'time' | 'attributes'> & Partial<Pick<OtlpLog, 'native'>>,
): Judgement {
  const { attributes } = evaluation;
  const score = attributes['gen_ai.evaluation.score.value'];
  const response = idAt(attributes, 'gen_ai.response.id');
  const number = typeof score === 'number';
  const rest = leftover(
    attributes,
    (key) => key.startsWith('gen_ai.evaluation.') && key !== 'gen_ai.evaluation.score.value',
  );
  return {
    format: OTEL_GENAI,
    id: null,
    trace: response !== undefined && evaluation.spanId === null ? null : evaluation.traceId,
    act: evaluation.spanId,
    ...given('foreign', response),
    name: idAt(attributes, 'gen_ai.evaluation.name') ?? 'evaluation',
    ...(number ? { value: score } : score === undefined ? {} : { value: null, flags: ['not_a_number'] }),
    ...given('label', textAt(attributes, 'gen_ai.evaluation.score.label')),
    ...given('explanation', textAt(attributes, 'gen_ai.evaluation.explanation')),
    time: evaluation.time,
    ...given(
      'unmapped',
      rest && without({ attributes: number ? without(rest, 'gen_ai.evaluation.score.value') : rest }),
    ),
    ...given('native', evaluation.native),
  };
}
