import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recordRelease } from '../../../store/loop/release/releases.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { requestJob, waitForJob } from '../../../store/queue/jobs/jobs.ts';
import { checkPlan } from '../../../trainer/loop/plan/check.ts';
import type { Checking } from '../../../trainer/loop/plan/check-found.ts';
import { parsePlan } from '../../../trainer/loop/plan/plan.ts';
import { readRunners } from '../../../trainer/loop/play/runners.ts';
import { teamPlays } from '../../cli/support/plays.ts';
import { type PlanHome, planHome } from './home.ts';

const TASKS = 12;
const tasks = Array.from({ length: 10 }, (_, i) => ({ task_id: `t${i}` }));
let home: PlanHome;
/** Twelve tasks with four plays each by a solver and a checker, of which the even ones are right; all are judged. */
beforeAll(async () => {
  home = await planHome(teamPlays(TASKS));
  await requestJob(home.context, {
    ...{ job_id: 'judged', kind: 'judge', spec: { methods: [{ method: 'grpo_advantage' }], where: null } },
  });
  await waitForJob(home.context.db, 'judged');
});
afterAll(() => home.close());

const sft = { method: 'sft', steps: 10, batch: 8, learning_rate: 1e-3 };
const good = { where: 'reward >= 1', split: { held_out: 0.7, seed: 1 } };
const solver = (more: object = {}) => ({ base: home.base, from: 'base', recipe: good, train: sft, ...more });
const planned = (more: object = {}) => ({
  name: 'nightly',
  policies: { solver: solver() },
  gate: { kind: 'offline' },
  ...more,
});
const check = async (more: object = {}, asked: Partial<Checking> = {}) =>
  checkPlan({ ...home.checking, ...asked }, await parsePlan(JSON.parse(JSON.stringify(planned(more)))));
const learning = (train: object, recipe: object = { unit: 'step', credit: 'grpo_advantage' }, more: object = {}) => ({
  judge: [{ method: 'grpo_advantage' }],
  gate: { kind: 'manual' },
  policies: { solver: solver({ recipe, train }) },
  ...more,
});
const rl = { method: 'rl', groups: 4, learning_rate: 1e-3 };

