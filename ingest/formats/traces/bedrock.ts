/**
 * Model invocation logs of Amazon Bedrock, in CloudWatch or S3: a call of `Converse`, or of `InvokeModel` with the body of Anthropic's
 * Messages API or of the OpenAI chat API. The answer of a stream is a list of its events, which stay as they are.
 */
import { asText, isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import { toGenaiMessage } from '../../traces/genai-messages.ts';
import { anthropicChoice, fromAnthropic } from '../kit/anthropic-blocks.ts';
import { fromMessage } from '../kit/chat-message.ts';
import { format } from '../kit/reader.ts';
import { convertCompletionLog, LOG_RESTATES } from '../training/completion-log.ts';

const NAME = 'bedrock';

export const bedrock = format({
  name: NAME,
  summary: 'Amazon Bedrock invocation logs {schemaType: "ModelInvocationLog", modelId, input, output}',
  called: 'a log of an invocation',
  recognises: (row) => row.schemaType === 'ModelInvocationLog',
  restates: LOG_RESTATES,
  convert(row, record) {
    const asked = row.object('input', 'an object with the body of the request').record('inputBodyJson') ?? {};
    const output = row.object('output') ?? null;
    const answered = output?.native.outputBodyJson;
    const body = isRecord(answered) ? answered : {};
    const time = typeof row.native.timestamp === 'string' ? Date.parse(row.native.timestamp) : Number.NaN;
    const request = {
      ...without(asked, 'messages', 'system'),
      model: row.text('modelId'),
      messages: messagesIn(asked),
    };
    const { inputTokenCount: read } = row.object('input')!.native;
    const usage = body.usage ?? { input_tokens: read, output_tokens: output?.native.outputTokenCount };
    const error = row.any('errorCode');
    const response = {
      id: row.id('requestId'),
      usage,
      ...(Number.isNaN(time) ? {} : { created: Math.floor(time / 1000) }),
      ...(error === undefined ? { choices: choicesOf(body, answered) } : { error }),
    };
    return convertCompletionLog(NAME, { ...row.native, request, response }, record);
  },
});

/** Blocks of Converse have no type. */
const isConverse = (message: unknown): boolean =>
  isRecord(message) &&
  Array.isArray(message.content) &&
  message.content.some((block) => isRecord(block) && block.type === undefined);

function chatOf(native: unknown): JsonObject[] {
  const message = toGenaiMessage(native);
  const parts = Array.isArray(message.content) ? (message.content as JsonObject[]) : [];
  const results = parts.filter(({ type }) => type === 'tool_call_response');
  if (results.length === 0) return [fromMessage(message)];
  const rest = parts.filter((part) => !results.includes(part));
  const tools = results.map(({ id, response, status }) => ({
    role: 'tool',
    tool_call_id: id,
    content: typeof response === 'string' ? response : writtenArguments(response ?? null),
    ...(status === 'error' ? { is_error: true } : {}),
  }));
  return [...tools, ...(rest.length > 0 ? [fromMessage({ ...message, content: rest })] : [])];
}

function messagesIn({ messages, system, prompt }: JsonObject): unknown {
  const opening =
    system == null
      ? []
      : isConverse({ content: system })
        ? chatOf({ role: 'system', content: system })
        : [{ role: 'system', content: system }];
  if (!Array.isArray(messages)) return [...opening, { role: 'user', content: asText(prompt ?? '') }];
  return [
    ...opening,
    ...(messages.some(isConverse) ? messages.flatMap(chatOf) : (fromAnthropic(messages) as unknown[])),
  ];
}

function choicesOf(body: JsonObject, answered: unknown): unknown[] {
  if (Array.isArray(body.choices)) return body.choices;
  const { message } = isRecord(body.output) ? body.output : {};
  if (isRecord(message))
    return chatOf(message).map((one, index) => ({
      index,
      message: one,
      finish_reason: STOPS[asText(body.stopReason ?? '')] ?? body.stopReason,
    }));
  const choice = anthropicChoice(body);
  if (choice) return [choice];
  return answered == null
    ? []
    : [{ index: 0, message: { role: 'assistant', content: [{ type: 'raw', content: answered }] } }];
}

const STOPS: Readonly<Record<string, string>> = { end_turn: 'stop', tool_use: 'tool_call', max_tokens: 'length' };
