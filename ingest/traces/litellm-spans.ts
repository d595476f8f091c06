/**
 * Spans of LiteLLM's callback `otel` (BerriAI/litellm 1.106.2, integrations/opentelemetry.py). A call is a span `litellm_request`; its
 * operation is the function that was called, such as `acompletion`, and its tool calls stand beside the message, one a completion.
 */

import { isRecord } from '../events/json.ts';
import { jsonIn } from '../formats/kit/span-attributes.ts';
import type { Attributes, OtlpSpan } from './otlp/span.ts';

export const isLitellmCall = ({ scope, name, attributes }: OtlpSpan): boolean =>
  scope === 'litellm' && name === 'litellm_request' && 'gen_ai.request.model' in attributes;

/** A call as the GenAI conventions put it: an operation of theirs, tool calls in the message of the first candidate. */
export function litellmCall(span: OtlpSpan): OtlpSpan {
  const calls = toolCalls(span.attributes);
  const attributes = Object.fromEntries(Object.entries(span.attributes).filter(([key]) => !TOOL_CALL.test(key)));
  const [first, ...others] = messagesOf(attributes);
  return {
    ...span,
    attributes: {
      ...attributes,
      'gen_ai.operation.name': 'chat',
      ...(calls.length === 0
        ? {}
        : {
            'gen_ai.output.messages': [
              { role: 'assistant', ...first, parts: [...(Array.isArray(first?.parts) ? first.parts : []), ...calls] },
              ...others,
            ],
          }),
    },
  };
}

const TOOL_CALL = /^gen_ai\.completion\.(\d+)\.function_call\.(?:name|arguments)$/;

function messagesOf(attributes: Attributes): readonly Record<string, unknown>[] {
  const messages = jsonIn(attributes['gen_ai.output.messages']);
  return Array.isArray(messages) ? messages.filter(isRecord) : [];
}

function toolCalls(attributes: Attributes): readonly object[] {
  const numbers = Object.keys(attributes).map((key) => TOOL_CALL.exec(key)?.[1]);
  return [...new Set(numbers)]
    .filter((number) => number !== undefined)
    .sort((a, b) => Number(a) - Number(b))
    .map((number) => ({
      type: 'tool_call',
      name: attributes[`gen_ai.completion.${number}.function_call.name`],
      arguments: attributes[`gen_ai.completion.${number}.function_call.arguments`],
    }));
}
