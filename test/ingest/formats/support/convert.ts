/** One native record through a format, and what came of it by event. */
import { decodeDraft } from '../../../../ingest/events/decode.ts';
import type { EventName } from '../../../../ingest/events/events.ts';
import { canonicalJson } from '../../../../ingest/events/json.ts';
import { formatNamed, recognise } from '../../../../ingest/formats/catalogue.ts';
import type { Conversion } from '../../../../ingest/formats/kit/format.ts';

export type Data = Record<string, unknown>;

export type Read = Conversion & {
  /** The data of all events of a name, in the order of the conversion. */
  readonly of: (name: EventName) => Data[];
  readonly times: (name: EventName) => (string | null)[];
  /** `code field` of each refusal. */
  readonly refused: readonly string[];
};

/** Converts a record; every event of it must be valid. */
export function read(format: string, value: unknown, ordinal = 0): Read {
  const converted = formatNamed(format).convert({ value, canonical: canonicalJson(value), ordinal });
  for (const draft of converted.drafts) {
    const { refusal } = decodeDraft(draft);
    if (refusal) throw new Error(`${draft.name}: ${JSON.stringify(refusal)}`);
  }
  const draftsNamed = (name: EventName) => converted.drafts.filter((draft) => draft.name === name);
  return {
    ...converted,
    of: (name) => draftsNamed(name).map((draft) => draft.data as Data),
    times: (name) => draftsNamed(name).map((draft) => draft.time),
    refused: converted.refusals.map(({ code, field }) => `${code} ${field}`),
  };
}

/** The name of the format that knows these records, or null. */
export const known = (...records: unknown[]): string | null => recognise({ records, shape: 'lines' })?.name ?? null;
