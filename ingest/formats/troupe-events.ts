/** Troupe's own events as CloudEvents envelopes, one a line or a list of them: what `export` writes and a recorder may leave in a file. */
import { decodeEnvelope, typeNamed } from '../events/decode.ts';
import type { Draft } from '../events/events.ts';
import { isRecord } from '../events/json.ts';
import type { Format } from './kit/format.ts';
import { refused } from './kit/native.ts';

export const troupeEvents: Format = {
  name: 'troupe-events',
  summary: 'Troupe events: CloudEvents 1.0 envelopes {id, source, type: "troupe.….v1", time?, data}',
  recognises: ({ records }) =>
    records.some((record) => isRecord(record) && typeof record.type === 'string' && record.type.startsWith('troupe.')),
  convert: ({ value, ordinal }) => {
    const known = isRecord(value) ? typeNamed(value.type) : null;
    const versioned = isRecord(value) && value.specversion !== undefined && value.specversion !== '1.0';
    if (known === null || versioned) {
      const { refusal } = decodeEnvelope(value);
      return refusal ? refused(refusal) : refused();
    }
    const { id, source, time = null, data = {} } = value as Record<string, unknown>;
    // `decode` checks every field; the envelope is passed on unchanged.
    const draft = { ...known, id, source, time, data } as Draft;
    return { drafts: [draft], refusals: [], raw: null, repeated: ordinal > 0 };
  },
  restates: [],
};
