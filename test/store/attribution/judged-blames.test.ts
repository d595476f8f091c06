import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Event } from '../../../ingest/events/events.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { evaluateAttributions } from '../../../store/evaluate/attribution/evaluate.ts';
import { judge } from '../../../store/evaluate/judging/judge.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { event } from '../support/events.ts';
import { label, lostRun } from './support/lost-runs.ts';

type Row = {
  readonly episode_id: string;
  readonly agent_id: string | null;
  readonly value: number;
  readonly reason: string | null;
  readonly detail: { readonly entry_value: number };
};

describe('blame that the judge writes', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
  });
  afterEach(() => fresh.close());
  const load = async (...events: readonly (readonly Event[])[]) => {
    await postgresLog(fresh.db).append(events.flat());
    await projectAll(fresh.db);
  };
  const run = async (...methods: string[]) => {
    const { rows } = await fresh.db.query<{ episode_id: string }>('select episode_id from facts.episodes order by 1');
    const asked = { methods: methods.map((method) => ({ method })), episodes: rows.map((row) => row.episode_id) };
    await judge(fresh.db, postgresLog(fresh.db), { ...asked, now: () => new Date(0) });
  };
  const blames = async (method: string) =>
    (
      await fresh.db.query<Row>(
        'select episode_id, rank, agent_id, step_id, entry, value, reason, detail from traj.blames where method = $1 order by episode_id, rank',
        [method],
      )
    ).rows;

  it('names agent, step and entry of a run that failed, surest first, with shares that sum to 1', async () => {
    await load(lostRun('a'));
    await run('failure_signs');
    const rows = await blames('failure_signs');
    expect(rows).toMatchObject([
      { rank: 0, agent_id: 'worker', step_id: 'c2/0', entry: 2, reason: null },
      { rank: 1, agent_id: 'lead', reason: null },
    ]);
    expect(rows[0]!.value + rows[1]!.value).toBeCloseTo(1, 12);
    expect(rows[0]!.detail.entry_value).toBeGreaterThan(0);
  });

  it('gives every other episode one row with the reason why nobody is blamed', async () => {
    await load(
      lostRun('lost', { outcome: 'unknown', reward: 0 }),
      lostRun('partial', { outcome: 'unknown', reward: 0.5 }),
      lostRun('unknown', { outcome: 'unknown' }),
      lostRun('won', { outcome: 'success', reward: 1 }),
      [event('episode.finished', { episode_id: 'empty', outcome: 'failure' })],
    );
    await run('failure_signs');
    const reasons = (await blames('failure_signs')).map((row) => [row.episode_id, row.agent_id !== null, row.reason]);
    expect(reasons).toEqual([
      ['empty', false, 'no_agents'],
      ['lost', true, null],
      ['lost', true, null],
      ['partial', false, 'partial_reward'],
      ['unknown', false, 'unknown_outcome'],
      ['won', false, 'not_failed'],
    ]);
  });

  it('needs a reference where the method does, and says so', async () => {
    await load(lostRun('a'), [event('episode.finished', { episode_id: 'no-task', outcome: 'failure' })]);
    await run('failure_signs_with_reference');
    expect((await blames('failure_signs_with_reference')).map((row) => [row.episode_id, row.reason])).toEqual([
      ['a', null],
      ['a', null],
      ['no-task', 'no_reference'],
    ]);
  });

  it('reads a record without numbers in the order of its times, and leaves the entry unknown', async () => {
    await load(lostRun('a', {}, null));
    await run('failure_signs');
    expect((await blames('failure_signs'))[0]).toMatchObject({ agent_id: 'worker', step_id: 'c2/0', entry: null });
  });

  it('leaves the entry unknown too where the numbers of a source are its clock, as in traces', async () => {
    await load(lostRun('a', {}, 1_789_003_002_000_000));
    await run('failure_signs');
    expect((await blames('failure_signs'))[0]).toMatchObject({ agent_id: 'worker', step_id: 'c2/0', entry: null });
  });

  it('judging again replaces the rows', async () => {
    await load(lostRun('a'));
    await run('failure_signs');
    const before = await blames('failure_signs');
    await run('failure_signs');
    expect(await blames('failure_signs')).toEqual(before);
  });

  it('is scored against annotations by people; contradictions are left out, models are not people', async () => {
    await load(lostRun('a'), lostRun('b'), lostRun('c'), lostRun('d'), lostRun('e', {}, null), [
      label('a', 'worker', 2),
      label('b', 'lead', 1),
      label('c', 'lead', 1),
      label('c', 'worker', 2, 'bob'),
      label('e', 'worker', 2),
    ]);
    await run('failure_signs');
    const report = await evaluateAttributions(fresh.db, {
      method: null,
      annotator: null,
      gold: null,
      by: 'origin',
      match: 'exact',
      crossValidate: null,
    });
    expect(report).toMatchObject({ cases: 3, ambiguous: 1, unlabelled: 1, agent_mismatch: 0 });
    const judged = report.groups[0]!.scores.find(({ name }) => name === 'failure_signs');
    expect(judged).toMatchObject({ n: 3, silent: 0, agent: 2 / 3, step: 2 / 3 });
  });
});
