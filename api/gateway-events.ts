/** An answer as the events of a stream: what a client makes of them is the body it would have had without `stream`. Pure. */
import { isRecord } from '../ingest/json.ts';
import type { CompletionRequest } from './gateway-request.ts';

type Fields = Readonly<Record<string, unknown>>;

/** One server-sent event. */
export type StreamEvent = { readonly event?: string; readonly data: unknown };

/** The events of an answer body. */
export type EventsOf = (body: Fields, request: CompletionRequest) => readonly StreamEvent[];

/** The text of a stream (HTML standard, server-sent events); `data` that is no text is written as JSON, which has no line ends. */
export const streamText = (events: readonly StreamEvent[]): string =>
  events
    .map(({ event, data }) => {
      const line = `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
      return event === undefined ? line : `event: ${event}\n${line}`;
    })
    .join('');

/** The end of a stream in the OpenAI interfaces for completions. */
const DONE: StreamEvent = { data: '[DONE]' };

/** For /v1/chat/completions: of each choice a chunk with its role, those with what it says, and one with why it ended. */
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
  const said = (choices as readonly unknown[]).filter(isRecord).flatMap(pieces);
  return [
    ...said.map((choice, i) => ({
      data: { ...all, ...(i === 0 ? { prompt_token_ids, troupe } : {}), choices: [choice] },
    })),
    ...(how.usage ? [{ data: { ...all, choices: [], usage } }] : []),
    DONE,
  ];
}
