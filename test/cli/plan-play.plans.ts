import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { heldOut, playPlan, prepared } from './support/held-out.ts';
import { document, type Shell, shell } from './support/troupe.ts';

/** Each test starts several processes. */
const SLOW = 300_000;

describe('a plan whose gate plays', () => {
  let database: TestDatabase;
  let at: Shell;
  let address: string;
  const path = (name: string) => join(at.folder, name);
  const troupe = async (...args: string[]) => {
    const ended = await at.run([...args, '--json']);
    return { code: ended.code, err: ended.err, out: ended.out === '' ? null : document(ended) };
  };
  const rows = async (text: string, values: unknown[] = []) =>
    (await database.db.query<Record<string, unknown>>(text, values)).rows;
  const written = (name: string, value: object) => {
    writeFileSync(path(`${name}.yaml`), stringify(value));
    return path(`${name}.yaml`);
  };
  const models = async (): Promise<string[]> => {
    const { data } = (await (await fetch(`${address}/v1/models`)).json()) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  };

  beforeAll(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
    const tasks = heldOut(6);
    // The last one is a task of the recorded episodes, which the candidate is trained on.
    ({ address } = await prepared(at, [...tasks, { ...tasks[0], task_id: 'task-0' }]));
  }, SLOW);
  afterAll(async () => {
    at.remove();
    await database.close();
  });

  it(
    'plan check says what both sides play, without the tasks that are trained on',
    async () => {
      const { code, out } = await troupe('plan', 'check', written('check', playPlan('check', { find: 0.2 })));
      expect(out.problems).toEqual([]);
      expect(code).toBe(0);
      expect(out.gate).toMatchObject({
        kind: 'play',
        tasks: 6,
        tasks_wanted: null,
        played: { runner: 'solver', tasks: 7, tasks_of_round: 6, samples: 2, attempts: 24, attempts_at_most: 48 },
      });
      expect(out.notes.join(' ')).toContain('Of the tasks of the gate (7) 1 may be trained on');
      const wrong = await troupe('plan', 'check', written('wrong', playPlan('wrong', { runner: 'slover' })));
      expect([wrong.code, wrong.out.problems.join(' ')]).toEqual([1, expect.stringContaining('mean solver?')]);
      const run = await troupe('plan', 'run', path('wrong.yaml'));
      expect([run.code, run.out.error.code]).toEqual([1, 'plan_blocked']);
    },
    SLOW,
  );

  it(
    'releases a candidate that solves more of the same tasks with the same seeds, and says what was pinned',
    async () => {
      // The gate is the one that the page shows.
      const page = readFileSync(join(import.meta.dirname, '../../docs/plans.md'), 'utf8');
      const { gate } = parse(/### `kind: play`\n\n```yaml\n([\s\S]*?)```/.exec(page)![1]!);
      const { watch } = parse(/## Watch\n\n```yaml\n([\s\S]*?)```/.exec(page)![1]!);
      const ran = await troupe('plan', 'run', written('better', { ...playPlan('better', gate), watch }));
      expect([ran.err, ran.code, ran.out.released]).toEqual(['', 0, true]);
      const candidate = ran.out.rounds[0].candidates.solver;
      const { code, out: report } = await troupe('gate', 'show', 'better-1');
      expect([code, report.kind, report.passed, report.outcome]).toEqual([0, 'play', true, 'better']);
      expect(report.main).toMatchObject({ tasks: 6, passed: true });
      expect(report.left_out).toMatchObject({ 'trained on': 1, 'not played by the candidate': 0 });
      expect(report.guardrails.map(({ of }: { of: string }) => of)).toEqual([
        'family one',
        'family zero',
        'tokens',
        'latency',
        'samples played',
      ]);
      expect(report.models.solver.candidate).toBe(candidate);
      for (const hash of Object.values(report.pinned)) expect(hash).toMatch(/^[0-9a-f]{16,}/);
      // Each side by its own weights, and the seeds of the one are those of the other.
      const calls = await rows(
        `select e.tags->>'side' as side, e.task_id, e.tags->>'sample' as sample, c.checkpoint_id, c.seed, c.policy
         from facts.episodes e join facts.calls c using (episode_id) where e.tags->>'gate' = 'better-1/1/gate'
         order by 2, 3, 1`,
      );
      expect(calls).toHaveLength(24);
      for (let i = 0; i < calls.length; i += 2) {
        const [after, before] = [calls[i]!, calls[i + 1]!];
        expect([after.side, before.side]).toEqual(['candidate', 'incumbent']);
        expect([after.seed, after.task_id, after.policy]).toEqual([before.seed, before.task_id, 'solver']);
        expect([after.checkpoint_id, before.checkpoint_id]).toEqual([candidate, report.models.solver.incumbent]);
      }
      expect(calls.map(({ task_id }) => task_id)).not.toContain('task-0');
      // The mean reward is that of the recorded episodes.
      const [mean] = await rows(
        `select avg(reward) filter (where tags->>'side' = 'candidate') as candidate,
                avg(reward) filter (where tags->>'side' = 'incumbent') as incumbent from facts.episodes
         where tags->>'gate' = 'better-1/1/gate'`,
      );
      expect(report.main.candidate).toBeCloseTo(Number(mean!.candidate), 12);
      expect(report.main.incumbent).toBeCloseTo(Number(mean!.incumbent), 12);
      expect((await at.run(['plan', 'show', 'better-1'])).out).not.toContain('complete groups of its rollout');
      // It was the first release, which nothing was before.
      expect(report.watch).toMatchObject({ release_id: 'better-1/1', outcome: 'no_data', rollback: null });
      expect((await troupe('policies')).out.watch).toEqual(report.watch);
      const shown = await at.run(['gate', 'show', 'better-1']);
      expect(shown.out).toContain('Watch of release better-1/1: no data');
      expect(shown.out).toContain('left out: 1 tasks, trained on');
      // Only what was released is still loaded.
      for (;;) {
        const names = await models();
        if (names.join() === `checkpoint:${candidate},policy:solver`) break;
        await sleep(100);
      }
    },
    SLOW,
  );

  it(
    'keeps a candidate whose guardrail has no data, and trains on no episode of a gate',
    async () => {
      const guarded = playPlan(
        'guarded',
        { accept: 'not_worse', margin: 2, guardrails: { roles: 0.1, usd: 2 } },
        { steps: 1 },
      );
      const checked = await troupe('plan', 'check', written('guarded', guarded));
      expect(checked.out.notes.join(' ')).toContain(
        'If one call has no price, it has no data, and the gate does not pass',
      );
      const ran = await troupe('plan', 'run', written('guarded', guarded));
      expect([ran.err, ran.code, ran.out.released]).toEqual(['', 7, false]);
      const { code, out: report } = await troupe('gate', 'show', 'guarded-1');
      expect([code, report.main.passed, report.passed]).toEqual([7, true, false]);
      expect(report.guardrails).toMatchObject([
        { of: 'role solver', tasks: 0, outcome: 'no_data', passed: false },
        { of: 'usd', tasks: 0, outcome: 'no_data', passed: false },
        { of: 'samples played', passed: true },
      ]);
      expect(report.reason).toContain('role solver (no data)');
      const trained = await rows(
        `select count(*)::int as n, count(e.tags->>'gate')::int as gates from traj.dataset_rows r
         join facts.episodes e using (episode_id)`,
      );
      expect(trained[0]).toMatchObject({ gates: 0 });
      expect(Number(trained[0]!.n)).toBeGreaterThan(0);
    },
    SLOW,
  );
});
