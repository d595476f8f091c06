import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Event } from '../../ingest/events/events.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { at, event } from './support/events.ts';

const answered = (episode: string, response: string): Event =>
  event(
    'generation.completed',
    { episode_id: episode, call_id: `${episode}-c`, choices: [], response_id: response },
    { id: `${episode}-answered`, time: at(5) },
  );
const receivedMessage = (episode: string): Event =>
  event('message.sent', { episode_id: episode, message_id: 'm' }, { id: `${episode}-message`, time: at(1) });
const rated = (
  target: string,
  value: number | null,
  { id = `rate-${target}-${value}` as string, second = 9, feedback = id as string } = {},
): Event =>
  event(
    'feedback.recorded',
    { feedback_id: feedback, target: { kind: 'foreign', id: target }, kind: 'reward', name: 'reward', value },
    { id, time: at(second) },
  );

async function project(
  events: readonly Event[],
  batch: number,
  look: (fresh: TestDatabase) => Promise<void>,
): Promise<void> {
  const fresh = await freshDatabase();
  try {
    const log = postgresLog(fresh.db);
    for (let i = 0; i < events.length; i += batch) {
      await log.append(events.slice(i, i + batch));
      await projectAll(fresh.db);
    }
    await look(fresh);
  } finally {
    await fresh.close();
  }
}

const attached = async ({ db }: TestDatabase) =>
  (
    await db.query(
      'select feedback_id, resolved_episode_id as episode, resolved_call_id as call from facts.feedback order by 1',
    )
  ).rows;
const rewards = async ({ db }: TestDatabase) =>
  Object.fromEntries(
    (
      await db.query<{ episode_id: string; reward: number | null }>('select episode_id, reward from traj.episodes')
    ).rows.map((row) => [row.episode_id, row.reward]),
  );

describe('feedback with an id of another system', () => {
  it('P9: gives the same tables in any order of arrival, also where two targets have the id', async () => {
    const events = [
      answered('e2', 'resp'),
      answered('e1', 'resp'),
      receivedMessage('trace'),
      rated('resp', 0.5),
      rated('trace', 1),
      rated('trace', 0, { second: 12 }),
      rated('nowhere', 1),
      event(
        'record.amended',
        { key: 'x/trace', target: { source: '/test', id: 'rate-trace-0' }, op: 'merge', patch: { value: 0.25 } },
        { id: 'amend', time: at(20) },
      ),
    ];
    let expected: unknown;
    await project(events, 100, async (fresh) => {
      expected = await checksum(fresh.db);
      expect(await attached(fresh)).toEqual([
        { feedback_id: 'rate-nowhere-1', episode: null, call: null },
        { feedback_id: 'rate-resp-0.5', episode: 'e1', call: 'e1-c' },
        { feedback_id: 'rate-trace-0', episode: 'trace', call: null },
        { feedback_id: 'rate-trace-1', episode: 'trace', call: null },
      ]);
      expect(await rewards(fresh)).toEqual({ e1: null, e2: null, trace: 0.25 });
    });
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray(events, { minLength: events.length }),
        fc.integer({ min: 1, max: 3 }),
        (shuffled, batch) =>
          project(shuffled, batch, async (fresh) => {
            expect(await checksum(fresh.db)).toEqual(expected);
          }),
      ),
      { numRuns: 8, endOnFailure: true },
    );
  });

  it('moves the reward of an episode when the feedback is recorded again or rejected', async () => {
    const first = rated('trace', 1, { feedback: 'f' });
    await project([receivedMessage('trace'), first], 1, async (fresh) => {
      const log = postgresLog(fresh.db);
      expect(await rewards(fresh)).toEqual({ trace: 1 });
      await log.append([rated('trace', 0, { feedback: 'f', second: 12 })]);
      await projectAll(fresh.db);
      expect(await rewards(fresh)).toEqual({ trace: 0 });
      for (const id of ['rate-trace-0', 'rate-trace-1']) {
        await log.append([
          event(
            'record.amended',
            { key: 'x/trace', target: { source: '/test', id }, op: 'reject' },
            { id: `no-${id}` },
          ),
        ]);
      }
      await projectAll(fresh.db);
      expect(await rewards(fresh)).toEqual({ trace: null });
    });
  });

  it('lets go when the answer it was attached to turns out to be another one', async () => {
    await project([answered('e1', 'resp'), rated('resp', 1)], 1, async (fresh) => {
      expect(await attached(fresh)).toMatchObject([{ episode: 'e1' }]);
      await postgresLog(fresh.db).append([
        event(
          'record.amended',
          { key: 'e/e1', target: { source: '/test', id: 'e1-answered' }, op: 'merge', patch: { response_id: 'other' } },
          { id: 'fix' },
        ),
      ]);
      await projectAll(fresh.db);
      expect(await attached(fresh)).toMatchObject([{ episode: null, call: null }]);
    });
  });
});
