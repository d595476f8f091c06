/**
 * Results of the batch APIs of OpenAI and Anthropic, one a line, in any order: a call each. The requests of a batch lie in a file of their own;
 * where an import holds both, they meet by `custom_id`, else what the model was shown is unknown.
 */

import type { Draft } from '../../events/events.ts';
import { canonicalJson, isRecord, type JsonObject, without } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import { anthropicChoice } from '../kit/anthropic-blocks.ts';
import { badMessage, type ChatMessage, toMessage, toolCallsOf } from '../kit/chat-message.ts';
import { type Conversion, type Format, listed, listsOf, type NativeRefusal } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import { chatOfItems } from '../kit/openai-responses.ts';
import { demand, Reader } from '../kit/reader.ts';
import { Trace } from '../kit/trace.ts';
import { answerUsage } from '../kit/usage.ts';
import { convertCompletionLog, LOG_RESTATES } from './completion-log.ts';

const NAME = 'model-batches';

const hasId = (one: unknown): one is JsonObject => isRecord(one) && typeof one.custom_id === 'string';
const isResult = (one: unknown): one is JsonObject =>
  hasId(one) &&
  ((isRecord(one.response) && 'status_code' in one.response) ||
    (isRecord(one.result) && typeof one.result.type === 'string') ||
    (one.response === null && isRecord(one.error)));
/** What a request asks for; null for what is none. */
const bodyOf = (one: unknown): JsonObject | null => {
  const body = hasId(one) ? (typeof one.url === 'string' ? one.body : one.params) : null;
  return isRecord(body) ? body : null;
};

export const modelBatches: Format = {
  name: NAME,
  summary:
    'Batches of OpenAI {custom_id, response: {status_code, body}} and Anthropic {custom_id, result}, with their requests where they are beside',
  recognises: ({ records }) => records.some((one) => isResult(one) || bodyOf(one) !== null),
  gathers: () => `import:${NAME}`,
  rereads: listed,
  restates: LOG_RESTATES,
  convert({ value }) {
    const records = listsOf(value).flat();
    const asked = new Map<unknown, JsonObject | null>();
    for (const one of records) {
      const body = bodyOf(one);
      if (!hasId(one) || body === null) continue;
      const other = asked.get(one.custom_id);
      // Batches count their requests anew: where two of them ask differently under one id, nobody knows which was answered.
      asked.set(one.custom_id, other === undefined || canonicalJson(other) === canonicalJson(body) ? body : null);
    }
    const answered = new Set(records.filter(isResult).map(({ custom_id: id }) => id));
    const unread = [...asked.keys()].filter((id) => !answered.has(id)).map(() => 'request without a result');
    const drafts: Draft[] = [];
    const refusals: NativeRefusal[] = [];
    const bodies: string[] = [];
    for (const [at, one] of records.entries()) {
      if (bodyOf(one) !== null) continue;
      const around = new Reader({});
      const [read] = around.attempt(() => (isResult(one) ? resultOf(one, asked.get(one.custom_id) ?? null) : null));
      for (const problem of around.problems) refusals.push({ ...problem, at, raw: JSON.stringify(one) });
      if (read === null) refusals.push({ ...refusal('bad_shape', '', 'a request or a result of a batch', one), at });
      if (!read) continue;
      pushAll(drafts, read.drafts);
      if (read.raw !== null) bodies.push(read.raw);
    }
    return { drafts, refusals, raw: null, bodies, unread };
  },
};

function resultOf(native: JsonObject, request: JsonObject | null): Conversion {
  const value = request ? [{ custom_id: native.custom_id, params: request }, native] : [native];
  const record = { value, canonical: canonicalJson(value), ordinal: 0 };
  const { response, result } = native as { readonly response?: JsonObject | null; readonly result?: JsonObject };
  const body = isRecord(result?.message) ? result.message : isRecord(response?.body) ? response.body : {};
  const failed =
    native.error ?? body.error ?? result?.error ?? (result && result.type !== 'succeeded' ? result.type : undefined);
  const choices = choicesOf(body);
  for (const [i, { message }] of choices.entries()) demand(badMessage(message, `choices[${i}].message`));
  const answered = {
    ...without(body, 'choices', 'content', 'output', 'type', 'role', 'error'),
    choices,
    ...(failed == null ? {} : { error: failed }),
  };
  const messages = request ? messagesIn(request) : null;
  if (messages !== null) {
    const { input: _, instructions: __, system: ___, ...params } = request!;
    return convertCompletionLog(
      NAME,
      { custom_id: native.custom_id, request: { ...params, messages }, response: answered },
      record,
    );
  }
  const trace = Trace.of(NAME, record);
  trace.add('generation.completed', [0], {
    seq: 0,
    call_id: 'm0',
    choices: choices.map(({ index, message, finish_reason: reason }) => ({
      index,
      content: toMessage(message).content,
      finish_reason: typeof reason === 'string' ? reason : undefined,
    })),
    response_id: typeof body.id === 'string' ? body.id : undefined,
    response_model: typeof body.model === 'string' ? body.model : undefined,
    usage: answerUsage(body),
    error: failed ?? undefined,
  });
  for (const [index, { id, ...call }] of choices.flatMap(({ message }) => toolCallsOf(message)).entries())
    trace.tool(0, index, id, { call_id: 'm0', ...call });
  return trace.finish({
    task: null,
    started: { native: { format: NAME, ids: { custom_id: native.custom_id } } },
    finished: { outcome: failed == null ? 'unknown' : 'error' },
  });
}

type BatchChoice = { readonly index: number; readonly message: ChatMessage; readonly finish_reason?: unknown };

/** The choices of an answer of chat completions, of responses or of messages. */
export function choicesOf(body: JsonObject): readonly BatchChoice[] {
  if (Array.isArray(body.choices)) return body.choices as BatchChoice[];
  if (Array.isArray(body.output)) return chatOfItems(body.output).map((message, index) => ({ index, message }));
  const choice = anthropicChoice(body);
  return choice ? [choice as BatchChoice] : [];
}

/** What a request of these APIs shows the model, as messages; null where it has none. */
export function messagesIn(request: JsonObject): unknown[] | null {
  const { messages, input, system, instructions } = request;
  const first = system ?? instructions;
  const opening = first == null ? [] : [{ role: 'system', content: first }];
  if (Array.isArray(messages)) return [...opening, ...messages];
  if (typeof input === 'string') return [...opening, { role: 'user', content: input }];
  return Array.isArray(input) ? [...opening, ...chatOfItems(input)] : null;
}
