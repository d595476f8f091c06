import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeText, encodeEnvelope } from '../../ingest/events/decode.ts';
import { postgresBook, postgresLog } from '../../ingest/log/postgres.ts';
import { letterOf, replay } from '../../store/log/dead-letters.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, event } from './support/events.ts';
import { tablesOf } from './support/tables.ts';

describe('dead letters', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
  });
  afterEach(() => fresh.close());
  const options = () => ({
    log: postgresLog(fresh.db),
    now: () => new Date('2026-11-21T12:00:00Z'),
    importRecord: async () => 'no file',
  });

  it('P22: replayed after the fix, an event the tables could not hold leaves them as if it had never failed', async () => {
    const events = anEpisode('e1');
    await fresh.db.query(`alter table facts.tool_calls add constraint harm check (name <> 'calc')`);
    await postgresLog(fresh.db).append(events);
    await projectAll(fresh.db);
    const { rows } = await fresh.db.query<{ id: number }>(
      'select dead_letter_id::float8 as id from troupe.dead_letters',
    );
    const letter = await letterOf(fresh.db, rows[0]!.id);
    expect(letter).toMatchObject({
      endpoint: 'projector',
      place: expect.stringMatching(/^embedded\/\d+\/\d+$/),
      code: 'bad_shape',
      replayed_at: null,
    });
    const called = events.find(({ name }) => name === 'tool.called')!;
    expect(decodeText(letter.raw.toString('utf8')).event?.digest).toBe(called.digest);
    expect(letter.last_at >= letter.first_at).toBe(true);

    expect(await replay(fresh.db, options())).toMatchObject({
      tried: 1,
      replayed: [],
      refused: [{ code: 'bad_shape' }],
    });
    await fresh.db.query('alter table facts.tool_calls drop constraint harm');
    expect(await replay(fresh.db, options())).toEqual({ tried: 1, replayed: [letter.dead_letter_id], refused: [] });
    expect(await checksum(fresh.db)).toEqual(await tablesOf(events, 100));
    expect((await letterOf(fresh.db, letter.dead_letter_id)).replayed_at).toBe('2026-11-21T12:00:00Z');
    expect((await replay(fresh.db, options())).tried).toBe(0);
    expect((await reconcile(fresh.db)).ok).toBe(true);
  });

  it('hold the whole text of an event whose text the log and the tables name', async () => {
    const content = 'a long text '.repeat(100);
    const sent = event('message.sent', { episode_id: 'e1', message_id: 'm', from: 'a', content });
    await fresh.db.query(`alter table facts.messages add constraint harm check (message_id <> 'm')`);
    await postgresLog(fresh.db).append([...anEpisode('e1'), sent]);
    await projectAll(fresh.db);
    const { rows } = await fresh.db.query<{ id: number }>(
      'select dead_letter_id::float8 as id from troupe.dead_letters',
    );
    expect(rows).toHaveLength(1);
    const letter = await letterOf(fresh.db, rows[0]!.id);
    expect(decodeText(letter.raw.toString('utf8')).event?.digest).toBe(sent.digest);
  });

  it('P22: a refused event that is valid today is taken; one that is not stays, with the reason of today', async () => {
    const [first, ...rest] = anEpisode('e1');
    await postgresLog(fresh.db).append(rest);
    const letters = [JSON.stringify(encodeEnvelope(first!)), '{"type":"troupe.unheard.v7"}'].map((raw, i) => ({
      place: `[${i}]`,
      raw: Buffer.from(raw),
      refusal: { code: 'unknown_event', field: 'type', expected: 'another release', got: 'this' } as const,
    }));
    await postgresBook(fresh.db).report({
      endpoint: 'http',
      received: 2,
      acknowledged: 0,
      duplicates: 0,
      rejected: letters,
    });
    const done = await replay(fresh.db, { ...options(), code: 'unknown_event' });
    expect(done).toMatchObject({ tried: 2, replayed: [expect.any(Number)], refused: [{ code: 'unknown_event' }] });
    await projectAll(fresh.db);
    expect(await checksum(fresh.db)).toEqual(await tablesOf([first!, ...rest], 100));
    await expect(letterOf(fresh.db, 999)).rejects.toMatchObject({ code: 'not_found' });
  });
});