describe('A check of a plan', () => {
  it('says what a run would be now, and leaves nothing behind', async () => {
    const { policies, notes, ...found } = await check({ budget: { minutes: 5 }, rounds: 3, name: 'whole' });
    const { rows, memory_bytes, ...of } = policies.solver!;
    expect(found).toEqual({
      ...{ plan: 'whole', stages: ['freeze-solver', 'train-solver', 'gate'], rounds: 3, budget: { minutes: 5 } },
      ...{ team: null, rollout: null, problems: [] },
      gate: {
        // Of each held-out task two right plays, each with two answers.
        ...{ kind: 'offline', tasks: rows!.held_out! / 4, tasks_wanted: null, gain: null, episodes_wanted: null },
        ...{ deviation: null, played: null },
      },
    });
    expect(rows!.train! + rows!.held_out!).toBe(TASKS * 4);
    // Two roles with ten steps of eight rows each, of five tokens of the question and two of the answer; three rounds.
    const role = { steps: 30, learning_rate: 1e-3, moved: expect.closeTo(0.03, 12), signal: null };
    expect(of).toMatchObject({
      ...{ method: 'sft', start: { checkpoint_id: 'model', directory: home.base }, roles: ['checker', 'solver'] },
      ...{ by_role: { checker: role, solver: role }, tokens: 2 * 10 * 8 * 7, minutes: null, adapter: null },
    });
    expect(memory_bytes).toBeGreaterThan(1e6);
    expect(notes).toContain(
      'solver, checker: 30 optimizer steps at a learning rate of 0.001, 0.03 together. No training of solver by sft has moved this role yet.',
    );
    expect(notes).toContain(
      'How many tasks the gate wants is not computed: gate.find does not say which gain should pass.',
    );
    const left = await import('node:fs/promises').then(({ readdir }) => readdir(home.checking.folder));
    expect(left).toEqual([]);
  });

  it('names the stages of a round in their order', async () => {
    const rollout = {
      ...{ runner: 'solver', tasks, samples: 2 },
      writers: { runner: 'writers', samples: 1, judge: [{ method: 'well_formed_filter' }], accept: 'reward > 0' },
      branches: [
        { where: 'role = solver', samples: 2 },
        { where: 'reward = 0', samples: 1, repair: { runner: 'writers' } },
      ],
    };
    const passes = [
      { pass: 'reference', policy: 'solver' },
      { pass: 'ifd', policy: 'solver', as: 'small' },
    ];
    const gate = { kind: 'offline', recipe: good };
    expect((await check(learning(rl, undefined, { rollout, passes, gate }))).stages).toEqual([
      ...['serving', 'write', 'judge-written', 'tasks', 'rollout', 'rollout/branch-1', 'rollout/branch-2-repair'],
      ...['rollout/branch-2', 'reference-solver', 'ifd-small', 'judge', 'freeze-solver', 'freeze-gate', 'train-solver'],
      'gate',
    ]);
    const { judge: _, ...unjudged } = rollout.writers;
    expect((await check(learning(rl, undefined, { rollout: { ...rollout, writers: unjudged } }))).stages).toEqual(
      expect.arrayContaining(['write', 'tasks']),
    );
  });

  it.each([
    ['rl: each row once in each pass', rl, { unit: 'step', credit: 'grpo_advantage' }, TASKS * 8],
    ['rl in three passes', { ...rl, epochs: 3 }, { unit: 'step', credit: 'grpo_advantage' }, TASKS * 8 * 3],
    ['sft by role', { ...sft, steps: { solver: 3, checker: 5 } }, { where: 'reward >= 1' }, 8 * 8],
    ['sft with the default of a batch', { method: 'sft', steps: 2 }, { where: 'reward >= 1' }, 2 * 2 * 32],
    ['dpo: two answers of each pair', { method: 'dpo', steps: 3, batch: 2 }, { unit: 'pair' }, 12],
    [
      'value: one row each',
      { method: 'value', of: 'state', steps: 3, batch: 2 },
      { unit: 'step', credit: 'grpo_advantage' },
      6,
    ],
  ])('counts the tokens that pass through the model, by %s', async (_, train, recipe, rows) => {
    const { policies, problems } = await check(learning(train, recipe as object));
    expect(problems).toEqual([]);
    expect(policies.solver!.tokens).toBe(7 * rows);
  });

  it('says how long it takes by the speed of the last training of the kind', async () => {
    const { db } = home.context;
    await db.query(`insert into facts.jobs (job_id, kind) values ('fast', 'sft'), ('other', 'dpo')`);
    const metric = `insert into facts.job_metrics (job_id, step, name, value, occurred_at, version) values ($1, $2, $3, $4, $5, '1')`;
    await db.query(metric, ['fast', 1, 'tokens_per_second', 10, '2026-01-01']);
    await db.query(metric, ['fast', 2, 'tokens_per_second', 7, '2026-01-02']);
    await db.query(metric, ['fast', 3, 'loss', 1, '2026-01-03']);
    await db.query(metric, ['other', 1, 'tokens_per_second', 1, '2026-01-04']);
    expect((await check()).policies.solver!.minutes).toBeCloseTo((2 * 10 * 8 * 7) / 7 / 60, 9);
    await db.query(`delete from facts.job_metrics`);
    await db.query(`delete from facts.jobs where job_id in ('fast', 'other')`);
  });

  it('says what an adapter takes, and refuses a model without its maps', async () => {
    const lora = { r: 2, alpha: 4, targets: ['q_proj'] };
    const low = await check({ policies: { solver: solver({ train: { ...sft, lora } }) } });
    const whole = (await check()).policies.solver!;
    const { adapter, checkpoint_bytes, memory_bytes } = low.policies.solver!;
    // One layer with a query matrix of 16 times 16: A and B of rank 2.
    expect(adapter).toEqual({
      ...{ r: 2, alpha: 4, targets: ['q_proj'], parameters: 64, of_parameters: whole.checkpoint_bytes! / 12 },
      ...{ base: home.baseId, continues: null },
    });
    expect(low.notes).toContain(
      `solver trains an adapter of 64 numbers over ${home.baseId}, which has ${adapter!.of_parameters} and stays as it is.`,
    );
    expect(memory_bytes).toBeLessThan(whole.memory_bytes!);
    // 4 bytes for each number of the model, about 17 for each of the adapter.
    expect(Math.round(checkpoint_bytes!)).toBe(Math.round(4 * adapter!.of_parameters + 64 * 4 * (2 + 4 / 3 + 1)));
    const odd = await check({
      policies: { solver: solver({ train: { ...sft, lora: { ...lora, targets: ['qkv'] } } }) },
    });
    expect(odd.problems).toEqual([expect.stringMatching(/^solver cannot be trained from the weights in .*"qkv"/)]);
    expect(odd.policies.solver).toMatchObject({ tokens: null, memory_bytes: null, adapter: null });
  });

  it('has a problem with weights that are not there, and a note where the run does not need what is missing', async () => {
    const none = await check({ policies: { solver: solver({ from: 'last', base: undefined }) } });
    expect(none.problems).toEqual([
      'Policy solver has no checkpoint yet, and policies.solver.base names no model to start from.',
    ]);
    expect(none.policies.solver).toMatchObject({ start: null, tokens: null, by_role: {} });
    const released = await check({ policies: { solver: solver({ from: undefined, base: undefined }) } });
    expect(released.problems).toEqual([
      'Policy solver has no released checkpoint yet, and policies.solver.base names no model to start from.',
    ]);
    const first = await check({ policies: { solver: solver({ from: 'last' }) } });
    expect(first.notes).toContain(`solver has no last checkpoint yet; it starts with ${home.base}.`);
    expect((await check()).notes.join()).not.toContain('checkpoint yet');
    const { db } = home.context;
    await db.query(
      `insert into facts.checkpoints (checkpoint_id, policy, uri, kept, version) values
         ('one', 'solver', $1, true, '1'), ('two', 'solver', '/gone', false, '2'), ('three', 'other', '/other', true, '3')`,
      [home.base],
    );
    const last = await check({ policies: { solver: solver({ from: 'last', base: '/nowhere' }) } });
    expect(last.policies.solver!.start).toEqual({ checkpoint_id: 'one', directory: home.base });
    expect(last.problems).toEqual([]);
    expect(last.notes).toContain(
      'There is nothing at /nowhere, the base of solver. This run does not need it; one from base, or where nothing is released any more, fails.',
    );
    await db.query('delete from facts.checkpoints');
  });

  it('has a problem with a model that a pass names and that is not there', async () => {
    const passes = (model: string) => ({ passes: [{ pass: 'ifd', model, as: 'large' }] });
    expect((await check(passes('/nowhere'))).problems).toEqual([expect.stringMatching(/^passes: .*\/nowhere/)]);
    expect((await check(passes(home.base))).problems).toEqual([]);
  });

  it('has a problem with a recipe that finds nothing, and a note where a method of the plan may choose yet', async () => {
    const none = { ...good, where: 'reward >= 2' };
    expect((await check({ policies: { solver: solver({ recipe: none }) } })).problems).toEqual([
      expect.stringMatching(
        /^The recipe of solver has no rows to train on: .*reward >= 2.* Change policies.solver.recipe/,
      ),
      expect.stringContaining('there are 0 now'),
    ]);
    // An advantage that is 0 everywhere is nothing to learn, which ends the run without a failure.
    const silent = await check(learning(rl, { unit: 'step', credit: 'grpo_advantage', where: 'advantage > 9' }));
    expect([silent.problems, silent.notes.join()]).toEqual([
      [],
      expect.stringContaining('The recipe of solver has no rows'),
    ]);
    // The method has judged nothing yet: how many rows it keeps is known after its stage.
    const judge = [{ method: 'well_formed_filter' }];
    const unjudged = await check({
      judge,
      policies: { solver: solver({ recipe: { ...good, verdicts: [{ method: 'well_formed_filter' }] } }) },
    });
    expect(unjudged.problems).toEqual([]);
    expect(unjudged.policies.solver!.rows).toBeNull();
    expect(unjudged.gate.tasks).toBeNull();
    expect(unjudged.notes.join('\n')).toMatch(/Rows of nightly-solver are not counted: .* The stage judge does that\./);
    // Without that method in the plan nobody will.
    const recipe = { ...good, verdicts: [{ method: 'well_formed_filter' }] };
    await expect(check({ policies: { solver: solver({ recipe }) } })).rejects.toMatchObject({ code: 'not_found' });
  });

  it('has a problem with rows of which none fits into the context of the model', async () => {
    const { config } = await import('../../../trainer/model/model-directory.ts').then(({ openModelForIds }) =>
      openModelForIds(home.base),
    );
    expect(config.max_position_embeddings).toBe(32);
    const long = JSON.parse(JSON.stringify(teamPlays(1)).replaceAll('play-', 'long-').replaceAll('task-0', 'long')) as {
      data: Record<string, unknown>;
    }[];
    for (const { data } of long) if ('prompt_token_ids' in data) data.prompt_token_ids = Array(40).fill(2);
    await home.record(long);
    const recipe = { where: 'reward >= 1 and task_id = long' };
    const { problems, policies } = await check({ policies: { solver: solver({ recipe }) }, gate: { kind: 'manual' } });
    expect(problems).toEqual([
      `solver cannot be trained from the weights in ${home.base}: none of 4 rows has anything to learn within its 32 tokens.`,
    ]);
    expect(policies.solver!.rows).toEqual({ train: 4 });
    await home.context.db.query(`update facts.episodes set reward = null where task_id = 'long'`);
  });
});

