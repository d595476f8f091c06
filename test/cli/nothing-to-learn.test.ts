import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { reasonToPause } from '../../store/queue/schedules/jobs-in-a-row.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { plays, WORDS } from './support/plays.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

describe('a plan of a team that is always right', () => {
  let database: TestDatabase;
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    const perfect = (plays(3) as { readonly type: string; readonly data: object }[]).map((event) =>
      event.type.includes('feedback') ? { ...event, data: { ...event.data, value: 1 } } : event,
    );
    writeFileSync(path('plays.jsonl'), lines(perfect));
    await at.run(['import', path('plays.jsonl'), '--json']);
    writeFileSync(path('words.txt'), WORDS.join('\n'));
    const size = ['--hidden', '16', '--layers', '1', '--heads', '2', '--context', '32'];
    await at.run(['model', 'new', '--dir', path('model'), '--words', path('words.txt'), ...size]);
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  const ran = async (name: string, recipe: object) => {
    const policies = {
      solver: { base: 'model', recipe: { unit: 'step', credit: 'grpo_advantage', ...recipe }, train: { method: 'rl' } },
    };
    const plan = { name, judge: [{ method: 'grpo_advantage' }], policies, gate: { kind: 'manual' } };
    writeFileSync(path(`${name}.yaml`), stringify(plan));
    const { code, err, out } = await at.run(['plan', 'run', path(`${name}.yaml`), '--json']);
    const { rows } = await database.db.query<{ outcome: string; result: object }>(
      'select outcome, result from troupe.job_queue where job_id = $1',
      [`${name}-1`],
    );
    return { code, err, out: document({ code, err, out } as never), job: rows[0] };
  };

  it('ends as nothing to learn where its recipe leaves out groups without a signal', async () => {
    const { code, out, job } = await ran('filtered', { where: 'group.signal' });
    expect([code, job?.outcome], JSON.stringify(out)).toEqual([0, 'done']);
    expect(out).toMatchObject({ released: false, rounds: [], ended_early: null });
    expect(out.nothing_to_learn).toMatch(
      /^Nothing to learn for solver: "episodes where .*group\.signal" leaves none of the 12 episodes/,
    );
  });

  it('ends as nothing to learn where all advantages are 0, without a gate', async () => {
    const { code, out, job } = await ran('even', {});
    expect([code, job?.outcome]).toEqual([0, 'done']);
    expect(out.nothing_to_learn).toMatch(/^Nothing to learn in round 1: no group of solver had a signal/);
    const { rows } = await database.db.query(`select job_id from troupe.job_queue where job_id like 'even-1/1/gate%'`);
    expect(rows).toEqual([]);
  });

  it('fails where the recipe has no rows for another reason', async () => {
    const { code, out } = await ran('nobody', { roles: ['nobody'] });
    expect([code, out.error.code]).toEqual([1, 'plan_blocked']);
  });

  it('does not pause its schedule, and ends a row of jobs that did badly', () => {
    const job = (result: object, outcome: 'done' | 'failed' = 'done') =>
      ({ job_id: 'j', due_at: '', state: 'finished', outcome, result, error: null }) as const;
    const idle = job({ released: false, rounds: [{ round: 1 }], nothing_to_learn: 'Nothing to learn …' });
    const refused = job({ released: false, rounds: [{ round: 1 }] });
    const failed = job({}, 'failed');
    const paused = (...runs: Parameters<typeof reasonToPause>[1]) => reasonToPause({}, runs, new Set());
    expect(paused(idle, idle, idle)).toBeNull();
    expect(paused(refused, refused)).toMatch(/refused the candidates of its last 2/);
    expect(paused(refused, idle, refused)).toBeNull();
    expect(paused(failed, failed, idle, failed)).toBeNull();
  });
});
