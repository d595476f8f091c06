/** Troupe's own events as CloudEvents envelopes, one a line or a list of them: what `export` writes and a recorder may leave in a file. */
import { decodeEnvelope } from '../decode.ts';
import { type Draft, type EventName, typeOf, VOCABULARY } from '../events.ts';
import { isRecord } from '../json.ts';
import type { Format } from './format.ts';
import { refused } from './native.ts';

const NAMES = new Map((Object.keys(VOCABULARY) as EventName[]).map((name) => [typeOf(name), name]));

export const troupeEvents: Format = {
  name: 'troupe-events',
  summary: 'Troupe events: CloudEvents 1.0 envelopes {id, source, type: "troupe.….v1", time?, data}',
  recognises: ({ records }) =>
    records.some((record) => isRecord(record) && typeof record.type === 'string' && record.type.startsWith('troupe.')),
  convert: ({ value, ordinal }) => {
    const name = isRecord(value) ? NAMES.get(String(value.type)) : undefined;
    const versioned = isRecord(value) && value.specversion !== undefined && value.specversion !== '1.0';
    if (name === undefined || versioned) {
      const { refusal } = decodeEnvelope(value);
      return refusal ? refused(refusal) : refused();
    }
    const { id, source, time = null, data = {} } = value as Record<string, unknown>;
    // `decode` checks every field; the envelope is passed on unchanged.
    const draft = { name, id, source, time, data } as Draft;
    return { drafts: [draft], refusals: [], raw: null, repeated: ordinal > 0 };
  },
  restates: new Set(),
  mapping: [
    ['id, source, time', 'the same'],
    ['type', 'the name of the event'],
    ['data', 'the same'],
  ],
};