describe('A check of the roles of a plan', () => {
  const recipe = { unit: 'step', credit: 'grpo_advantage', where: 'task_id != long' };
  const byRole = async (train: object, more: object = {}, of: object = {}) => {
    const { policies, notes, problems } = await check(learning(train, { ...recipe, ...of }, more));
    expect(problems).toEqual([]);
    return { roles: policies.solver!.by_role, notes };
  };

  it.each([
    // Twelve groups of each role, all with a signal.
    ['whole steps', { groups: 4 }, 3],
    ['a rest of a quarter and more', { groups: 8 }, 2],
    ['a rest below a quarter, which is dropped', { groups: 11 }, 1],
    ['fewer than a step', { groups: 60 }, 1],
    ['the default of 16', {}, 1],
    ['two passes', { groups: 4, epochs: 2 }, 6],
  ])('counts its steps of groups with a signal: %s', async (_, numbers, steps) => {
    const { roles } = await byRole({ method: 'rl', learning_rate: 0.01, ...numbers });
    const role = { steps, learning_rate: 0.01, moved: expect.closeTo(steps * 0.01, 12), signal: 1 };
    expect(roles).toEqual({ checker: role, solver: role });
  });

  it('takes the learning rate of the width of the model where none is given, and of sft the default', async () => {
    // A width of 16: 8 / 256 is above the most, 1e-3.
    expect((await byRole({ method: 'rl', groups: 4 })).roles.solver!.learning_rate).toBe(1e-3);
    expect((await byRole({ method: 'sft', steps: 3 })).roles.solver!.learning_rate).toBe(1e-4);
    const own = { method: 'rl', groups: { solver: 4, checker: 6 }, learning_rate: { solver: 0.1, checker: 0.2 } };
    const { roles } = await byRole(own, {}, { roles: ['solver', 'checker'] });
    expect(roles).toMatchObject({
      solver: { steps: 3, learning_rate: 0.1 },
      checker: { steps: 2, learning_rate: 0.2 },
    });
  });

  it('of a plan that plays counts what its tasks give by the share of groups that had a signal before', async () => {
    const rollout = { runner: 'solver', tasks, samples: 2, per_round: 8, iterations: 5 };
    const all = await byRole({ method: 'rl', groups: 4, learning_rate: 0.01 }, { rollout, rounds: 2 });
    // Two steps of four groups, in ten iterations; the share is 1.
    expect(all.roles.solver).toMatchObject({ steps: 20, moved: expect.closeTo(0.2, 12), signal: 1 });
    expect(all.notes).toContain(
      'solver, solver: 20 optimizer steps at a learning rate of 0.01, 0.2 together, if 100 % of its groups have a signal as before. No training of solver by rl has moved this role yet.',
    );
    // Eleven of twelve tasks lose theirs.
    const { db } = home.context;
    await db.query(`update facts.credits set value = 0 where episode_id not like 'play-3-%'`);
    const few = await byRole({ method: 'rl', groups: 4, learning_rate: 0.01 }, { rollout });
    expect(few.roles.solver).toMatchObject({ steps: 5, signal: expect.closeTo(1 / 12, 9) });
    expect(few.notes).toContain(
      'Of the groups of solver that were judged before 8 % had a signal: the others, all right or all wrong, teach solver nothing. Take tasks that are solved now and then, or more samples.',
    );
    await db.query(
      `update facts.credits set value = case when episode_id like '%-0' or episode_id like '%-2' then 1 else -1 end`,
    );
    expect((await byRole({ method: 'rl', groups: 4 }, { rollout })).notes.join()).not.toContain(
      'had a signal: the others',
    );
  });

  it('warns of one iteration of one step, and of shares that differ by more than three', async () => {
    const once =
      'solver is trained by one optimizer step of each role: one iteration of one step shows no gain. Set rollout.iterations, such as 20, or a smaller groups.';
    expect((await byRole({ method: 'rl' })).notes).toContain(once);
    expect((await byRole({ method: 'rl', groups: 6 })).notes).not.toContain(once);
    expect((await byRole({ method: 'rl' }, { rounds: 2 })).notes).not.toContain(once);
    expect((await byRole({ method: 'sft', steps: 1 })).notes).not.toContain(once);
    const apart = async (steps: object) =>
      (await byRole({ method: 'sft', steps })).notes.filter((note) => note.includes('may undo'));
    expect(await apart({ solver: 3, checker: 9 })).toEqual([]);
    expect(await apart({ solver: 0, checker: 9 })).toEqual([]);
    const warned =
      'solver has 10 optimizer steps of checker and 3 of solver, on the same weights: checker may undo what solver learnt. Keep them within a factor of 3, or give solver a policy of its own.';
    expect(await apart({ solver: 3, checker: 10 })).toEqual([warned]);
    expect(await apart({ checker: 10, solver: 3 })).toEqual([warned]);
  });

  it('compares with the last run that moved the weights', async () => {
    const { db } = home.context;
    const trained = (job: string, parent: string, finished: string, steps: number, by_role: object) =>
      db.query(
        `insert into facts.jobs (job_id, kind, parent_job_id, outcome, finished_at, spec, result)
         values ($1, 'sft', $2, 'done', $3, '{"policy": "solver"}', $4)`,
        [job, parent, finished, JSON.stringify({ steps, by_role })],
      );
    await trained('old-1/1/train', 'old-1', '2026-01-01', 9, { solver: { steps: 9, moved: 9 } });
    await trained('new-1/1/train', 'new-1', '2026-01-02', 2, { solver: { steps: 2, moved: 0.25 } });
    await trained('new-1/2/train', 'new-1', '2026-01-03', 3, { solver: { steps: 3, moved: 0.125 } });
    // It made no step.
    await trained('idle-1/1/train', 'idle-1', '2026-01-04', 0, {});
    const { notes } = await byRole({ method: 'sft', steps: 3, learning_rate: 0.01 });
    expect(notes).toContain(
      'solver, solver: 3 optimizer steps at a learning rate of 0.01, 0.03 together. The last training that moved it, new-1, had 5 and 0.38.',
    );
    expect(notes).toContain(
      'solver, checker: 3 optimizer steps at a learning rate of 0.01, 0.03 together. No training of solver by sft has moved this role yet.',
    );
    await db.query(`delete from facts.jobs where kind = 'sft'`);
  });

  it('says which rewards of steps no method of the plan reads', async () => {
    const reward = {
      ...{ specversion: '1.0', type: 'troupe.feedback.recorded.v1', source: '/made-up', id: 'own' },
      time: '2026-10-01T00:00:00Z',
      data: {
        ...{ feedback_id: 'own', kind: 'reward', name: 'local', value: 1 },
        target: { kind: 'step', id: 'play-0-0-call/0', episode_id: 'play-0-0' },
      },
    };
    await home.record([reward]);
    const unread = '1 reward of steps named local is read by no method that runs';
    expect((await byRole(rl)).notes.join()).toContain(unread);
    expect((await check()).notes.join()).not.toContain(unread);
  });
});

