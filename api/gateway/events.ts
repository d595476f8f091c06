/** A response as the events of a stream. */
import { isRecord, type JsonObject } from '../../ingest/events/json.ts';
import { writtenJson } from '../../ingest/events/spelling.ts';
import type { CompletionRequest } from './request.ts';

/** One server-sent event. */
export type StreamEvent = { readonly event?: string; readonly data: unknown };

/**
 * Writes a response as the events of a stream: text as it grows, then the rest. Together they give the body of the same request without
 * `stream`; log-probabilities and token ids of a choice come with the last of its text.
 */
export type StreamWriter = {
  readonly text: (choice: number, text: string) => readonly StreamEvent[];
  /** @throws Error if the text of the body does not begin with what was written. */
  readonly end: (body: JsonObject) => readonly StreamEvent[];
};

/** A writer for one response; `before` is its body before any text, or the whole body. */
export type StreamOf = (before: JsonObject, request: CompletionRequest) => StreamWriter;

/** What of a text was not written yet. */
export function restOf(whole: string, written: string): string {
  if (!whole.startsWith(written)) throw new Error('The text of a response changed after it was streamed.');
  return whole.slice(written.length);
}

/** The text of a stream (HTML standard, server-sent events); `data` that is not a string is written as JSON, which has no line ends. */
export const streamText = (events: readonly StreamEvent[]): string =>
  events
    .map(({ event, data }) => {
      const line = `data: ${typeof data === 'string' ? data : writtenJson(data)}\n\n`;
      return event === undefined ? line : `event: ${event}\n${line}`;
    })
    .join('');

/** The end of a stream that was not recorded: a comment, which clients of server-sent events pass over. */
export const UNRECORDED = ': troupe-recorded: false\n\n';

/** The end of a stream in the OpenAI interfaces for completions. */
const DONE: StreamEvent = { data: '[DONE]' };

/** For /v1/chat/completions: for each choice a chunk with its role, those with its content, and one with its finish reason. */
export const chatStream: StreamOf = (before, { stream }) => {
  const chunk = (index: unknown, delta: object, more: object = {}) => ({ index, delta, finish_reason: null, ...more });
  const open = (index: unknown, content: string | null) => chunk(index, { role: 'assistant', content });
  return chunked(
    before,
    { object: 'chat.completion.chunk', usage: stream?.usage ?? false },
    (index, text, isFirst) => [...(isFirst ? [open(index, '')] : []), chunk(index, { content: text })],
    ({ message, ...choice }, written) => {
      const { index, finish_reason, logprobs, ...tokens } = choice;
      const { content, tool_calls: calls, role: _, ...other } = message as JsonObject;
      const rest = restOf(typeof content === 'string' ? content : '', written ?? '');
      return [
        ...(written === undefined ? [open(index, content === null ? null : '')] : []),
        chunk(index, { ...(rest === '' ? {} : { content: rest }), ...other }, { logprobs, ...tokens }),
        ...(Array.isArray(calls)
          ? calls.map((call: JsonObject, place) => chunk(index, { tool_calls: [{ index: place, ...call }] }))
          : []),
        chunk(index, {}, { finish_reason }),
      ];
    },
  );
};

/** For /v1/completions. */
export const textStream: StreamOf = (before, { stream }) => {
  const piece = (index: unknown, text: string) => ({ index, text, logprobs: null, finish_reason: null });
  return chunked(
    before,
    { object: 'text_completion', usage: stream?.usage ?? false },
    (index, text) => [piece(index, text)],
    ({ finish_reason, ...choice }, written = '') => [
      { ...choice, text: restOf(choice.text as string, written), finish_reason: null },
      { ...piece(choice.index, ''), finish_reason },
    ],
  );
};

/** `grow` gives the chunks of new text of a choice, `rest` those that end it; `written` is undefined where no text was. */
function chunked(
  { choices: _, usage: __, prompt_token_ids, troupe, ...head }: JsonObject,
  how: { readonly object: string; readonly usage: boolean },
  grow: (index: number, text: string, isFirst: boolean) => readonly object[],
  rest: (choice: JsonObject, written: string | undefined) => readonly object[],
): StreamWriter {
  const all = { ...head, object: how.object, ...(how.usage ? { usage: null } : {}) };
  const written = new Map<number, string>();
  let isFirst = true;
  const event = (choice: object): StreamEvent => {
    const about = isFirst ? { prompt_token_ids, troupe } : {};
    isFirst = false;
    return { data: { ...all, ...about, choices: [choice] } };
  };
  return {
    text: (index, text) => {
      const before = written.get(index);
      written.set(index, (before ?? '') + text);
      return grow(index, text, before === undefined).map(event);
    },
    end: ({ choices, usage }) => [
      ...(choices as readonly unknown[])
        .filter(isRecord)
        .flatMap((choice) => rest(choice, written.get(choice.index as number)))
        .map(event),
      ...(how.usage ? [{ data: { ...all, choices: [], usage } }] : []),
      DONE,
    ],
  };
}
