/** A response as the events of a stream: together they give the body of the same request without `stream`. Pure. */
import { isRecord } from '../ingest/json.ts';
import type { CompletionRequest } from './gateway-request.ts';

type Fields = Readonly<Record<string, unknown>>;

/** One server-sent event. */
export type StreamEvent = { readonly event?: string; readonly data: unknown };

/** The events of a response body. */
export type EventsOf = (body: Fields, request: CompletionRequest) => readonly StreamEvent[];

/** The text of a stream (HTML standard, server-sent events); `data` that is not a string is written as JSON, which has no line ends. */
export const streamText = (events: readonly StreamEvent[]): string =>
  events
    .map(({ event, data }) => {
      const line = `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
      return event === undefined ? line : `event: ${event}\n${line}`;
    })
    .join('');

/** The end of a stream in the OpenAI interfaces for completions. */
const DONE: StreamEvent = { data: '[DONE]' };

/** For /v1/chat/completions: for each choice a chunk with its role, those with its content, and one with its finish reason. */
export const chatEvents: EventsOf = (body, { stream }) =>
  chunked(body, { object: 'chat.completion.chunk', usage: stream?.usage ?? false }, ({ message, ...choice }) => {
    const { index, finish_reason, logprobs, ...tokens } = choice;
    const { content, tool_calls: calls } = message as Fields;
    const chunk = (delta: object, more: object = {}) => ({ index, delta, finish_reason: null, ...more });
    return [
      chunk({ role: 'assistant', content: content === null ? null : '' }),
      chunk(typeof content === 'string' && content !== '' ? { content } : {}, { logprobs, ...tokens }),
      ...(Array.isArray(calls)
        ? calls.map((call: Fields, place) => chunk({ tool_calls: [{ index: place, ...call }] }))
        : []),
      chunk({}, { finish_reason }),
    ];
  });

/** For /v1/completions. */
export const textEvents: EventsOf = (body, { stream }) =>
  chunked(body, { object: 'text_completion', usage: stream?.usage ?? false }, ({ finish_reason, ...choice }) => [
    { ...choice, finish_reason: null },
    { index: choice.index, text: '', logprobs: null, finish_reason },
  ]);

function chunked(
  { choices, usage, prompt_token_ids, troupe, ...head }: Fields,
  how: { readonly object: string; readonly usage: boolean },
  pieces: (choice: Fields) => readonly object[],
): StreamEvent[] {
  const all = { ...head, object: how.object, ...(how.usage ? { usage: null } : {}) };
  const chunks = (choices as readonly unknown[]).filter(isRecord).flatMap(pieces);
  return [
    ...chunks.map((choice, i) => ({
      data: { ...all, ...(i === 0 ? { prompt_token_ids, troupe } : {}), choices: [choice] },
    })),
    ...(how.usage ? [{ data: { ...all, choices: [], usage } }] : []),
    DONE,
  ];
}
