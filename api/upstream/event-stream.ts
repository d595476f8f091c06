/** Server-sent events, taken as they come: the data of each event, whatever the pieces it arrives in. */

export type EventStream = {
  /** The data of the events that end in this piece. */
  readonly take: (bytes: Uint8Array) => readonly string[];
};

/** A reader of one stream. An event that never ends is no event (HTML standard, server-sent events). */
export function eventStream(): EventStream {
  const decoder = new TextDecoder();
  let rest = '';
  let data: string[] = [];
  return {
    take: (bytes) => {
      const found: string[] = [];
      const text = rest + decoder.decode(bytes, { stream: true });
      // A carriage return at the very end may be the first half of a line's end.
      const whole = text.endsWith('\r') ? text.slice(0, -1) : text;
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