describe('A check of the gate of a plan', () => {
  const play = (more: object = {}) => ({
    gate: { kind: 'play', runner: 'solver', tasks, samples: 2, ...more },
  });
  /** Of the last gate of a plan of this name. */
  const reported = async (kind: string, plan: string, deviation: number, more: object = {}) => {
    const run = `${plan}-${deviation}`;
    await home.context.db.query(
      `insert into facts.jobs (job_id, kind, parent_job_id, outcome, finished_at, spec, result) values
         ($1, 'plan', null, 'done', now(), $2, null), ($1 || '/1/gate', $3, $1, 'done', now(), '{}', $4)`,
      [run, JSON.stringify({ plan: { name: plan } }), kind, JSON.stringify({ deviation, ...more })],
    );
  };

  it('says which gain it can tell, before its first report as if each reward were 0 or 1', async () => {
    const { gate, notes } = await check(play());
    // A deviation of √(0.5 / 2), a chance of 0.8 at the level 0.95: (1.96 + 0.84)² × 0.25 / gain², a seventh more, is at most ten tasks.
    expect(gate).toMatchObject({ kind: 'play', tasks: 10, tasks_wanted: null, gain: 0.5, deviation: null });
    expect(notes).toContain(
      'With 10 tasks the gate can tell a gain of 0.5, if each reward is 0 or 1; a smaller one will often not pass.',
    );
    // Twice the chance of an error needs less.
    expect((await check(play({ power: 0.5 }))).gate.gain).toBe(0.35);
    expect((await check(play({ samples: 8 }))).gate.gain).toBe(0.25);
  });

  it('computes from its last report how many tasks it wants', async () => {
    const { notes } = await check(play({ find: 0.1 }));
    expect(notes).toContain(
      'How many tasks the gate wants is known after its first report: it depends on how much tasks differ.',
    );
    await reported('play', 'nightly', 0.2);
    await reported('play', 'nightly', 9, { cut_short: 'Over.' });
    await reported('play', 'other', 8);
    await reported('gate', 'nightly', 7);
    // 2.8016² × 0.2² / 0.1² is 31.4, so 32, and a seventh more.
    const found = await check(play({ find: 0.1 }));
    expect(found.gate).toMatchObject({ deviation: 0.2, tasks_wanted: 37, gain: 0.2 });
    expect(found.notes).toContain(
      'The gate has 10 tasks and wants 37: a gain as small as gate.find will often not pass.',
    );
    expect(found.notes.join()).toContain('With 10 tasks the gate can tell a gain of 0.2; a smaller one');
    // One that may be worse by 0.1 has twice as far to go: 8 tasks, and a seventh more.
    const lax = await check(play({ find: 0.1, accept: 'not_worse', margin: 0.1 }));
    expect(lax.gate.tasks_wanted).toBe(10);
    expect(lax.notes.join()).not.toContain('wants 10');
    // Each role is one more comparison that has to pass, and differs more: √2 for two roles.
    const roles = await check({ ...play({ find: 0.1, guardrails: { roles: 0.1 } }), policies: { solver: solver() } });
    expect(roles.gate.tasks_wanted).toBeGreaterThan(2 * 37);
    expect(roles.notes.join()).toContain('gate.guardrails.roles compares rewards that the team or the judge');
    await home.context.db.query(`delete from facts.jobs where kind in ('plan', 'play', 'gate')`);
  });

  it('needs six tasks that were not trained on: a problem where no stage can change that', async () => {
    const few = (count: number) => ({ ...play({ tasks: tasks.slice(0, count) }) });
    const tooFew = /^The gate compares tasks that were not trained on, and there are 5 now; it needs at least 6/;
    expect((await check(few(5))).problems).toEqual([expect.stringMatching(tooFew)]);
    expect((await check(few(6))).problems).toEqual([]);
    // At another level the minimum is another one: 2^-5 is at most (1 - 0.9) / 2.
    expect((await check(play({ tasks: tasks.slice(0, 5), level: 0.9 }))).problems).toEqual([]);
    // Seven tasks, of which two are trained on now, where methods may choose others.
    const named = [{ task_id: 'task-0' }, { task_id: 'task-1' }, ...tasks.slice(0, 5)];
    const recipe = { where: 'reward >= 1 and task_id in (task-0, task-1)' };
    const trained = await check({ ...play({ tasks: named }), policies: { solver: solver({ recipe }) } });
    expect(trained.problems).toEqual([expect.stringMatching(tooFew)]);
    expect(trained.notes).toContain(
      'Of the tasks of the gate (7) 2 may be trained on: a round leaves out those that were.',
    );
    const judged = {
      ...play({ tasks: named }),
      judge: [{ method: 'grpo_advantage' }],
      policies: { solver: solver({ recipe: { ...recipe, credit: 'grpo_advantage' } }) },
    };
    const open = await check(judged);
    expect([open.problems, open.notes.join('\n')]).toEqual([[], expect.stringMatching(/there are 5 now/)]);
    // What a rollout will play is trained on as well; a filter is read again.
    const rollout = { runner: 'solver', tasks: tasks.slice(0, 2), samples: 2 };
    const playing = await check(learning(rl, undefined, { ...play({ tasks: tasks.slice(0, 7) }), rollout }));
    expect([playing.problems, playing.gate.tasks, playing.gate.played!.tasks]).toEqual([[], 5, 7]);
    const stored = await check({ ...play({ tasks: { where: 'task_id = task-0' } }) });
    expect(stored.problems).toEqual([]);
    expect(stored.notes).toContain(
      'gate.tasks is a filter: the tasks counted are those of now; the stage reads it again when it begins.',
    );
  });

  it('compares rows of its own without the tasks that are trained on', async () => {
    const gate = { kind: 'offline', recipe: { where: 'reward >= 1' } };
    const { gate: found, policies } = await check({ gate });
    expect(found.tasks).toBe(policies.solver!.rows!.held_out! / 4);
    const all = await check({ gate, policies: { solver: solver({ recipe: { where: 'reward >= 1' } }) } });
    expect(all.gate.tasks).toBe(0);
    expect(all.problems).toEqual([expect.stringContaining('there are 0 now')]);
  });

  it('says what a canary needs by how much live episodes differ', async () => {
    const canary = (more: object = {}) => ({ gate: { kind: 'canary', share: 0.25, metric: 'reward', ...more } });
    const { gate, notes } = await check(canary({ find: 0.1, at_most: 50 }));
    // Half of the 48 live episodes are right.
    expect(gate.deviation).toBeCloseTo(Math.sqrt((48 * 0.25) / 47), 6);
    const { all, candidate } = gate.episodes_wanted!;
    expect(candidate).toBe(Math.ceil(all / 4));
    expect(notes).toEqual(
      expect.arrayContaining([
        'The candidate answers 0.25 of the live calls that name a policy of the plan at the gateway, for 168 hours at most: `troupe up` has to run, or `troupe run serve`, `run infer` and `run work`.',
        `The canary needs ${all} live episodes, ${candidate} of them of the candidate, so that a gain of 0.1 passes with a chance of 0.8.`,
        'It ends after gate.at_most, 50: a gain as small as gate.find will often not pass.',
      ]),
    );
    expect((await check(canary({ find: 0.1, at_most: all }))).notes.join()).not.toContain('It ends after');
    const sure = await check(canary({ find: 0.1, power: 0.95 }));
    expect(sure.gate.episodes_wanted!.all).toBeGreaterThan(all);
    expect(sure.notes.join()).toContain('passes with a chance of 0.95');
    expect((await check(canary({ find: 0.1, guardrails: { roles: 0.1 } }))).gate.episodes_wanted!.all).toBeGreaterThan(
      all,
    );
    const unasked = await check(canary());
    expect(unasked.gate).toMatchObject({ kind: 'canary', tasks: null, episodes_wanted: null, gain: null });
    expect(unasked.notes).toContain(
      'How many episodes the canary needs is not computed: gate.find does not say which gain should pass.',
    );
  });

  it('of a person compares nothing', async () => {
    const { gate, notes } = await check({ gate: { kind: 'manual' } });
    expect(gate).toEqual({
      ...{ kind: 'manual', tasks: null, tasks_wanted: null, episodes_wanted: null, gain: null },
      ...{ deviation: null, played: null },
    });
    expect(notes.join()).not.toContain('gate');
  });

  it('says what prices and a watch need', async () => {
    const price = 'gate.guardrails.usd compares what the calls of an episode cost';
    expect((await check(play({ guardrails: { usd: 2 } }))).notes.join()).toContain(price);
    expect((await check(play({ guardrails: { tokens: 2 } }))).notes.join()).not.toContain(price);
    const calls = 'budget.usd counts what calls cost';
    expect((await check({ budget: { usd: 2 } })).notes.join()).toContain(calls);
    expect((await check({ budget: { tokens: 2 } })).notes.join()).not.toContain(calls);
    const { notes } = await check({ watch: { metric: 'reward', fall: 0.1, hours: 1 } });
    expect(notes.join()).toContain(
      'A release is watched for 1 hour by `troupe run work`, which `troupe up` starts: it needs 30 live episodes with a reward before it and as many after it, answered by the gateway.',
    );
    expect((await check()).notes.join()).not.toContain('A release is watched');
  });
});

