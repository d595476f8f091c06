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
      const more = decoder.decode(bytes, { stream: true });
      // A long line in many chunks is split once, at its end.
      if (!afterReturn && !/[\r\n]/.test(more)) {
        rest += more;
        return found;
      }
      const text = rest + more;
      // A carriage return at the very end may be the first half of a line's end.
      afterReturn = text.endsWith('\r');
      const whole = afterReturn ? text.slice(0, -1) : text;
      const lines = whole.split(/\r\n|\n|\r/);
      rest = lines.pop()! + text.slice(whole.length);
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
