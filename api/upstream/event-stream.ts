/** Server-sent events, parsed incrementally: the data of each event, however the stream is chunked. */

export type EventStream = {
  /** The data of the events that end in this chunk. */
  readonly take: (bytes: Uint8Array) => readonly string[];
};

/** A parser of one stream. An incomplete last event is dropped (HTML standard, server-sent events). */
export function eventStream(): EventStream {
  const decoder = new TextDecoder();
  let rest = '';
  let afterReturn = false;
  let data: string[] = [];
  return {
    take: (bytes) => {
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
    },
  };
}
