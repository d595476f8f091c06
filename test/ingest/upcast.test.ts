/** Old versions of event types: read for ever, kept as they were sent. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeDraft, decodeText, encodeEnvelope } from '../../ingest/events/decode.ts';
import { EVENT_NAMES, newestVersion, schemaOf, upcast } from '../../ingest/events/upcast/catalogue.ts';
import { readRecord, writeRecord } from '../../ingest/log/kafka-record.ts';

const envelope = (type: string, data: object, id = 's1') =>
  JSON.stringify({ specversion: '1.0', id, source: '/schedules', type, time: '2026-05-01T00:00:00Z', data });
const SKIPPED_V1 = {
  schedule: 'nightly',
  due_at: '2026-04-28T03:00:00Z',
  until: '2026-04-30T03:00:00Z',
  count: 3,
  reason: 'missed',
  detail: null,
  flags: ['late'],
};
const SKIPPED_V2 = {
  schedule: 'nightly',
  first_due_at: '2026-04-28T03:00:00Z',
  last_due_at: '2026-04-30T03:00:00Z',
  count: 3,
  reason: 'missed',
  detail: null,
  flags: ['late'],
};

describe('An event type of which there are several versions', () => {
  it('is read in each of them, kept as it was sent, and means the same', () => {
    const { event } = decodeText(envelope('troupe.schedule.skipped.v1', SKIPPED_V1));
    expect(event).toMatchObject({ name: 'schedule.skipped', type_version: 1, key: 'x/schedule/nightly' });
    expect(event!.data).toEqual(SKIPPED_V1);
    expect(encodeEnvelope(event!)).toMatchObject({ type: 'troupe.schedule.skipped.v1', data: SKIPPED_V1 });
    expect(upcast(event!.name, event!.type_version, event!.data)).toEqual(SKIPPED_V2);

    const now = decodeText(envelope('troupe.schedule.skipped.v2', SKIPPED_V2)).event!;
    expect(now).toMatchObject({ type_version: 2, key: 'x/schedule/nightly' });
    expect(upcast(now.name, now.type_version, now.data)).toBe(now.data);
    expect(now.digest).not.toBe(event!.digest);
  });

  it('is checked by the fields of the version that is named', () => {
    expect(decodeText(envelope('troupe.schedule.skipped.v2', SKIPPED_V1)).refusal).toMatchObject({
      code: 'bad_shape',
      field: 'data.first_due_at',
    });
    expect(decodeText(envelope('troupe.schedule.skipped.v1', SKIPPED_V2)).refusal).toMatchObject({
      code: 'bad_shape',
      field: 'data.due_at',
    });
  });

  it('is refused in a version that this code does not know, with a reason of its own', () => {
    expect(decodeText(envelope('troupe.schedule.skipped.v3', SKIPPED_V2)).refusal).toEqual({
      code: 'unknown_version',
      field: 'type',
      expected: 'troupe.schedule.skipped.v2 at most; a newer Troupe may know it',
      got: '"troupe.schedule.skipped.v3"',
    });
    for (const type of ['troupe.schedule.skipped.v0', 'troupe.schedule.skipped', 'troupe.nothing.v1', 'other.v1'])
      expect(decodeText(envelope(type, {})).refusal?.code, type).toBe('unknown_event');
  });

  it('goes through the topic of Kafka in the version in which it was sent', () => {
    for (const [type, data] of [
      ['troupe.schedule.skipped.v1', SKIPPED_V1],
      ['troupe.schedule.skipped.v2', SKIPPED_V2],
    ] as const) {
      const event = decodeText(envelope(type, data)).event!;
      const { key, value, headers } = writeRecord(event);
      expect(headers.ce_type).toBe(type);
      const record = { offset: 0, timestamp: '1', key: Buffer.from(key), value: Buffer.from(value), headers };
      expect(readRecord(record).event).toEqual(event);
    }
  });

  it('P18: keeps the digest that its events have in logs of the first release', () => {
    const [line] = readFileSync(join(import.meta.dirname, '../store/golden/0.1.0.jsonl'), 'utf8').split('\n');
    expect(decodeText(line!).event?.digest).toBe('c4da2735036c2aca5c79ea798cd4aa71351b4addf1268432b5d22925c6dd8df5');
  });

  it('is made the newest by steps, whatever else an event of an old version holds', () => {
    for (const name of EVENT_NAMES)
      for (let version = 1; version < newestVersion(name); version++)
        expect(schemaOf(name, version), `${name} version ${version}`).toBeDefined();
    const text = fc.string({ unit: 'grapheme' });
    fc.assert(
      fc.property(fc.dictionary(text, fc.jsonValue()), text, text, (more, due_at, until) => {
        const skipped = { ...more, schedule: 'nightly', due_at, until, reason: 'missed', count: null, detail: null };
        const before = structuredClone(skipped);
        const now = upcast('schedule.skipped', 1, skipped) as Record<string, unknown>;
        expect(skipped).toEqual(before);
        expect(now).toMatchObject({ first_due_at: due_at, last_due_at: until });
        const { due_at: _, until: __, ...rest } = skipped;
        expect(now).toEqual({ ...rest, first_due_at: due_at, last_due_at: until });
      }),
    );
    const draft = {
      name: 'schedule.skipped',
      source: '/s',
      id: 'x',
      time: null,
      data: { ...SKIPPED_V2, reason: 'missed' },
    } as const;
    expect(decodeDraft(draft).event?.type_version).toBe(2);
  });
});
