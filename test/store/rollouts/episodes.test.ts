/** Ends of attempts as events: announced by whoever ended them, and by the rollout where that one died. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EventLog } from '../../../ingest/log/log.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import type { AttemptRow } from '../../../store/loop/play/attempts.ts';
import { rolloutSpec } from '../../../store/loop/play/rollout.ts';
import { announce, announceMissing } from '../../../trainer/loop/play/episodes.ts';
import { type Play, playOf } from '../../../trainer/loop/play/play.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

const rollout = rolloutSpec('r', { runner: 'team', tasks: [{ task_id: 't', prompt: '1 + 1' }], samples: 3 });
const at = '2026-11-26T10:00:00.000000Z';

const ended = (sample: number, reward: number | null, more: object = {}): Play<AttemptRow> =>
  playOf<AttemptRow>(rollout, {
    id: `r/t/${sample}`,
    spec: { rollout: 'r', task: 0, sample, attempt: 0 },
    state: 'finished',
    outcome: 'done',
    result: { at, outcome: 'success', stop_reason: 'done', answer: '2', reward, ...more },
    error: null,
    startedAt: at,
  });

describe('Attempts that ended', () => {
  let fresh: TestDatabase;
  let log: EventLog;
  let appended: string[];
  beforeEach(async () => {
    fresh = await freshDatabase();
    appended = [];
    const { append, ...rest } = postgresLog(fresh.db);
    log = {
      ...rest,
      append: (events) => {
        appended.push(...events.map(({ id }) => id));
        return append(events);
      },
    };
  });
  afterEach(() => fresh.close());

  it('are announced by the rollout where nobody did, and not announced again', async () => {
    const rows = [ended(0, 1), ended(1, 0), ended(2, null, { closed_by_team: true })];
    await announce(log, [rows[0]!]);
    appended.length = 0;

    expect(await announceMissing({ db: fresh.db, log }, rows)).toBe(6);
    expect(appended).toEqual([
      'r/t/1/started',
      'r/t/1/started/accepted',
      'r/t/1/reward',
      'r/t/1/finished',
      'r/t/2/started',
      'r/t/2/started/accepted',
    ]);
    appended.length = 0;
    expect(await announceMissing({ db: fresh.db, log }, rows)).toBe(0);
    expect(appended).toEqual([]);
  });

  it('of which only the beginning was announced are announced to their end', async () => {
    const { append, ...rest } = postgresLog(fresh.db);
    const first: EventLog = { ...rest, append: (events) => append(events.slice(0, 2)) };
    await announce(first, [ended(0, 1)]);

    expect(await announceMissing({ db: fresh.db, log }, [ended(0, 1)])).toBe(2);
  });
});
