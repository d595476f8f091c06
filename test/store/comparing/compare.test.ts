import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { comparisonText } from '../../../cli/commands/compare.ts';
import type { Event } from '../../../ingest/events.ts';
import { compare } from '../../../store/comparing/compare.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { anExecution, at, event } from '../support/events.ts';
import { attempt, record } from '../views/attempts.ts';

let fresh: TestDatabase;
beforeAll(async () => {
  fresh = await freshDatabase();
});
afterAll(() => fresh.close());

/** A call that this checkpoint answered. */
const call = (id: string, call_id: string, checkpoint: string, role = 'coder', cost = 1): Event =>
  event(
    'generation.completed',
    {
      episode_id: id,
      call_id,
      agent_id: role,
      role,
      checkpoint_id: checkpoint,
      choices: [{ index: 0, content: 'x' }],
      usage: { input_tokens: 60, output_tokens: 40, cost_usd: cost },
    },
    { id: `${id}-${call_id}`, time: at(50) },
  );

/** An attempt whose one call was spoken by this checkpoint. */
function spoken(
  id: string,
  task: string,
  checkpoint: string,
  solved: boolean | null,
  role = 'coder',
  cost = 1,
): Event[] {
  return [
    ...attempt(id, { task, outcome: solved === null ? 'unknown' : solved ? 'success' : 'failure' }),
    call(id, 'call', checkpoint, role, cost),
  ];
}

describe('Two checkpoints', () => {
  it('are compared on the tasks that both tried, each task once however often it was tried', async () => {
    const tasks = ['t1', 't2', 't3', 't4'];
    await record(
      fresh.db,
      // The old one solves t1 alone, and tries it three times; the new one solves all.
      ...tasks.map((task) => spoken(`old-${task}`, task, 'old', task === 't1')),
      spoken('old-t1-b', 't1', 'old', true),
      spoken('old-t1-c', 't1', 'old', true),
      ...tasks.map((task) => spoken(`new-${task}`, task, 'new', true, 'coder', 3)),
      spoken('old-easy', 'easy', 'old', true),
      spoken('new-unknown', 't1', 'new', null),
    );
    const found = await compare(fresh.db, 'old', 'new');
    expect(found.measures).toHaveLength(1);
    expect(found.measures[0]).toMatchObject({
      measure: 'episodes',
      tasks: 4,
      first: 0.25,
      second: 1,
      difference: 0.75,
      only_in_first: 1,
      only_in_second: 0,
      mcnemar: { only_first: 0, only_second: 3 },
    });
    expect(found.measures[0]!.interval!.low).toBeLessThan(0.75);
    expect(found.first).toMatchObject({
      kind: 'checkpoint',
      episodes: 7,
      solved: 4,
      unknown: 0,
      tokens_per_solved: 175,
    });
    expect(found.second).toMatchObject({
      episodes: 5,
      solved: 4,
      unknown: 1,
      tokens_per_solved: 100,
      usd_per_solved: 3,
    });
    const text = comparisonText(found);
    expect(text).toContain('+75.0');
    expect(text).toContain('1 without a known outcome');
    expect(text).toContain('1 task that only the first tried');
  });

  it('that both spoke in an episode say nothing by it', async () => {
    await record(fresh.db, spoken('mixed', 't1', 'old', false), [call('mixed', 'second', 'new')]);
    const found = await compare(fresh.db, 'old', 'new');
    expect(found.mixed).toBe(1);
    expect(found.measures[0]).toMatchObject({ first: 0.25, second: 1 });
  });

  it('are compared by role, so that a good mean does not hide a role that got worse', async () => {
    await record(
      fresh.db,
      ...['v1', 'v2', 'v3'].flatMap((task) => [
        spoken(`old-${task}`, task, 'old', true, 'verifier'),
        spoken(`new-${task}`, task, 'new', false, 'verifier'),
      ]),
    );
    const { roles } = await compare(fresh.db, 'old', 'new');
    expect(roles.map(({ role, difference }) => [role, difference])).toEqual([
      ['coder', 0.75],
      ['verifier', -1],
    ]);
  });

  it('by their candidates, where programs were run against tests that tell the truth', async () => {
    await record(fresh.db, ...['old', 'new'].map((by) => [...anExecution(`ex-${by}`), call(`ex-${by}`, 'asked', by)]));
    const { measures, pass_at_k: passes } = await compare(fresh.db, 'old', 'new');
    expect(measures.find(({ measure }) => measure === 'candidates')).toMatchObject({
      tasks: 1,
      difference: 0,
      interval: null,
    });
    expect(passes.some(({ measure }) => measure === 'candidates')).toBe(true);
  });

  it('of which one is misspelt is refused with the nearest name', async () => {
    await expect(compare(fresh.db, 'old', 'knew')).rejects.toMatchObject({
      code: 'not_found',
      detail: { hint: 'Did you mean new?' },
    });
  });
});

describe('Sides that are no checkpoints', () => {
  it('are the models that calls name, and teams', async () => {
    const by = (model: string) => [{ by: 'solver', model }];
    await record(
      fresh.db,
      [event('team.defined', { team_id: 'pair', name: 'a pair' }, { id: 'pair', time: at(0) })],
      ...['m1', 'm2', 'm3'].flatMap((task) => [
        attempt(`large-${task}`, { task, outcome: 'success', says: by('large') }),
        attempt(`small-${task}`, { task, outcome: task === 'm1' ? 'success' : 'failure', says: by('small') }),
        attempt(`pair-${task}`, { task, outcome: 'success', team: 'pair', says: by('small-too') }),
      ]),
    );
    const models = await compare(fresh.db, 'small', 'large');
    expect(models.measures[0]).toMatchObject({ tasks: 3, first: 1 / 3, second: 1 });
    expect([models.first, models.second]).toMatchObject([
      { kind: 'model', episodes: 3, solved: 1 },
      { kind: 'model', episodes: 3, solved: 3 },
    ]);
    const team = await compare(fresh.db, 'small', 'a pair');
    expect(team.second).toMatchObject({ kind: 'team', id: 'pair', name: 'a pair', episodes: 3, solved: 3 });
    expect(team.measures[0]).toMatchObject({ tasks: 3, first: 1 / 3, second: 1 });
  });
});
