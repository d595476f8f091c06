/** Server-sent events, parsed incrementally: the data of each event, however the stream is chunked. */

export type EventStream = {
  /** The data of the events that end in this chunk. */
  readonly take: (bytes: Uint8Array) => readonly string[];
  /** The data of a last event that no empty line ends: browsers drop it (HTML standard), SDKs of model servers read it. */
  readonly end: () => readonly string[];
};

/** A parser of one stream. */
export function eventStream(): EventStream {
  const decoder = new TextDecoder();
  let rest = '';
  let afterReturn = false;
  let data: string[] = [];
  const take: EventStream['take'] = (bytes) => {
    const found: string[] = [];
    const more = (afterReturn ? '\r' : '') + decoder.decode(bytes, { stream: true });
    // A carriage return at the very end may be the first half of a line's end.
    afterReturn = more.endsWith('\r');
    // Only what came is split: a line of 30 MB in many chunks would be read anew at its end.
    const lines = (afterReturn ? more.slice(0, -1) : more).split(/\r\n|\n|\r/);
    lines[0] = rest + lines[0]!;
    rest = lines.pop()!;
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) found.push(data.join('\n'));
        data = [];
      } else if (line.startsWith('data:')) data.push(line.slice(line.startsWith('data: ') ? 6 : 5));
    }
    return found;
  };
  return { take, end: () => take(Buffer.from('\n\n')) };
}

/** The data of the events in these bytes. */
export function eventsOf(bytes: Uint8Array): readonly string[] {
  const stream = eventStream();
  return [...stream.take(bytes), ...stream.end()];
}

export type StreamParts = {
  /** Events that are whole, as they came; empty where none ended. */
  readonly events: Uint8Array;
  /** Bytes that stand before these events and are passed on unchanged. */
  readonly parts: readonly Uint8Array[];
};

/** Two of these end an empty line. The line feed of a last `\r\n` may come later: alone it is an empty line, which changes nothing. */
const ENDS = ['\n\n', '\n\r', '\r\r'].map((end) => Buffer.from(end));

/** Cuts a stream behind its last whole event, as bytes. From an event of more than `limit` bytes on nothing is cut. */
export function wholeEvents(limit: number): {
  readonly take: (chunk: Uint8Array) => StreamParts;
  /** What is left of the stream: an event that no empty line ends. */
  readonly end: () => Uint8Array;
} {
  let held: Uint8Array[] = [];
  let size = 0;
  const none = new Uint8Array();
  const cutAt = (chunk: Buffer): number => {
    const last = held.at(-1)?.at(-1);
    const across = last === undefined ? -1 : ENDS.findIndex((end) => end[0] === last && end[1] === chunk[0]);
    return Math.max(across < 0 ? 0 : 1, ...ENDS.map((end) => chunk.lastIndexOf(end) + 2).filter((at) => at >= 2));
  };
  return {
    take: (chunk) => {
      if (chunk.byteLength === 0) return { events: none, parts: [] };
      const at = size > limit ? 0 : cutAt(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
      const events = at === 0 ? none : Buffer.concat([...held, chunk.subarray(0, at)]);
      if (at > 0) [held, size] = [[], 0];
      const rest = chunk.subarray(at);
      if (rest.byteLength > 0) held.push(rest);
      size += rest.byteLength;
      if (size <= limit) return { events, parts: [] };
      const parts = held;
      held = [];
      return { events, parts };
    },
    end: () => Buffer.concat(held),
  };
}
