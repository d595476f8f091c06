/** Spans as the log gives them back: their text is known, so that they are not written again, and that changes nothing. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeDraft } from '../../../ingest/events/decode.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { cutOtlp, eventsOfTrace, readRecorded, type SpanItem } from '../../../ingest/formats/traces/live-traces.ts';
import { decodeNative, decodeOtlp } from '../../../ingest/traces/otlp/decode.ts';
import { aTrace, request } from '../support/spans.ts';

const kept = cutOtlp(decodeOtlp(request(aTrace()))).flatMap(({ drafts }) =>
  drafts.map((draft) => decodeDraft(draft).event!.json),
);

describe('a span that the log gives back', () => {
  it('is what its text says', () => {
    expect(kept.length).toBeGreaterThan(3);
    for (const json of kept) expect(readRecorded(json)).toEqual(JSON.parse(json));
    for (const json of ['1', '[]', '{}', '{"item":{}}', '{"episode_id":"e","format":"otlp","item":1}']) {
      expect(readRecorded(json)).toEqual(JSON.parse(json));
    }
  });

  it('is not built anew, unless its text had to be escaped', () => {
    let whole = 0;
    for (const json of kept) {
      const { item, flags } = readRecorded(json) as SpanItem & { readonly flags?: unknown };
      const decoded = decodeNative(item) as { readonly span: { readonly native: unknown } };
      expect(decoded.span.native === item).toBe(flags === undefined);
      if (flags === undefined) whole++;
    }
    expect(whole).toBeGreaterThan(3);
  });

  it('maps to the same events as parsed JSON, whatever was put into it', () => {
    const places = ['episode_id', 'resource', 'scope', 'span', 'log', 'item'];
    fc.assert(
      fc.property(fc.constantFrom(...places), fc.string(), fc.jsonValue(), fc.nat(), (place, name, value, which) => {
        const texts = kept.map((json, i) => {
          const data = JSON.parse(json);
          if (i !== which % kept.length) return json;
          if (place === 'episode_id') data[name] = value;
          else if (place === 'item') data.item[name] = value;
          else data.item[place] = { ...data.item[place], [name]: value };
          return canonicalJson(data);
        });
        const mapped = (read: (text: string) => unknown) => eventsOfTrace(texts.map(read) as SpanItem[]);
        expect(JSON.stringify(mapped(readRecorded))).toBe(JSON.stringify(mapped((text) => JSON.parse(text))));
      }),
    );
  });
});
