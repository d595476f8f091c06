/** The book of counts beside a log outside the database: the database may be away, and nothing that waits is unbounded. */
import { describe, expect, it } from 'vitest';
import { bufferedLedger } from '../../api/ingestion/buffered-ledger.ts';
import { TroupeError } from '../../errors.ts';
import type { DeadLetter, IngestReport } from '../../ingest/log/log.ts';

const letter = (bytes: number): DeadLetter => ({
  place: null,
  raw: Buffer.alloc(bytes),
  refusal: { code: 'bad_json', field: '', expected: 'JSON', got: 'x' },
});
const report = (received: number, rejected: DeadLetter[] = []): IngestReport => ({
  endpoint: 'http',
  received,
  acknowledged: received - rejected.length,
  duplicates: 0,
  rejected,
});

/** A book in a database that can be taken away. */
function flaky() {
  const kept: IngestReport[] = [];
  const state = { away: false };
  const write = async (one: IngestReport): Promise<void> => {
    if (state.away) throw new TroupeError('unreachable', 'The database is away.');
    kept.push(one);
  };
  return { kept, state, book: { report: write } };
}
const received = (kept: readonly IngestReport[]): number => kept.reduce((sum, one) => sum + one.received, 0);

describe('A patient book', () => {
  it('has written a report before it answers while the database is there', async () => {
    const { kept, book } = flaky();
    const patient = bufferedLedger(book);
    await patient.report(report(3, [letter(1)]));
    expect(kept).toEqual([report(3, [letter(1)])]);
  });

  it('answers without the database, and writes every count and letter when it is back, once', async () => {
    const { kept, state, book } = flaky();
    const patient = bufferedLedger(book, { waitMs: 20 });
    state.away = true;
    for (let i = 0; i < 50; i++) await patient.report(report(2));
    await patient.report(report(1, [letter(5)]));
    await patient.report(report(2));
    expect(kept).toEqual([]);
    state.away = false;
    expect(await patient.flush(10_000)).toBe(0);
    expect(received(kept)).toBe(103);
    expect(kept.flatMap(({ rejected }) => rejected)).toEqual([letter(5)]);
    // Many clean requests are few rows to write.
    expect(kept.length).toBeLessThan(6);
  });

  it('refuses as busy what is more than it may keep, and takes clean counts all the same', async () => {
    const { state, book } = flaky();
    const patient = bufferedLedger(book, { waitMs: 1, maxBytes: 5000 });
    state.away = true;
    await patient.report(report(1, [letter(4000)]));
    await expect(patient.report(report(1, [letter(4000)]))).rejects.toMatchObject({ code: 'busy' });
    await patient.report(report(1));
    expect(await patient.flush(5)).toBe(2);
  });
});
