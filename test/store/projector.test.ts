import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, event, aStory as story } from './support/events.ts';
import { tablesOf } from './support/tables.ts';

const noJudge = async () => {};

describe('the projector', () => {
  let fresh: TestDatabase;
  beforeAll(async () => {
    fresh = await freshDatabase();
    await postgresLog(fresh.db).append(story());
    await projectAll(fresh.db);
  });
  afterAll(() => fresh.close());

  it('makes one row for each candidate, call, tool call and message', async () => {
    const { rows } = await fresh.db.query(
      `select calls, steps, tool_calls, messages, agents, closed, input_tokens from traj.episodes where episode_id = 'e1'`,
    );
    expect(rows).toEqual([
      { calls: 2, steps: 3, tool_calls: 1, messages: 1, agents: 1, closed: true, input_tokens: 4 },
    ]);
  });

  it('shows the amended reward, and null where the reward is unknown', async () => {
    const { rows } = await fresh.db.query('select episode_id, reward from traj.episodes order by 1');
    expect(rows).toEqual([
      { episode_id: 'e1', reward: 0 },
      { episode_id: 'e2', reward: null },
    ]);
    const { rows: steps } = await fresh.db.query(`select text from traj.steps where step_id = 'e1-c2/1'`);
    expect(steps).toEqual([{ text: '40' }]);
  });

  it('shows the last definition of a task by time', async () => {
    const { rows } = await fresh.db.query('select query from traj.tasks');
    expect(rows).toEqual([{ query: 'Said again, later' }]);
  });

  it('reads a text part with `content` as one with `text`, in a step, in a task, and in a message that a call was shown', async () => {
    const one = await freshDatabase();
    const parts = [
      { type: 'text', content: 'a' },
      { type: 'text', text: 'b' },
      { type: 'image_url', image_url: { url: 'https://x/y.png' } },
    ];
    await postgresLog(one.db).append([
      event('task.defined', { task_id: 'parts', query: parts }),
      event('generation.requested', {
        episode_id: 'parts',
        call_id: 'c',
        input: [
          { role: 'user', content: parts },
          { role: 'user', content: [{ type: 'text', content: 3 }] },
        ],
      }),
      event('generation.completed', {
        episode_id: 'parts',
        call_id: 'c',
        choices: [{ index: 0, content: parts }],
      }),
    ]);
    await projectAll(one.db);
    const { rows } = await one.db.query('select text, (select query from traj.tasks) as query from traj.steps');
    const shown = await one.db.query('select text from traj.messages order by place');
    await one.close();
    expect(rows).toEqual([{ text: 'a\nb', query: 'a\nb' }]);
    expect(shown.rows).toEqual([{ text: 'a\nb' }, { text: null }]);
  });

  it('stores a message body once and shows it at every occurrence', async () => {
    const { rows } = await fresh.db.query(
      `select (select count(*)::integer from troupe.bodies where key = 'e/e1') as bodies,
              (select count(*)::integer from traj.messages where episode_id = 'e1' and kind = 'input') as occurrences`,
    );
    expect(rows).toEqual([{ bodies: 2, occurrences: 3 }]);
  });

  it('attaches feedback that came with a foreign id once its target is known', async () => {
    const { rows } = await fresh.db.query(`select episode_id, pending from traj.feedback where feedback_id = 'late'`);
    expect(rows).toEqual([{ episode_id: 'e2', pending: false }]);
  });
});

describe('the log', () => {
  it('P4: takes an event once, whatever how often and how it is sent', async () => {
    const fresh = await freshDatabase();
    try {
      const log = postgresLog(fresh.db);
      const events = anEpisode('e1');
      expect(new Set(await log.append(events))).toEqual(new Set(['accepted']));
      const again = await Promise.all([log.append(events), log.append([...events].reverse())]);
      expect(new Set(again.flat())).toEqual(new Set(['duplicate']));
      const { rows } = await fresh.db.query('select count(*)::integer as n from troupe.events');
      expect(rows).toEqual([{ n: events.length }]);
    } finally {
      await fresh.close();
    }
  });

  it('P5: never merges an event with another body under the same identity', async () => {
    const fresh = await freshDatabase();
    try {
      const log = postgresLog(fresh.db);
      const first = event('episode.finished', { episode_id: 'e1', outcome: 'success' }, { id: 'same' });
      const other = event('episode.finished', { episode_id: 'e1', outcome: 'failure' }, { id: 'same' });
      expect(await log.append([first, other])).toEqual(['accepted', 'conflict']);
      expect(await log.append([other])).toEqual(['conflict']);
      await projectAll(fresh.db);
      const { rows } = await fresh.db.query('select outcome from traj.episodes');
      expect(rows).toEqual([{ outcome: 'success' }]);
    } finally {
      await fresh.close();
    }
  });

  it('gives positions without gaps in each partition when many append at once', async () => {
    const fresh = await freshDatabase();
    try {
      const log = postgresLog(fresh.db);
      await Promise.all(
        Array.from({ length: 12 }, (_, i) => log.append(anEpisode(`e${i}`, { task: `t${i % 3}-${i}` }))),
      );
      const { rows } = await fresh.db.query(
        'select partition, count(*)::integer as n, max(position)::integer + 1 as next from troupe.events group by 1 having count(*) <> max(position) + 1',
      );
      expect(rows).toEqual([]);
    } finally {
      await fresh.close();
    }
  });
});

describe('rebuilding', () => {
  it('P9: any order of arrival and any batch size gives the same tables', async () => {
    const events = story();
    const expected = await tablesOf(events, 1000);
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray(events, { minLength: events.length }),
        fc.integer({ min: 1, max: 9 }),
        async (shuffled, batch) => {
          expect(await tablesOf(shuffled, batch)).toEqual(expected);
        },
      ),
      { numRuns: 6 },
    );
  });

  it('P15: gives the same checksum, also after every projected table was truncated', async () => {
    const fresh = await freshDatabase();
    try {
      const log = postgresLog(fresh.db);
      await log.append(story());
      await projectAll(fresh.db);
      const before = await checksum(fresh.db);
      await rebuild(fresh.db, { judge: noJudge, portion: 3 });
      expect(await checksum(fresh.db)).toEqual(before);
      const { rows } = await fresh.db.query<{ tables: string }>(
        `select string_agg('facts.' || relname, ', ') as tables from pg_class where relnamespace = 'facts'::regnamespace and relkind = 'r'`,
      );
      await fresh.db.query(`truncate ${rows[0]?.tables}`);
      expect(await checksum(fresh.db)).not.toEqual(before);
      await rebuild(fresh.db, { judge: noJudge });
      expect(await checksum(fresh.db)).toEqual(before);
      await log.append(anEpisode('e3'));
      expect(await projectAll(fresh.db)).toBeGreaterThan(0);
      const { rows: count } = await fresh.db.query('select count(*)::integer as n from traj.episodes');
      expect(count).toEqual([{ n: 3 }]);
    } finally {
      await fresh.close();
    }
  });
});
