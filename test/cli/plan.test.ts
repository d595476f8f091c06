import { writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { postgresLog } from '../../ingest/log/postgres.ts';
import type { GateReport } from '../../trainer/loop/comparison/report.ts';
import { offlineGate } from '../../trainer/loop/plan/offline-gate.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { plays, WORDS } from './support/plays.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

/** Each test starts several processes. */
const SLOW = 300_000;

describe('plans: from recorded episodes to a released checkpoint', () => {
  let database: TestDatabase;
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  const troupe = async (...args: string[]) => {
    const ended = await at.run([...args, '--json']);
    return { code: ended.code, err: ended.err, out: ended.out === '' ? null : document(ended) };
  };
  const plan = (name: string, more: object = {}) => ({
    name,
    seed: 3,
    judge: [{ method: 'grpo_advantage' }],
    policies: {
      solver: {
        base: 'model',
        recipe: {
          where: { field: 'reward', op: '>=', value: 1 },
          roles: ['solver'],
          split: { held_out: 0.4, seed: 1 },
        },
        train: { method: 'sft', steps: 40, batch: 8, learning_rate: 0.02, warmup: 2 },
      },
    },
    gate: { kind: 'offline', find: 0.5, guardrails: { roles: 0.1 } },
    ...more,
  });
  const written = (name: string, value: object) => {
    writeFileSync(path(`${name}.yaml`), stringify(value));
    return path(`${name}.yaml`);
  };
  const released = async () =>
    (
      await database.db.query<{ policies: Record<string, string> }>(
        'select policies from facts.releases order by version',
      )
    ).rows.map((row) => row.policies);

  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    writeFileSync(path('plays.jsonl'), lines(plays(24)));
    expect((await troupe('import', path('plays.jsonl'))).code).toBe(0);
    const config = {
      ...{ words: WORDS, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2 },
      ...{ num_key_value_heads: 2, max_position_embeddings: 32 },
    };
    writeFileSync(path('model.json'), JSON.stringify(config));
    const made = await troupe('model', 'new', '--dir', path('model'), '--config', path('model.json'), '--seed', '3');
    expect([made.code, made.err]).toEqual([0, '']);
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  it(
    'plan check says what a run would do, and changes nothing',
    async () => {
      const { code, out } = await troupe('plan', 'check', written('better', plan('better')));
      expect(code).toBe(0);
      expect(out).toMatchObject({
        plan: 'better',
        stages: ['judge', 'freeze-solver', 'train-solver', 'gate'],
        rounds: 1,
        problems: [],
        gate: { kind: 'offline', tasks_wanted: null, deviation: null },
      });
      const { solver } = out.policies;
      // Two of the four plays of each of 24 tasks are right, and each row stands in one of the two splits.
      expect(solver.rows.train + solver.rows.held_out).toBe(48);
      expect(solver.rows.held_out).toBe(2 * out.gate.tasks);
      expect(solver).toMatchObject({ method: 'sft', start: { directory: path('model') }, roles: ['solver'] });
      // Each row is "what is A plus B", five tokens, and an answer of two; 40 steps of 8 rows.
      expect(solver.tokens).toBe(7 * 40 * 8);
      expect(await released()).toEqual([]);
      expect((await troupe('plan', 'list')).out).toMatchObject({ items: [], total: 0 });
    },
    SLOW,
  );

  it(
    'plan check says what an adapter takes beside all weights, and what keeps it from being trained',
    async () => {
      const checked = async (name: string, lora?: object) => {
        const { solver } = plan(name).policies;
        const train = { ...solver.train, ...(lora === undefined ? {} : { lora }) };
        return (
          await troupe('plan', 'check', written(name, plan(name, { policies: { solver: { ...solver, train } } })))
        ).out;
      };
      const whole = (await checked('whole')).policies.solver;
      expect(whole).toMatchObject({ adapter: null, memory_bytes: expect.any(Number) });
      const { notes, policies } = await checked('low', { r: 2, alpha: 4, targets: ['q_proj'] });
      const { adapter, memory_bytes, checkpoint_bytes } = policies.solver;
      // One layer with one query matrix of 16 times 16.
      expect(adapter).toMatchObject({ r: 2, alpha: 4, targets: ['q_proj'], parameters: 2 * 32, continues: null });
      expect(notes).toContainEqual(expect.stringContaining(`an adapter of 64 numbers over ${adapter.base}`));
      expect(memory_bytes).toBeLessThan(whole.memory_bytes);
      expect(whole.checkpoint_bytes).toBe(12 * adapter.of_parameters);
      expect(checkpoint_bytes).toBeLessThan(whole.checkpoint_bytes / 2);
      expect((await checked('odd', { r: 2, alpha: 4, targets: ['qkv'] })).problems).toEqual([
        expect.stringMatching(/^solver cannot be trained .* the target "qkv"/),
      ]);
    },
    SLOW,
  );

  it(
    'a candidate that learned is better on held-out tasks and is released',
    async () => {
      const { code, out, err } = await troupe('plan', 'run', path('better.yaml'));
      expect([code, err]).toEqual([0, '']);
      expect(out).toMatchObject({ run: 'better-1', released: true, ended_early: null });
      const [round] = out.rounds;
      expect(await released()).toEqual([{ solver: round.candidates.solver }]);
      const shown = await troupe('gate', 'show', 'better-1');
      expect(shown.code).toBe(0);
      expect(shown.out).toMatchObject({
        kind: 'offline',
        outcome: 'better',
        passed: true,
        guardrails: [{ of: 'role solver', passed: true }],
        models: { solver: { candidate: round.candidates.solver } },
      });
      expect(shown.out.main.interval.low).toBeGreaterThan(0);
      // The release keeps what its gate measured, and the checkpoint the loss of its training.
      const { incumbent, candidate } = shown.out.main;
      const measured =
        'select r.metrics, c.metrics as training from traj.releases r join traj.checkpoints c using (checkpoint_id)';
      expect((await database.db.query(measured)).rows).toEqual([
        {
          metrics: { incumbent, candidate, 'role solver': shown.out.guardrails[0].candidate },
          training: { 'solver.loss': expect.any(Number) },
        },
      ]);
      const page = await at.run(['gate', 'show', 'better-1']);
      expect(page.out).toMatch(/^# Gate of better-1, round 1: passed\n/);
      expect(page.out).toContain(`solver: ${shown.out.models.solver.incumbent} → ${round.candidates.solver}`);
      // The checkpoint knows its dataset and its job, and the stages are those that check named.
      const run = await troupe('plan', 'show', 'better-1');
      expect(run.out.stages.map((stage: { job_id: string }) => stage.job_id)).toEqual(
        ['judge', 'freeze-solver', 'train-solver', 'gate'].map((stage) => `better-1/1/${stage}`),
      );
      const lineage = await database.db.query('select job_id, policy from facts.checkpoints where checkpoint_id = $1', [
        round.candidates.solver,
      ]);
      expect(lineage.rows).toEqual([{ job_id: 'better-1/1/train-solver', policy: 'solver' }]);
    },
    SLOW,
  );

  it(
    'a candidate that is not better is kept with its report, and the run ends with 7',
    async () => {
      const before = await released();
      // It begins with what was released, and a step this small changes next to nothing.
      const solver = plan('idle').policies.solver;
      const idle = { ...solver, train: { ...solver.train, steps: 1, learning_rate: 1e-12 } };
      const { code, out } = await troupe('plan', 'run', written('idle', plan('idle', { policies: { solver: idle } })));
      expect([code, out.released]).toEqual([7, false]);
      expect(await released()).toEqual(before);
      const shown = await troupe('gate', 'show', 'idle-1');
      expect([shown.code, shown.out.passed]).toEqual([7, false]);
      expect(shown.out.models.solver.incumbent).toBe(before[0]!.solver);
      // Now that a report of this plan is there, check computes what the gate wants.
      const checked = await troupe('plan', 'check', path('idle.yaml'));
      expect(checked.out.gate.deviation).toBeCloseTo(shown.out.deviation, 12);
      expect(checked.out.gate.tasks_wanted).toBeGreaterThan(0);
      expect(checked.out.gate.gain).toBeGreaterThan(0);
    },
    SLOW,
  );

  it(
    'a round that goes on from a candidate which was not released is compared with what answers, not with that candidate',
    async () => {
      const { train, ...solver } = plan('x').policies.solver;
      const fresh = { ...solver, from: 'last', train: { ...train, steps: 1, learning_rate: 1e-12 } };
      const { out } = await troupe('plan', 'run', written('last', plan('last', { rounds: 2, policies: { fresh } })));
      expect(out.rounds).toMatchObject([{ release_id: null }, { release_id: null }]);
      const { rows } = await database.db.query<{ incumbent: string }>(
        `select distinct result #>> '{models,fresh,incumbent}' as incumbent from facts.jobs where job_id like 'last-1/%/gate'`,
      );
      expect(rows).toHaveLength(1);
      expect(rows[0]!.incumbent).not.toBe(out.rounds[0].candidates.fresh);
    },
    SLOW,
  );

  it(
    'plan show and gate show say why a run failed, ended early or has no report yet',
    async () => {
      const { policies } = plan('empty');
      // What methods of the plan choose is known only once they have run.
      const split = { held_out: 0.4, seed: 1 };
      const none = { ...policies.solver, recipe: { credit: 'grpo_advantage', where: 'advantage >= 9', split } };
      const failed = await troupe('plan', 'run', written('empty', plan('empty', { policies: { solver: none } })));
      expect(failed.code).toBe(1);
      const reason = /There is nothing to learn for solver: .+ leaves none of the \d+ steps/;
      expect((await at.run(['plan', 'show', 'empty-1'])).out).toMatch(reason);
      expect((await at.run(['gate', 'show', 'empty-1'])).err).toMatch(reason);
      await troupe('plan', 'run', written('short', plan('short', { budget: { minutes: 1e-6 } })));
      expect((await at.run(['gate', 'show', 'short-1'])).err).toContain('The budget of 0.000001 minutes was used up');
      await troupe('plan', 'run', '--detach', written('asked', plan('asked', { seed: 4 })));
      expect((await at.run(['gate', 'show', 'asked-1'])).err).toContain('has no report of a gate yet');
      expect((await at.run(['gate', 'show', 'nobody-1'])).err).toContain('There is no run nobody-1');
      await troupe('jobs', 'cancel', 'asked-1');
    },
    SLOW,
  );

  it(
    'an offline gate whose minutes are over is cut short: it scores nothing more, and passes nothing',
    async () => {
      const job_id = 'better-1/1/gate';
      const { rows } = await database.db.query(`select spec from troupe.job_queue where job_id = $1`, [job_id]);
      const context = { db: database.db, log: postgresLog(database.db), now: () => new Date() };
      const gate = (seconds: number) =>
        offlineGate(context, { threads: 1, codeVersion: '0' })(
          { job_id, kind: 'gate', spec: { ...(rows[0]!.spec as object), budget: { seconds } }, token: 1 },
          async () => {},
          new AbortController().signal,
        );
      expect(await gate(1e6)).toMatchObject({ passed: true });
      const cut = await gate(1e-3);
      expect(cut).toMatchObject({ outcome: 'no_data', passed: false, main: { tasks: 0 } });
      expect(cut).toMatchObject({ cut_short: expect.stringContaining('was used up') });
      expect((cut as GateReport).left_out['not scored before the budget was used up']).toBeGreaterThan(0);
    },
    SLOW,
  );

  it(
    'a manual gate waits for a person, who accepts or refuses',
    async () => {
      const manual = written('read', plan('read', { gate: { kind: 'manual' } }));
      const asked = await troupe('plan', 'run', manual);
      expect([asked.code, asked.out]).toMatchObject([7, { run: 'read-1', state: 'undecided' }]);
      const before = await released();
      const refused = await troupe('gate', 'refuse', 'read-1', '--reason', 'reads badly', '--by', 'ana');
      const reason = 'Refused by ana: reads badly.';
      expect([refused.code, refused.out]).toMatchObject([7, { released: false, rounds: [{ reason }] }]);
      expect((await troupe('gate', 'show', 'read-1')).out).toMatchObject({ by: 'ana', reason });
      expect(await released()).toEqual(before);
      await troupe('plan', 'run', manual);
      const accepted = await troupe('gate', 'accept', 'read-2');
      expect([accepted.code, accepted.out]).toMatchObject([0, { released: true }]);
      expect(accepted.out.rounds[0].reason).toBe(`Accepted by ${userInfo().username}.`);
      expect(await released()).toHaveLength(before.length + 1);
      const again = await troupe('gate', 'accept', 'read-2');
      expect([again.code, again.out.error.code]).toEqual([1, 'not_found']);
    },
    SLOW,
  );

  it(
    'rounds go on from the released weights, each with a candidate of its own',
    async () => {
      const { code, out } = await troupe('plan', 'run', path('better.yaml'), '--rounds', '2');
      expect([code, out.run]).toMatchObject([expect.any(Number), 'better-2']);
      expect(out.rounds.map(({ round }: { round: number }) => round)).toEqual([1, 2]);
      const ids = out.rounds.map(({ candidates }: { candidates: { solver: string } }) => candidates.solver);
      expect(new Set(ids).size).toBe(2);
    },
    SLOW,
  );

  it(
    'a plan whose check finds a problem is not started, by hand or by a schedule, and the reason counts as a failure',
    async () => {
      const solver = plan('x').policies.solver;
      const empty = { ...solver, recipe: { ...solver.recipe, where: { field: 'reward', op: '>=', value: 9 } } };
      const file = written('empty', plan('empty', { policies: { solver: empty } }));
      const checked = await troupe('plan', 'check', file);
      expect([checked.code, checked.out.problems.length > 0]).toEqual([1, true]);
      const { total } = (await troupe('plan', 'list')).out;
      for (const more of [[], ['--detach']]) {
        const { code, out } = await troupe('plan', 'run', file, ...more);
        expect([code, out.error.code]).toEqual([1, 'plan_blocked']);
        for (const problem of checked.out.problems) expect(out.error.message).toContain(problem);
      }
      expect((await troupe('plan', 'list')).out.total).toBe(total);
      await troupe('schedule', 'add', 'empty', '--every', '1h', '--pause-after-failed', '1', '--plan', file);
      const { job_id } = (await troupe('schedule', 'run', 'empty')).out;
      const { child } = at.start(['run', 'work', '--json']);
      await expect
        .poll(async () => (await troupe('plan', 'show', job_id)).out, { timeout: SLOW / 2, interval: 500 })
        .toMatchObject({ run: { outcome: 'failed', error: { code: 'plan_blocked' } }, stages: [] });
      child.kill('SIGTERM');
      expect((await troupe('schedule', 'dry-run', 'empty')).out.would_pause).toMatch(
        /^its last 1 jobs? failed: Plan empty was not started\. .+ leaves none of the /,
      );
      await troupe('schedule', 'remove', 'empty');
    },
    SLOW,
  );

  it(
    'a schedule trains afterwards on what had been recorded at a tick that it missed, once',
    async () => {
      await database.db.query(`update troupe.stored_events set recorded_at = recorded_at - interval '2 days'`);
      writeFileSync(path('more.jsonl'), lines(plays(32)));
      expect((await troupe('import', path('more.jsonl'))).code).toBe(0);
      const late = written('late', plan('late'));
      const { policies } = (await troupe('plan', 'check', late)).out;
      // Two right plays of each task.
      expect(policies.solver.rows.train + policies.solver.rows.held_out).toBe(64);
      const add = ['schedule', 'add', 'late', '--cron', '0 3 * * *', '--plan', late];
      expect((await troupe(...add)).code).toBe(0);
      const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();
      const backfill = ['schedule', 'backfill', 'late', '--from', hoursAgo(30), '--to', hoursAgo(6)];
      const dry = await troupe(...backfill, '--dry-run');
      expect([dry.code, dry.out.ticks]).toEqual([0, [{ tick: expect.any(String), events: expect.any(Number) }]]);
      const { tick } = dry.out.ticks[0];
      expect((await troupe(...backfill)).out).toEqual({
        ...{ name: 'late', started: true },
        ticks: [{ tick, events: null }],
      });
      const roles = ['project', 'judge', 'work'].map((role) => at.start(['run', role, '--json']));
      const ended = { job_id: `schedule/late/${tick}`, as_of: tick, state: 'finished', outcome: 'done' };
      await expect
        .poll(async () => (await troupe('schedule', 'show', 'late')).out.runs, { timeout: SLOW / 2, interval: 2000 })
        .toMatchObject([ended]);
      for (const { child } of roles) child.kill('SIGTERM');
      const { rows } = await database.db.query<{ rows: Record<string, number> }>(
        `select result -> 'rows' as rows from facts.jobs where job_id = $1`,
        [`schedule/late/${tick}/1/freeze-solver`],
      );
      expect(rows[0]!.rows.train! + rows[0]!.rows.held_out!).toBe(48);
      expect((await troupe(...backfill)).out).toEqual({ name: 'late', started: true, ticks: [] });
    },
    SLOW,
  );

  it(
    'a first Ctrl-C ends a run after the step that is being trained and hands its job back; a second one ends it at once',
    async () => {
      const { solver } = plan('endless').policies;
      const endless = plan('endless', {
        policies: { solver: { ...solver, train: { ...solver.train, steps: 1_000_000 } } },
      });
      const file = written('endless', endless);
      const training = async () => {
        const { rows } = await database.db.query<{ state: string }>(
          `select state from troupe.job_queue where kind = 'sft' and spec::text like '%1000000%'`,
        );
        return rows.map(({ state }) => state);
      };
      for (const signals of [1, 2]) {
        const running = at.start(['plan', 'run', file]);
        await expect.poll(training, { timeout: 60_000 }).toEqual(['running']);
        running.child.kill('SIGINT');
        if (signals === 2) setTimeout(() => running.child.kill('SIGINT'), 500);
        const { code, err } = await running.ended;
        expect([code, err.includes('was interrupted')]).toEqual([130, signals === 1]);
        // Nobody was left to hand it back; the next run on this machine takes it.
        expect(await training()).toEqual([signals === 1 ? 'waiting' : 'running']);
      }
    },
    SLOW,
  );
});