describe('A check of what a plan plays', () => {
  const rollout = (more: object = {}) => ({ runner: 'solver', tasks, samples: 2, ...more });
  const playing = (more: object = {}, plan: object = {}) =>
    check(learning(rl, undefined, { rollout: rollout(more), ...plan }));

  it('counts its attempts, with all that are tried again', async () => {
    const { rollout: found, notes, policies } = await playing({ per_round: 4, iterations: 3 });
    expect(found).toEqual({
      ...{ runner: 'solver', tasks: 10, tasks_of_round: 4, samples: 2, iterations: 3, attempts: 24 },
      // The runner tries each sample twice more.
      ...{ attempts_at_most: 72, tasks_sha256: null },
    });
    expect(notes).toContain(
      'Rows are not counted: the recipes of a round take only the complete groups of its rollout.',
    );
    expect(policies.solver).toMatchObject({ rows: null, tokens: null, memory_bytes: null });
    expect((await playing()).rollout).toMatchObject({ tasks_of_round: 10, iterations: 1, attempts: 20 });
    const gate = { kind: 'play', runner: 'solver', tasks: tasks.slice(2), samples: 3 };
    expect((await check({ gate })).gate.played).toEqual({
      ...{ runner: 'solver', tasks: 8, tasks_of_round: 8, samples: 3, iterations: 1, attempts: 48 },
      ...{ attempts_at_most: 144, tasks_sha256: null },
    });
  });

  it('of written tasks counts those that the writers can write', async () => {
    const writers = { runner: 'writers', samples: 3, accept: 'reward > 0' };
    const { rollout: all, notes } = await playing({ per_round: 4, writers });
    expect(all).toMatchObject({ tasks: 10, tasks_of_round: 12, attempts: 24 });
    expect(notes.join()).toContain('12 episodes of writers in each iteration write one each');
    expect((await playing({ writers: { ...writers, at_most: 5 } })).rollout).toMatchObject({ tasks_of_round: 5 });
    // Those tasks are not known, so a gate of these plays all.
    const gate = { kind: 'play', runner: 'solver', tasks, samples: 1 };
    expect((await playing({ writers }, { gate })).gate.tasks).toBe(10);
  });

  it('has a problem with a runner that is not there, whoever it is for', async () => {
    const missing = { runner: 'sovler' };
    for (const { problems } of [
      await playing(missing),
      await playing({ writers: { ...missing, samples: 1, accept: 'reward > 0' } }),
      await playing({ branches: [{ where: 'reward = 0', samples: 1, repair: missing }] }),
      await check({ gate: { kind: 'play', ...missing, tasks, samples: 1 } }),
    ])
      expect(problems).toEqual([expect.stringMatching(/no runner "sovler".*solver/)]);
    expect((await playing(missing)).rollout!.attempts_at_most).toBeNull();
  });

  it('has notes on branches, limits, and what the environment lacks', async () => {
    const { notes } = await playing({
      ...{ runner: 'program', budget: { tokens: 9, usd: 2 } },
      branches: [{ where: 'role = solver', samples: 2 }],
    });
    for (const note of [
      'Attempts of branches are not counted: how many steps they go on from is known once the tasks are played.',
      'A rollout hands out no further attempt once it has used 9 tokens or 2 USD; those that run end as usual. Calls of policies cost what the setting prices says, and nothing without it.',
      'runners.program.env names NO_SUCH_TOKEN, which is not set here. A rollout fails where the environment of `run work` does not have it either.',
    ])
      expect(notes).toContain(note);
    expect(notes.join()).toContain('"no-such-team" of runners.program is in no folder of PATH');
    const quiet = await playing({ budget: { seconds: 9 } });
    expect(quiet.notes).toContain(
      'A rollout hands out no further attempt once it has used 9 seconds; those that run end as usual.',
    );
    expect(quiet.notes.join()).not.toMatch(/branches|NO_SUCH_TOKEN|no-such-team/);
    const there = { env: { NO_SUCH_TOKEN: 'x', PATH: process.env.PATH } };
    const runners = readRunners({ solver: { command: ['sh'], env: ['NO_SUCH_TOKEN'] } });
    const set = await check(learning(rl, undefined, { rollout: rollout() }), { ...there, runners });
    expect(set.notes.join()).not.toMatch(/NO_SUCH_TOKEN|in no folder/);
    const web = readRunners({ solver: { webhook: 'http://127.0.0.1:9/', key_env: 'NO_KEY' } });
    expect((await check(learning(rl, undefined, { rollout: rollout() }), { runners: web })).notes.join()).toContain(
      'runners.solver.key_env names NO_KEY, which is not set here.',
    );
  });

  it('says that nobody serves a policy, until a process does', async () => {
    const unserved = 'No process serves solver now. Start `troupe up`';
    expect((await playing()).notes.join()).toContain(unserved);
    const gate = { gate: { kind: 'play', runner: 'solver', tasks, samples: 1 } };
    expect((await check(gate)).notes.join()).toContain(unserved);
    // Once, where both play.
    expect((await playing({}, gate)).notes.filter((note) => note.includes(unserved))).toHaveLength(1);
    expect((await check()).notes.join()).not.toContain(unserved);
    await home.serve('solver', 'one');
    expect((await playing()).notes.join()).not.toContain(unserved);
  });

  it('reads filters of tasks now: none that fits is a problem of a rollout, and a note of a gate', async () => {
    const none = { where: 'task_id = nowhere' };
    const of = await playing({ tasks: none });
    expect(of.problems).toEqual([expect.stringContaining('nowhere')]);
    expect(of.rollout).toMatchObject({ tasks: 0, attempts: 0 });
    const some = await playing({ tasks: { where: 'task_id in (task-1, task-2)' } });
    expect([some.problems, some.rollout!.tasks]).toEqual([[], 2]);
    expect(some.notes.join()).toContain('rollout.tasks is a filter');
    const gate = await check({ gate: { kind: 'play', runner: 'solver', tasks: none, samples: 1 } });
    expect([gate.problems, gate.notes.join()]).toEqual([[], expect.stringContaining('nowhere')]);
  });

  it('has a problem with a method that is none, and a note on one that the plan does not run', async () => {
    const judged = (recipe: object) =>
      check(learning(rl, { unit: 'step', credit: 'grpo_advantage', ...recipe }, { rollout: rollout() }));
    expect((await judged({ verdicts: [{ method: 'well_formed_filtr' }] })).problems).toEqual([
      expect.stringMatching(
        /^policies.solver.recipe reads well_formed_filtr, and there is no such method.*well_formed_filter/,
      ),
    ]);
    expect((await judged({ where: 'verdict(zzz_zzz_zzz)' })).problems.join()).toContain(
      'there is no such method. `troupe method list` lists them.',
    );
    const other = await judged({ verdicts: [{ method: 'well_formed_filter' }] });
    expect(other.problems).toEqual([]);
    expect(other.notes.join()).toContain(
      'policies.solver.recipe reads well_formed_filter, and no entry of judge runs it: a round fails at freeze-solver',
    );
    expect((await judged({})).notes.join()).not.toContain('no entry of judge');
  });
});

