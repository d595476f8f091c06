/** What a client is shown of a response for which the gateway asked for more than the client did. Large ones are made on another thread. */
import { isRecord, parseRecord } from '../../../ingest/events/json.ts';
import { type StreamEvent, streamText } from '../events.ts';
import { eventsOf } from './event-stream.ts';
import { withoutAdded } from './token-ids.ts';

export type VisibleChange = {
  /** The fields that were added to the request. */
  readonly added: Readonly<Record<string, unknown>>;
  /** Whether the bytes are whole events of a stream; else they are a whole response. */
  readonly stream: boolean;
  readonly bytes: Uint8Array;
};

/** Responses up to this size are read where they came in. */
const LIGHT_BYTES = 256 * 1024;

/** @returns the response without what the added fields brought, made elsewhere where it is large and as long as that works */
export async function showWhereLight(
  answer: VisibleChange,
  elsewhere?: { readonly show: (answer: VisibleChange) => Promise<Uint8Array> },
): Promise<Uint8Array> {
  if (elsewhere === undefined || answer.bytes.byteLength <= LIGHT_BYTES) return show(answer);
  return elsewhere.show(answer).catch(() => show(answer));
}

/** The same here, at once. */
export function show({ added, stream, bytes }: VisibleChange): Uint8Array {
  if (stream) return Buffer.from(streamText(eventsOf(bytes).flatMap((data) => eventWithout(data, added))));
  const parsed = parseRecord(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
  return 'value' in parsed ? Buffer.from(JSON.stringify(withoutAdded(parsed.value, added))) : bytes;
}

function eventWithout(data: string, added: VisibleChange['added']): StreamEvent[] {
  const parsed = parseRecord(data);
  if (!('value' in parsed)) return [{ data }];
  const rest = withoutAdded(parsed.value, added);
  // Events of the Responses API are named by their type.
  const event = isRecord(rest) && typeof rest.type === 'string' ? { event: rest.type } : {};
  return rest === null ? [] : [{ ...event, data: rest }];
}
