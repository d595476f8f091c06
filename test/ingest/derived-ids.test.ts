import { describe, expect, it } from 'vitest';
import { spanBatches } from '../../bench/otlp-spans.ts';
import { decodeDraft } from '../../ingest/events/decode.ts';
import { CANONICAL, type Draft } from '../../ingest/events/events.ts';
import { canonicalJson, sha256 } from '../../ingest/events/json.ts';
import { cutOtlp } from '../../ingest/formats/traces/live-traces.ts';
import { decodeOtlp } from '../../ingest/traces/otlp/decode.ts';
import { protobufToJson } from '../../ingest/traces/otlp/protobuf.ts';
import { eventsOfSpans } from '../../ingest/traces/otlp-traces.ts';

const spans = spanBatches(7, 100).flatMap(({ body }) => {
  const read = protobufToJson(body, 'traces');
  return 'refusal' in read ? [] : decodeOtlp(read.value).spans;
});
const eventsOf = (drafts: readonly Draft[]) => drafts.map((draft) => decodeDraft(draft).event!);
const fingerprint = (drafts: readonly Draft[]): string =>
  sha256(
    eventsOf(drafts)
      .map(({ key, id, digest }) => `${key} ${id} ${digest}\n`)
      .join(''),
  );

describe('spans of a log that was written before', () => {
  it('have the ids and digests that they had then, and so have the events that they tell', () => {
    const kept = cutOtlp({ spans, logs: [] }).flatMap(({ drafts }) => drafts);
    expect(fingerprint(kept)).toBe('cce06f94095cbc836f071eecd9da553ede3fb667f32aa4aa76023354911dc172');
    expect(fingerprint(eventsOfSpans(spans))).toBe('249be5178484043bb009a9a9df9f2912ad164e878565e8d4c3c3f1cfc959b57f');
  });

  it('tell events that carry the canonical text of their data', () => {
    for (const draft of eventsOfSpans(spans)) {
      expect(draft[CANONICAL]).toEqual({ of: draft.data, json: canonicalJson(draft.data) });
    }
  });
});
