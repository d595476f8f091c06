/** What an observation of Langfuse is. Its input and output have no fixed form: messages where they look like messages, else JSON. */
import type { Message } from '../events/events.ts';
import { canonicalJson, given, isRecord, type JsonObject, without } from '../events/json.ts';
import { isIdentifier } from '../events/text.ts';
import { badMessage, type ChatMessage, toMessage } from '../formats/kit/chat-message.ts';
import { finishReasonIn } from '../formats/kit/finish-reason.ts';
import { choiceOf, contentOf, idAt, messageOf, textAt } from '../formats/kit/span-attributes.ts';
import { usageOf } from '../formats/kit/usage.ts';
import { toGenaiMessage } from './genai-messages.ts';
import { isLangchain, toLangchainMessage, toolResult } from './langchain-messages.ts';
import { nodeOf } from './langgraph.ts';
import type { Choice, SpanKind } from './trace.ts';

export function langfuseSpanKind(
  type: string,
  body: JsonObject,
): { readonly what: SpanKind; readonly agent: string | null } {
  const name = isIdentifier(body.name) ? body.name : 'unknown';
  const metadata = isRecord(body.metadata) ? body.metadata : {};
  const agent = idAt(metadata, 'agent_name', 'agent') ?? nodeOf(metadata);
  switch (type) {
    case 'GENERATION':
      return { what: generationOf(body), agent };
    case 'AGENT':
      return { what: { kind: 'agent' }, agent: name };
    case 'TOOL': {
      const { callId, ...result } = toolResult(body.output ?? undefined);
      return {
        what: {
          kind: 'tool',
          tool: name,
          callId: callId ?? idAt(metadata, 'tool_call_id', 'toolCallId') ?? null,
          ...given('asked', body.input ?? undefined),
          ...result,
        },
        agent,
      };
    }
    case 'RETRIEVER':
    case 'EVENT':
      return {
        what: {
          kind: 'observation',
          seen: type.toLowerCase(),
          content: without({ name, input: body.input, output: body.output }),
        },
        agent,
      };
    default:
      return { what: { kind: 'wrapper' }, agent: null };
  }
}

function generationOf(body: JsonObject): SpanKind {
  const { model, modelParameters: params, input, output, usageDetails, usage: oldUsage } = body;
  const asked = messagesOf(input);
  const counts = [usageDetails, oldUsage].find(isRecord);
  const costs = isRecord(body.costDetails) ? body.costDetails : {};
  const usage = usageOf({ ...counts, cost_usd: costs.total ?? body.calculatedTotalCost ?? null });
  return {
    kind: 'generation',
    asked: body.startTime !== undefined || input !== undefined || model !== undefined || !('id' in body),
    answered: body.endTime != null || output != null || !('id' in body),
    ...given('model', typeof model === 'string' ? model : undefined),
    ...(isRecord(params) ? { params } : {}),
    ...(asked ? { input: asked } : {}),
    ...(isRecord(input) && Array.isArray(input.tools) ? { tools: input.tools } : {}),
    choices: choicesOf(output),
    ...given('usage', usage),
  };
}

function messagesOf(input: unknown): Message[] | undefined {
  if (input === undefined || input === null) return undefined;
  const list = Array.isArray(input) ? input : isRecord(input) && Array.isArray(input.messages) ? input.messages : null;
  return (list ?? [typeof input === 'string' ? { role: 'user', content: input } : input]).map(messageIn);
}

function messageIn(value: unknown): Message {
  if (isLangchain(value)) return toLangchainMessage(value);
  if (badMessage(value, '') === null) return toMessage(value as ChatMessage);
  if (isRecord(value) && ('role' in value || 'parts' in value)) return toGenaiMessage(value);
  return messageOf('unknown', [{ type: 'raw', content: value }]);
}

function choicesOf(output: unknown): Choice[] {
  if (output === undefined || output === null) return [{ index: 0 }];
  if (typeof output === 'string') return [{ index: 0, content: output }];
  const list = isRecord(output) && Array.isArray(output.choices) ? output.choices : [output];
  return list.map((one: unknown, index: number) => {
    const message = isRecord(one) && isRecord(one.message) ? one.message : one;
    const metadata = isRecord(message) ? message.response_metadata : undefined;
    return choiceOf(index, contentIn(message), finishReasonIn(one, message, metadata, output));
  });
}

function contentIn(message: unknown): Choice['content'] | undefined {
  if (typeof message === 'string') return message;
  if (
    isRecord(message) &&
    ('role' in message || 'tool_calls' in message || 'parts' in message || 'content' in message)
  ) {
    return messageIn({ role: 'assistant', ...message }).content ?? undefined;
  }
  const text = isRecord(message) ? textAt(message, 'text', 'completion') : undefined;
  return text ?? contentOf([{ type: 'raw', content: message ?? null }]);
}

/** The text of a trace's input or output: a text, or the one text in an object. */
export function textOfAny(value: unknown): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value;
  if (!isRecord(value)) return undefined;
  const texts = Object.values(value).filter((member) => typeof member === 'string');
  return texts.length === 1 && Object.keys(value).length === 1
    ? texts[0]
    : value && Object.keys(value).length > 0
      ? canonicalJson(value)
      : undefined;
}