describe('A check of the teams of a plan', () => {
  const version = (...names: string[]) => ({ agents: names.map((name) => ({ name, role: name })) });
  const gate = { kind: 'play', runner: 'solver', tasks, samples: 1 };
  const teams = (team: object, more: object = {}) =>
    check({ policies: undefined, gate, team: { name: 'pair', ...team }, ...more });

  it('names both versions, and has a problem where there is no second one', async () => {
    const found = await teams({ candidate: version('a'), base: version('b') });
    expect(found.problems).toEqual([]);
    expect(found.team).toEqual({
      ...{ name: 'pair', candidate: expect.stringMatching(/^pair@/), incumbent: expect.stringMatching(/^pair@/) },
    });
    expect(found.team!.candidate).not.toBe(found.team!.incumbent);
    expect(found.stages).toEqual(['gate']);
    expect((await teams({ candidate: version('a'), base: version('a') })).problems).toEqual([
      expect.stringMatching(/^The candidate is pair@\w+, which is what it would be compared with/),
    ]);
    const alone = await teams({ candidate: version('a') });
    expect([alone.problems, alone.team!.incumbent]).toEqual([
      [expect.stringContaining('no released version yet')],
      null,
    ]);
    // A person may release the first one.
    expect((await teams({ candidate: version('a') }, { gate: { kind: 'manual' } })).problems).toEqual([]);
    const watch = { watch: { metric: 'success', fall: 0.1 } };
    expect((await teams({ candidate: version('a'), base: version('b') }, watch)).notes.join()).toContain(
      'with a success before it and as many after it, which name their version by team_id',
    );
    const canary = { gate: { kind: 'canary', share: 0.5, metric: 'reward', hours: 1 } };
    expect((await teams({ candidate: version('a'), base: version('b') }, canary)).notes.join()).toContain(
      'The candidate plays 0.5 of the live episodes whose program asks GET /v1/teams/NAME?episode=ID, for 1 hour at most',
    );
  });

  it('has a problem with a team of which nothing is left to prune', async () => {
    const pruned = (keep: number) =>
      teams(
        { prune: { by: 'dylan_importance', keep }, base: version('a', 'b') },
        { rollout: { runner: 'solver', tasks, samples: 1 }, judge: [{ method: 'dylan_importance' }] },
      );
    const one = await pruned(1);
    expect(one).toMatchObject({
      problems: [],
      stages: ['rollout', 'judge', 'prune', 'gate'],
      team: { candidate: null },
    });
    expect(one.notes.join()).not.toContain('Rows are not counted');
    expect((await pruned(2)).problems).toEqual([
      'The team has 2 members, and team.prune.keep is 2: nothing is left to prune.',
    ]);
  });

  it('has a problem with a team that a rollout or a gate names and that nobody released', async () => {
    const rollout = { runner: 'solver', tasks: tasks.slice(0, 2), samples: 2, team: 'nobody' };
    expect((await check(learning(rl, undefined, { rollout }))).problems).toEqual([
      'rollout.team: No version of a team nobody is released; traj.releases lists those that are.',
    ]);
    expect((await check({ gate: { ...gate, team: 'nobody' } })).problems).toEqual([
      'gate.team: No version of a team nobody is released; traj.releases lists those that are.',
    ]);
    const { log, db } = home.context;
    const of = { release_id: 'r', policies: { solver: 'gone' }, teams: {}, reason: null, by: 'ada', source: '/t' };
    await recordRelease(log, { ...of, time: new Date().toISOString() });
    await waitProjected(db, { log });
    // Released weights whose files nobody knows are none to start with.
    const { problems, policies } = await check({ policies: { solver: solver({ from: 'released' }) } });
    expect([problems, policies.solver!.start]).toEqual([[], { checkpoint_id: 'model', directory: home.base }]);
  });
});
