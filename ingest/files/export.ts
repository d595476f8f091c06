/** Events and episodes out of Troupe as lines of JSON: its own envelopes, or a foreign format that can be written. */
import { TroupeError } from '../../errors.ts';
import { encodeEnvelope } from '../events/decode.ts';
import type { Event } from '../events/events.ts';
import { upcast } from '../events/upcast/catalogue.ts';
import { formatNamed } from '../formats/catalogue.ts';
import type { RestoredEvent } from '../formats/kit/format.ts';

/** An event as the archive gives it back. */
export type StoredEvent = Pick<Event, 'name' | 'type_version' | 'source' | 'id' | 'time'> & { readonly data: unknown };

/** Each event as one line, a CloudEvents envelope with its text as it was sent; `import` reads it back as the same event. */
export async function* exportEvents(
  events: AsyncIterable<StoredEvent> | Iterable<StoredEvent>,
): AsyncGenerator<string> {
  for await (const event of events) yield `${JSON.stringify(encodeEnvelope(event))}\n`;
}

/**
 * Each episode (all its events, in any order) as the records of a two-way format, one a line. `onLeftOut` gets the number of calls that the
 * format has no place for.
 * Throws `usage` for a format that is unknown or cannot be written.
 */
export async function* exportEpisodes(
  format: string,
  episodes: AsyncIterable<readonly StoredEvent[]> | Iterable<readonly StoredEvent[]>,
  onLeftOut: (calls: number) => void = () => {},
): AsyncGenerator<string> {
  const { write, unwritten = () => 0, name } = formatNamed(format);
  if (!write) {
    throw new TroupeError('usage', `The format ${name} can be read and not written; troupe-events takes every event.`);
  }
  for await (const episode of episodes) {
    const restored = episode.map(restoredEvent);
    for (const record of write(restored)) yield `${JSON.stringify(record)}\n`;
    onLeftOut(unwritten(restored));
  }
}

function restoredEvent(event: StoredEvent): RestoredEvent {
  const { data } = encodeEnvelope(event) as { readonly data: RestoredEvent['data'] };
  return {
    name: event.name,
    time: event.time,
    data: upcast(event.name, event.type_version, data) as RestoredEvent['data'],
  };
}
