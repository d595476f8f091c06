import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { snapshotAt } from '../../../store/datasets/as-of.ts';
import { recordRelease, releasesOf } from '../../../store/loop/release/releases.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { endWaiting, waitForJob } from '../../../store/queue/jobs/jobs.ts';
import { endCanary } from '../../../trainer/loop/comparison/canarying.ts';
import type { GateReport } from '../../../trainer/loop/comparison/report.ts';
import { offlineGate } from '../../../trainer/loop/plan/offline-gate.ts';
import { parsePlan } from '../../../trainer/loop/plan/plan.ts';
import { goOnWithRun } from '../../../trainer/loop/plan/plan-budget.ts';
import { plays } from '../../cli/support/plays.ts';
import { type PlanHome, planHome } from './home.ts';

/** One more right play, of a family of its own, whose prompt is longer than the context of the model. */
const tooLong = (plays(1) as { data: Record<string, unknown>; id: string }[])
  .filter(({ data, id }) => id.startsWith('task-') || String(data.episode_id ?? id).startsWith('play-0-0'))
  .map((event) => JSON.parse(JSON.stringify(event).replaceAll('play-0-0', 'long-0').replaceAll('task-0', 'long')))
  .map(({ data, ...event }) => ({
    ...event,
    data: 'prompt_token_ids' in data ? { ...data, prompt_token_ids: Array(40).fill(2) } : data,
  }));
const tasks = Array.from({ length: 10 }, (_, i) => ({ task_id: `t${i}` }));
const heldOut = Array.from({ length: 8 }, (_, i) => ({ task_id: `held-${i}`, domain: i % 2 === 0 ? 'even' : 'odd' }));

let home: PlanHome;
beforeAll(async () => {
  home = await planHome([...plays(24), ...tooLong]);
});
afterAll(() => home.close());

/** The last release has these policies. */
const released = async () => (await releasesOf(home.context.db)).at(-1);
const decided = async (gate: string, passed: boolean, reason: string) => {
  await home.until(gate);
  const result = { format: 'troupe-gate/1', kind: 'manual', passed, reason, by: 'ada' };
  expect(await endWaiting(home.context, { job_id: gate, kind: 'decision', result })).toBe(true);
};

describe('A plan that learns from recorded episodes', () => {
  const plan = (more: object = {}) => ({
    name: 'nightly',
    judge: [{ method: 'grpo_advantage' }],
    policies: {
      solver: {
        base: home.base,
        from: 'last',
        recipe: { where: 'reward >= 1 and task_id != long', roles: ['solver'], split: { held_out: 0.4, seed: 1 } },
        train: { method: 'sft', steps: 6, batch: 8, learning_rate: 0.02 },
      },
    },
    gate: { kind: 'offline', guardrails: { roles: 0.5 } },
    ...more,
  });

  it('judges, freezes, trains, compares and releases in each round, which goes on from the candidate before', async () => {
    const { rounds, ...ended } = await home.run('nightly-1', plan({ seed: 4, rounds: 2 }));
    expect(ended).toEqual({ plan: 'nightly', released: true, ended_early: null, nothing_to_learn: null });
    const stages = ['judge', 'freeze-solver', 'train-solver', 'gate'];
    expect(await home.stages('nightly-1')).toEqual([1, 2].flatMap((round) => stages.map((one) => `${round}/${one}`)));
    const [first, second] = rounds.map(({ candidates }) => candidates.solver!);
    for (const [i, round] of rounds.entries())
      expect(round).toEqual({
        ...{ round: i + 1, candidates: { solver: [first, second][i] }, passed: true, rollout: null },
        reason: 'The candidate is better and every guardrail passed.',
        ...{ gate: `nightly-1/${i + 1}/gate`, release_id: `nightly-1/${i + 1}` },
      });
    // What the recipe cannot take is not judged.
    expect((await home.job('nightly-1/1/judge'))!.spec).toMatchObject({
      methods: [{ method: 'grpo_advantage' }],
      where: { or: [{ and: [{ field: 'reward', op: '>=', value: 1 }, { field: 'task_id' }] }] },
    });
    const frozen = (await home.job('nightly-1/1/freeze-solver'))!;
    expect(frozen.spec).toMatchObject({ allow_empty: true, recipe: { name: 'nightly-solver', roles: ['solver'] } });
    expect(frozen.spec).not.toHaveProperty('as_of');
    // 48 right answers; the episodes of gates are left out, and each task stands in one split.
    expect(JSON.stringify(frozen.spec)).toContain('{"field":"tags.gate","op":"is null"}');
    expect(frozen.result!.rows.train! + frozen.result!.rows.held_out!).toBe(48);
    const directories = await Promise.all(
      [1, 2].map(async (round) => (await home.job(`nightly-1/${round}/train-solver`))!.result!.directory),
    );
    for (const round of [1, 2])
      expect(await home.job(`nightly-1/${round}/train-solver`)).toMatchObject({
        kind: 'sft',
        spec: {
          // The steps are those of each role of the recipe; the seed is the plan's plus the round minus 1.
          ...{ steps: { solver: 6 }, batch: 8, learning_rate: 0.02, seed: 3 + round, policy: 'solver' },
          ...{ base: round === 1 ? home.base : directories[0], dataset: frozen.result!.directory },
          ...{ keep: true, reset_optimizer: true },
        },
        result: { checkpoint_id: [first, second][round - 1], steps: 6 },
      });
    const gates = await Promise.all([1, 2].map(async (round) => (await home.job(`nightly-1/${round}/gate`))!));
    // Before a release the candidate is compared with the base, then with what was released.
    expect(gates[0]!.spec).toMatchObject({
      ...{ kind: 'offline', dataset: null },
      rules: { accept: 'better', margin: 0, level: 0.95, guardrails: { roles: 0.5, families: null } },
      policies: {
        solver: {
          incumbent: { checkpoint_id: 'model', directory: home.base },
          candidate: { checkpoint_id: first, directory: directories[0] },
          ...{ dataset: frozen.result!.directory, roles: ['solver'] },
        },
      },
    });
    expect(gates[1]!.spec).toMatchObject({
      policies: { solver: { incumbent: { checkpoint_id: first, directory: directories[0] } } },
    });
    const report = gates[0]!.result!;
    expect(report).toMatchObject({
      ...{ format: 'troupe-gate/1', kind: 'offline', unit: 'nats', outcome: 'better', passed: true },
      models: { solver: { incumbent: home.baseId, candidate: first } },
      left_out: { 'whose task was trained on': 0, 'with nothing to score within the context': 0 },
      main: { of: 'all tasks', tasks: frozen.result!.rows.held_out! / 2 },
      guardrails: [{ of: 'role solver', tasks: frozen.result!.rows.held_out! / 2, passed: true }],
    });
    // One role: its means are those of all. An untrained model is near the uniform one over ten words.
    const { main, guardrails } = report;
    expect(guardrails[0]!.candidate).toBeCloseTo(main.candidate, 9);
    expect(Math.abs(main.incumbent + Math.log(10))).toBeLessThan(0.5);
    expect(main.candidate).toBeGreaterThan(main.incumbent + 0.5);
    expect(await released()).toMatchObject({
      ...{ release_id: 'nightly-1/2', policies: { solver: second }, by: 'plan nightly' },
    });
    const { rows } = await home.context.db.query(
      `select metrics, reason from traj.releases where release_id = 'nightly-1/1'`,
    );
    expect(rows).toEqual([
      {
        reason: rounds[0]!.reason,
        metrics: { incumbent: main.incumbent, candidate: main.candidate, 'role solver': guardrails[0]!.candidate },
      },
    ]);
  });

  it('releases nothing that its gate cannot tell from what is released, whatever it was trained on', async () => {
    const { solver } = plan().policies;
    const as_of = await snapshotAt(home.context.db, new Date().toISOString());
    const { rounds, released: any } = await home.run(
      'alike-1',
      plan({
        name: 'alike',
        policies: {
          solver: { ...solver, from: 'base', recipe: { ...solver.recipe, split: { held_out: 0.4, seed: 1 } } },
        },
        gate: { kind: 'offline', accept: 'better', recipe: { where: 'reward >= 1' } },
      }),
      { as_of },
    );
    expect([any, rounds[0]!.passed, rounds[0]!.release_id]).toEqual([false, false, null]);
    expect((await released())!.release_id).toBe('nightly-1/2');
    expect(await home.stages('alike-1')).toEqual(
      ['judge', 'freeze-solver', 'train-solver', 'freeze-gate', 'gate'].map((one) => `1/${one}`),
    );
    const frozen = (await home.job('alike-1/1/freeze-solver'))!;
    expect(frozen.spec).toMatchObject({ as_of });
    // The rows of the gate may be judged ones too, so its episodes are judged: any right answer, also the one that is too long.
    expect((await home.job('alike-1/1/judge'))!.spec.where).toMatchObject({
      or: [{ and: [{}, {}] }, { and: [{ field: 'reward' }] }],
    });
    const rows = (await home.job('alike-1/1/freeze-gate'))!;
    expect(rows.spec).toMatchObject({ recipe: { name: 'alike-gate', split: null } });
    expect(rows.result!.rows).toEqual({ train: 49 });
    const gate = (await home.job('alike-1/1/gate'))!;
    expect(gate.spec).toMatchObject({ dataset: rows.result!.directory });
    // Second training on top of the first is better than one of six steps from the base.
    expect(gate.result).toMatchObject({
      outcome: 'worse',
      left_out: {
        'whose task was trained on': frozen.result!.rows.train!,
        'with nothing to score within the context': 1,
      },
      main: { tasks: (48 - frozen.result!.rows.train!) / 2 },
    });
  });

  it('is compared by an offline gate only as long as the minutes of its plan last', async () => {
    const { spec, result } = (await home.job('nightly-1/1/gate'))!;
    const gate = offlineGate(home.context, { threads: 1, codeVersion: 'test' });
    const within = async (seconds: number) => {
      const job = { job_id: 'nightly-1/1/gate', kind: 'gate', spec: { ...spec, budget: { seconds } }, token: 1 };
      return (await gate(job, async () => {}, new AbortController().signal)) as GateReport;
    };
    expect(await within(1e6)).toEqual(result);
    const cut = await within(1e-3);
    expect(cut).toMatchObject({ outcome: 'no_data', passed: false, main: { tasks: 0 } });
    expect(cut.cut_short).toMatch(/0.001 s/);
    // Two right answers of each task.
    expect(cut.left_out['not scored before the budget was used up']).toBe(
      2 * (result as unknown as GateReport).main.tasks,
    );
  });

  it('does not pass a guardrail on a role of its recipe that occurs in no task', async () => {
    const { spec } = (await home.job('nightly-1/1/gate'))!;
    const { solver } = spec.policies as { solver: object };
    const roles = { ...spec, policies: { solver: { ...solver, roles: ['solver', 'absent'] } } };
    const gate = offlineGate(home.context, { threads: 1, codeVersion: 'test' });
    const job = { job_id: 'nightly-1/1/gate', kind: 'gate', spec: roles, token: 1 };
    expect(await gate(job, async () => {}, new AbortController().signal)).toMatchObject({
      ...{ outcome: 'better', passed: false },
      guardrails: expect.arrayContaining([
        expect.objectContaining({ of: 'role absent', outcome: 'no_data', passed: false }),
      ]),
    });
  });

  it('fails at the stage that finds no row, and names it', async () => {
    const { solver } = plan().policies;
    const recipe = { ...solver.recipe, roles: ['nobody'] };
    const nobody = plan({ name: 'nobody', judge: undefined, policies: { solver: { ...solver, recipe } } });
    // Whoever requested it has checked it: else it would not have begun.
    await expect(home.run('nobody-1', JSON.parse(JSON.stringify(nobody)), { checked: true })).rejects.toThrow(
      /There is nothing to learn for solver: .*nobody/,
    );
    await expect(home.run('nobody-2', JSON.parse(JSON.stringify(nobody)))).rejects.toThrow(
      'Plan nobody was not started.',
    );
    expect(await home.stages('nobody-2')).toEqual([]);
  });
});

describe('A plan that plays', () => {
  const plan = (more: object = {}, rollout: object = {}, policy: object = {}) => ({
    name: 'rl',
    seed: 4,
    rollout: { runner: 'solver', tasks, samples: 2, per_round: 3, ...rollout },
    judge: [{ method: 'grpo_advantage' }],
    policies: {
      solver: {
        base: home.base,
        from: 'base',
        recipe: { unit: 'step', credit: 'grpo_advantage' },
        train: { method: 'rl', groups: 2, learning_rate: 0.01 },
        ...policy,
      },
    },
    gate: { kind: 'manual' },
    ...more,
  });
  const specOf = async (id: string) => (await home.job(id))!.spec;
  const taskIds = async (id: string) =>
    ((await specOf(id)).tasks as { task_id: string }[]).map(({ task_id }) => task_id);

  it('waits for the released weights, plays new tasks with the newest in each iteration, and compares at the end', async () => {
    const before = (await released())!.policies.solver!;
    await home.serve('solver', before);
    // At the second sample of t3 the team breaks; the candidate of the gate is always right.
    home.team.plays = ({ id, sample, spec, task }) => {
      if (id.includes('/gate/')) return { reward: id.endsWith('candidate') ? 1 : 0 };
      return task === 't3' && spec.seed === 4001 && sample === 1 ? null : { reward: sample };
    };
    const gate = { kind: 'play', runner: 'solver', tasks: [...heldOut, ...tasks], samples: 1 };
    const { rounds, ...ended } = await home.run(
      'rl-1',
      plan(
        { gate: { ...gate, guardrails: { families: 0.1 }, deadline_s: 600 }, watch: { metric: 'reward', fall: 0.1 } },
        { iterations: 2, params: { turns: [2, 4], style: 'brief' }, deadline_s: 300, serving_within_s: 9 },
      ),
    );
    expect(ended).toEqual({ plan: 'rl', released: true, ended_early: null, nothing_to_learn: null });
    expect(await home.stages('rl-1')).toEqual([
      '1/1/serving',
      ...[1, 2].flatMap((i) => ['rollout', 'judge', 'freeze-solver', 'train-solver'].map((one) => `1/${i}/${one}`)),
      ...['1/gate', '1/gate/incumbent', '1/gate/candidate', '1/watch'],
    ]);
    expect(await home.job('rl-1/1/1/serving')).toMatchObject({
      spec: { policies: { solver: before }, bases: {}, within_s: 9 },
      result: { policies: { solver: before } },
    });
    const [first, last] = await Promise.all([1, 2].map((i) => home.job(`rl-1/1/${i}/train-solver`)));
    // The seed of an iteration is 1000 times that of the round, plus its number; settings are those of the round.
    const common = { runner: 'solver', samples: 2, params: { turns: 2, style: 'brief' }, deadline_s: 300 };
    expect(await specOf('rl-1/1/1/rollout')).toMatchObject({ ...common, seed: 4001, policies: { solver: before } });
    expect(await specOf('rl-1/1/1/rollout')).not.toHaveProperty('weights');
    const weights = { solver: { checkpoint_id: first!.result!.checkpoint_id, directory: first!.result!.directory } };
    expect(await specOf('rl-1/1/2/rollout')).toMatchObject({
      ...{ ...common, seed: 4002, policies: { solver: first!.result!.checkpoint_id }, weights },
      awaits: { policies: ['solver'], within_s: 9 },
    });
    const played = [await taskIds('rl-1/1/1/rollout'), await taskIds('rl-1/1/2/rollout')];
    expect(played.map(({ length }) => length)).toEqual([3, 3]);
    expect(played[0]).not.toEqual(played[1]);
    expect(played[0]).toContain('t3');
    // What is judged and learnt from are the complete groups of the iteration.
    for (const stage of ['judge', 'freeze-solver']) {
      const asked = JSON.stringify(await specOf(`rl-1/1/1/${stage}`));
      for (const part of ['"tags.rollout","op":"=","value":"rl-1/1/1/rollout"', '"group_id","op":"in"'])
        expect(asked).toContain(part);
    }
    expect(await specOf('rl-1/1/1/freeze-solver')).toMatchObject({
      recipe: { credit: { method: 'grpo_advantage', params: { scale_std: true } } },
    });
    const roles = [{ role: 'solver', groups: 2, learning_rate: 0.01 }];
    expect(first).toMatchObject({
      kind: 'rl',
      spec: { roles, seed: 4001, base: home.base, keep: false, reset_optimizer: true },
      result: { steps: 1 },
    });
    expect(last!.spec).toMatchObject({
      ...{ roles, seed: 4002, base: first!.result!.directory, keep: true, reset_optimizer: false },
    });
    const candidate = last!.result!.checkpoint_id;
    expect(rounds).toEqual([
      {
        ...{ round: 1, candidates: { solver: candidate }, passed: true, gate: 'rl-1/1/gate', release_id: 'rl-1/1' },
        reason: 'The candidate is better and every guardrail passed.',
        rollout: {
          ...{ rollout_id: 'rl-1/1/*/rollout', episodes: 10, groups: { complete: 5, partial: 1 } },
          left_out: [{ code: 'exit', message: 'Exit code 4.', samples: 1 }],
          // The released weights answered the first iteration, and it began with the base.
          ...{ withheld: 0, stale: 4, unknown: 0 },
        },
      },
    ]);
    // No task that any iteration learned from is played.
    const trained = [...new Set(played.flat())].filter((id) => id !== 't3' || played[1]!.includes('t3'));
    const spec = await specOf('rl-1/1/gate');
    expect(await taskIds('rl-1/1/gate')).toEqual(
      [...heldOut, ...tasks].map(({ task_id }) => task_id).filter((id) => !trained.includes(id)),
    );
    expect(spec).toMatchObject({
      ...{ kind: 'play', runner: 'solver', samples: 1, seed: 4, params: { turns: 2, style: 'brief' } },
      ...{ deadline_s: 600, serving_within_s: 120, policies: ['solver'], guarded: [], unplayed: 0.05 },
      left_out: { 'trained on': trained.length },
      maps: {
        incumbent: { solver: { checkpoint_id: before } },
        candidate: { solver: { checkpoint_id: candidate, directory: last!.result!.directory } },
      },
    });
    expect(Object.keys((spec.maps as { candidate: { solver: object } }).candidate.solver)).toEqual([
      'checkpoint_id',
      'directory',
    ]);
    expect((await home.job('rl-1/1/gate'))!.result).toMatchObject({
      main: { tasks: heldOut.length + tasks.length - trained.length, incumbent: 0, candidate: 1 },
      guardrails: expect.arrayContaining(
        ['even', 'odd'].map((family) => expect.objectContaining({ of: `family ${family}`, tasks: 4, passed: true })),
      ),
      rollouts: { incumbent: 'rl-1/1/gate/incumbent', candidate: 'rl-1/1/gate/candidate' },
    });
    expect(await home.job('rl-1/1/watch')).toMatchObject({
      kind: 'watch',
      spec: { release_id: 'rl-1/1', rules: { metric: 'reward', fall: 0.1 } },
    });
    expect((await released())!.policies).toEqual({ solver: candidate });
  });

  it('that goes on from a candidate which was not released plays with that one, and a person decides', async () => {
    home.team.plays = ({ sample }) => ({ reward: sample });
    const asked = plan({ name: 'asked', seed: 1, rounds: 2 }, {}, { from: 'last' });
    const before = (await released())!;
    await home.serve('solver', before.policies.solver!);
    const running = home.run('asked-1', asked);
    await decided('asked-1/1/gate', false, 'Refused by ada.');
    await decided('asked-1/2/gate', true, 'Accepted by ada.');
    const { rounds } = await running;
    expect(await home.job('asked-1/1/gate')).toMatchObject({
      kind: 'decision',
      spec: { kind: 'manual', candidates: { solver: { checkpoint_id: rounds[0]!.candidates.solver } } },
    });
    expect(rounds.map(({ passed, reason, release_id }) => [passed, reason, release_id])).toEqual([
      [false, 'Refused by ada.', null],
      [true, 'Accepted by ada.', 'asked-1/2'],
    ]);
    // In the first round the last checkpoint is the released one, so the stage waits for that.
    const stages = ['rollout', 'judge', 'freeze-solver', 'train-solver', 'gate'];
    expect(await home.stages('asked-1')).toEqual([
      '1/serving',
      ...[1, 2].flatMap((round) => stages.map((one) => `${round}/${one}`)),
    ]);
    expect(await specOf('asked-1/2/rollout')).toMatchObject({
      seed: 2,
      weights: { solver: { checkpoint_id: rounds[0]!.candidates.solver } },
      awaits: { policies: ['solver'], within_s: 120 },
    });
    expect(rounds.map(({ rollout }) => [rollout!.rollout_id, rollout!.stale, rollout!.unknown])).toEqual([
      ['asked-1/1/rollout', 0, 0],
      ['asked-1/2/rollout', 0, 0],
    ]);
    const { rows } = await home.context.db.query(`select metrics from traj.releases where release_id = 'asked-1/2'`);
    expect(rows).toEqual([{ metrics: null }]);
  });

  it('has nothing to learn where every group is all right, and ends without a gate', async () => {
    await home.serve('solver', (await released())!.policies.solver!);
    home.team.plays = () => ({ reward: 1 });
    const useful = { recipe: { unit: 'step', credit: 'grpo_advantage', where: 'advantage != 0' } };
    const once = await home.run('right-1', plan({ name: 'right' }, {}, useful));
    expect(once).toMatchObject({ released: false, rounds: [], ended_early: null });
    expect(once.nothing_to_learn).toMatch(/^Nothing to learn for solver: .*advantage/);
    expect((await home.stages('right-1')).at(-1)).toBe('1/freeze-solver');
    // With iterations the next one may have a signal; none had, so no step was made.
    const twice = await home.run('right-2', plan({ name: 'right' }, { iterations: 2 }, useful));
    expect(twice).toMatchObject({ released: false, rounds: [] });
    expect(twice.nothing_to_learn).toBe(
      'Nothing to learn in round 1: no group of solver had a signal, so no optimizer step was made, and there is nothing to compare.',
    );
    expect((await home.stages('right-2')).at(-1)).toBe('1/2/train-solver');
  });

  it('fails where no group is complete', async () => {
    await home.serve('solver', (await released())!.policies.solver!);
    home.team.plays = ({ sample }) => (sample === 0 ? { reward: 1 } : null);
    await expect(home.run('broken-1', plan({ name: 'broken' }))).rejects.toThrow(
      'Round 1 has nothing to learn from: of 3 groups of rollout broken-1/1/rollout none is complete. 3 samples exit: Exit code 4.',
    );
  });

  it('ends early where its budget is used up, and goes on under a larger one', async () => {
    await home.serve('solver', (await released())!.policies.solver!);
    home.team.plays = ({ sample }) => ({ reward: sample });
    const asked = (tokens: number) => plan({ name: 'short', budget: { tokens } });
    // Six episodes of seven tokens.
    expect(await home.run('short-1', asked(42))).toEqual({
      ...{ plan: 'short', released: false, rounds: [], nothing_to_learn: null },
      ended_early:
        'The budget of 42 tokens was used up: 42 recorded. So short-1/1/judge did not begin; the plan with another budget, run again, goes on there.',
    });
    expect((await specOf('short-1/1/rollout')).budget).toEqual({ tokens: 42 });
    expect(await goOnWithRun(home.context, 'short-1', await parsePlan(asked(43)), {})).toBe(true);
    await decided('short-1/1/gate', false, 'No.');
    expect(await home.stages('short-1')).toEqual(
      ['serving', 'rollout', 'judge', 'freeze-solver', 'train-solver', 'gate'].map((one) => `1/${one}`),
    );
  });

  it('releases nothing by a gate that its budget cuts short, and decides it under a larger one', async () => {
    await home.serve('solver', (await released())!.policies.solver!);
    home.team.plays = ({ id, sample }) => ({
      reward: id.includes('/gate/') ? Number(id.endsWith('candidate')) : sample,
    });
    const gate = { kind: 'play', runner: 'solver', tasks: heldOut, samples: 1 };
    const asked = (tokens: number) => plan({ name: 'cut', gate, budget: { tokens } });
    // 42 tokens of the rollout and 56 of the incumbent: the candidate does not begin.
    const cut = await home.run('cut-1', asked(90));
    expect(cut).toMatchObject({ released: false, rounds: [] });
    expect(cut.ended_early).toBe(
      'The budget of 90 tokens was used up: 98 recorded. So cut-1/1/gate was cut short and nothing is released; the plan with another budget, run again, goes on there.',
    );
    expect((await home.stages('cut-1')).at(-1)).toBe('1/gate/incumbent');
    expect((await home.job('cut-1/1/gate'))!.result).toMatchObject({ passed: false, outcome: 'no_data' });
    expect(await goOnWithRun(home.context, 'cut-1', await parsePlan(asked(1000)), {})).toBe(true);
    expect(await waitForJob(home.context.db, 'cut-1', { timeoutMs: 40_000 })).toMatchObject({
      ...{ released: true, ended_early: null, rounds: [{ passed: true, release_id: 'cut-1/1' }] },
    });
    // Each once: what was played is not played again.
    expect((await home.stages('cut-1')).filter((one) => one.startsWith('1/gate')).sort()).toEqual([
      '1/gate',
      '1/gate/candidate',
      '1/gate/incumbent',
    ]);
  });

  it('has its tasks written first, grows them into trees, and passes its model over what was played', async () => {
    await home.serve('solver', (await released())!.policies.solver!);
    home.team.plays = ({ id, sample, task }) => {
      if (!id.endsWith('/write')) return { reward: sample };
      const written = { task_id: `about-${task}`, prompt: 'what is one' };
      return { reward: 1 - sample, answer: task === 't2' ? 'no task' : JSON.stringify(written) };
    };
    const asked = plan(
      { name: 'trees', passes: [{ pass: 'reference', policy: 'solver' }] },
      {
        ...{ tasks: tasks.slice(0, 3), per_round: undefined, max_staleness: 9 },
        writers: { runner: 'writers', samples: 2, judge: [{ method: 'well_formed_filter' }], accept: 'reward > 0' },
        branches: [
          { where: 'role = solver and reward = 1', samples: 2, answer: 'one' },
          { where: 'role = nobody', samples: 1, repair: { runner: 'writers' } },
        ],
      },
    );
    const running = home.run('trees-1', JSON.parse(JSON.stringify(asked)));
    await decided('trees-1/1/gate', false, 'No.');
    const { rounds } = await running;
    expect(await home.stages('trees-1')).toEqual(
      [
        ...['serving', 'write', 'judge-written', 'tasks', 'rollout', 'rollout/branch-1', 'reference-solver', 'judge'],
        ...['freeze-solver', 'train-solver', 'gate'],
      ].map((one) => `1/${one}`),
    );
    const write = await specOf('trees-1/1/write');
    expect(write).toMatchObject({ runner: 'writers', samples: 2, seed: 4, tasks: tasks.slice(0, 3), max_staleness: 9 });
    expect(await specOf('trees-1/1/tasks')).toMatchObject({ rollout_id: 'trees-1/1/write' });
    expect(JSON.stringify(await specOf('trees-1/1/judge-written'))).toContain('"value":"trees-1/1/write"');
    expect(await taskIds('trees-1/1/rollout')).toEqual(['about-t0', 'about-t1']);
    const branch = await specOf('trees-1/1/rollout/branch-1');
    expect(branch).toMatchObject({ runner: 'solver', samples: 2, seed: 4, max_staleness: 9 });
    // The right sample of each of the two tasks is gone on from.
    expect((branch.places as { agent: string }[]).map(({ agent }) => agent)).toEqual(['solver', 'solver']);
    expect(JSON.stringify(await specOf('trees-1/1/judge'))).toContain('trees-1/1/rollout/branch-1');
    expect(await home.job('trees-1/1/reference-solver')).toMatchObject({
      kind: 'pass',
      spec: { pass: 'reference', model: home.base },
    });
    expect(rounds[0]!.rollout).toEqual({
      ...{ rollout_id: 'trees-1/1/rollout', episodes: 8, groups: { complete: 4, partial: 0 }, left_out: [] },
      ...{ withheld: 0, stale: 8, unknown: 0 },
      written: { episodes: 6, tasks: 2, left_out: { 'not accepted': 3, 'the answer is no JSON object': 1 } },
    });
  });

  it('asks for one canary of a policy at a time, with the weights of both sides', async () => {
    await home.serve('solver', (await released())!.policies.solver!);
    home.team.plays = ({ sample }) => ({ reward: sample });
    const gate = { kind: 'canary', share: 0.25, metric: 'reward', guardrails: { roles: 0.1 } };
    const before = (await released())!.policies.solver!;
    const recipe = { unit: 'step', credit: 'grpo_advantage', roles: ['solver'] };
    const first = home.run('live-1', plan({ name: 'live', gate, budget: { minutes: 600 } }, {}, { recipe }));
    await home.until('live-1/1/gate');
    const second = home.run('other-1', plan({ name: 'other', gate, seed: 9 }, {}, { recipe }));
    const asked = (await home.job('live-1/1/gate'))!;
    const { checkpoint_id, directory } = (await home.job('live-1/1/train-solver'))!.result!;
    expect(asked).toMatchObject({
      kind: 'canary',
      spec: {
        kind: 'canary',
        rules: {
          ...{ accept: 'better', margin: 0, level: 0.95, share: 0.25, metric: 'reward', range: [0, 1] },
          ...{ at_least: 100, bake_hours: 1, hours: 168, at_most: 200_000, unknown: 0.1 },
          guardrails: { roles: 0.1, families: null, tokens: null, latency: null },
        },
        maps: { incumbent: { solver: before }, candidate: { solver: checkpoint_id } },
        weights: { solver: { checkpoint_id, directory } },
        guarded: ['solver'],
      },
    });
    const { seconds } = asked.spec.budget as { seconds: number };
    expect(seconds).toBeGreaterThan(599 * 60 - 60);
    await home.until('other-1/1/train-solver');
    const waits = async () =>
      (await home.context.db.query(`select waits_for from troupe.job_queue where job_id = 'other-1'`)).rows[0];
    await expect.poll(waits, { timeout: 20_000 }).toEqual({ waits_for: 'live-1/1/gate' });
    expect(await home.job('other-1/1/gate')).toBeUndefined();
    await endCanary(home.context, 'live-1', { passed: false, reason: 'Refused by ada.', by: 'ada' });
    expect((await first).rounds[0]).toMatchObject({ passed: false, release_id: null });
    await home.until('other-1/1/gate');
    await endCanary(home.context, 'other-1', { passed: true, reason: 'Accepted by ada.', by: 'ada' });
    expect((await second).rounds[0]).toMatchObject({ passed: true, release_id: 'other-1/1' });
  });
});

describe('A plan whose candidate is a version of a team', () => {
  const version = (...names: string[]) => ({ agents: names.map((name) => ({ name, role: name })) });
  const plan = (more: object = {}, team: object = {}) => ({
    name: 'prompts',
    team: { name: 'pair', candidate: version('a'), ...team },
    gate: { kind: 'play', runner: 'solver', tasks: heldOut, samples: 1 },
    ...more,
  });
  const teamOf = async () => (await released())!.teams.pair;

  it('has a first version decided by a person, plays the next one against it, and releases what is better', async () => {
    const policies = (await released())!.policies;
    const first = home.run('first-1', plan({ name: 'first', gate: { kind: 'manual' } }));
    await decided('first-1/1/gate', true, 'Accepted by ada.');
    const { rounds } = await first;
    const team = String(await teamOf());
    expect(team).toMatch(/^pair@[0-9a-f]{16}$/);
    expect(rounds).toEqual([
      {
        ...{ round: 1, candidates: {}, teams: { pair: team }, passed: true, reason: 'Accepted by ada.', rollout: null },
        ...{ gate: 'first-1/1/gate', release_id: 'first-1/1' },
      },
    ]);
    expect(await home.job('first-1/1/gate')).toMatchObject({
      spec: { kind: 'manual', candidates: {}, teams: { pair: team } },
    });
    // The weights stay as they are.
    expect(await released()).toMatchObject({ policies, teams: { pair: team } });

    home.team.plays = ({ id }) => ({ reward: id.endsWith('candidate') ? 1 : 0 });
    const better = await home.run('prompts-1', plan({ seed: 3 }, { candidate: version('a', 'b') }));
    const next = String(await teamOf());
    expect(next).not.toBe(team);
    expect(better.rounds[0]).toMatchObject({ passed: true, teams: { pair: next }, release_id: 'prompts-1/1' });
    expect(await home.job('prompts-1/1/gate')).toMatchObject({
      spec: {
        ...{ seed: 3, policies: [], guarded: [], left_out: { 'trained on': 0 } },
        maps: { incumbent: { solver: { checkpoint_id: policies.solver } }, candidate: { solver: {} } },
        teams: { incumbent: { team_id: team }, candidate: { team_id: next, definition: version('a', 'b') } },
      },
      result: { models: { 'team pair': { incumbent: team, candidate: next } }, main: { tasks: 8 } },
    });
    for (const [side, team_id] of [
      ['incumbent', team],
      ['candidate', next],
    ])
      expect((await home.job(`prompts-1/1/gate/${side}`))!.spec.team).toMatchObject({ team_id });
    const { rows } = await home.context.db.query(`select team_id from facts.teams order by team_id`);
    expect(rows.map(({ team_id }) => team_id)).toEqual([team, next].sort());
  });

  it('gives the candidate to a share of the live episodes, one canary of a team at a time', async () => {
    const now = await teamOf();
    const gate = { kind: 'canary', share: 0.5, metric: 'success' };
    const live = home.run('teams-1', plan({ name: 'teams', gate }, { candidate: version('c') }));
    await home.until('teams-1/1/gate');
    const other = home.run('more-1', plan({ name: 'more', gate }, { candidate: version('d') }));
    expect((await home.job('teams-1/1/gate'))!.spec).toMatchObject({
      ...{ kind: 'canary', maps: { incumbent: {}, candidate: {} }, weights: {}, guarded: [] },
      rules: { share: 0.5, metric: 'success' },
      teams: { incumbent: { team_id: now }, candidate: { definition: version('c') } },
    });
    const waits = async () =>
      (await home.context.db.query(`select waits_for from troupe.job_queue where job_id = 'more-1'`)).rows[0];
    await expect.poll(waits, { timeout: 20_000 }).toEqual({ waits_for: 'teams-1/1/gate' });
    for (const run of ['teams-1', 'more-1']) {
      await home.until(`${run}/1/gate`);
      await endCanary(home.context, run, { passed: false, reason: 'Refused by ada.', by: 'ada' });
    }
    for (const ended of [await live, await other]) expect(ended.released).toBe(false);
    expect(await teamOf()).toBe(now);
  });

  it('may be the released version without its least important members, which a rollout of it tells', async () => {
    const now = await teamOf();
    home.team.plays = ({ sample }) => ({ reward: sample, roles: ['a', 'b'] });
    const pruned = {
      ...plan({ name: 'pruned' }, { candidate: undefined, prune: { by: 'dylan_importance', keep: 1 } }),
      rollout: { runner: 'solver', tasks: tasks.slice(0, 2), samples: 1 },
      judge: [{ method: 'dylan_importance' }],
    };
    // Nobody rated anybody.
    await expect(home.run('pruned-1', JSON.parse(JSON.stringify(pruned)))).rejects.toThrow(
      /Stage pruned-1\/1\/prune failed: /,
    );
    expect(await home.stages('pruned-1')).toEqual(['1/rollout', '1/judge', '1/prune']);
    expect((await home.job('pruned-1/1/rollout'))!.spec).toMatchObject({
      ...{ runner: 'solver', seed: 0, tasks: tasks.slice(0, 2), team: { team_id: now } },
    });
    expect((await home.job('pruned-1/1/judge'))!.spec).toMatchObject({ methods: [{ method: 'dylan_importance' }] });
    expect((await home.job('pruned-1/1/prune'))!.spec).toMatchObject({
      ...{ rollout_id: 'pruned-1/1/rollout', keep: 1, team: { team_id: now, definition: version('a', 'b') } },
      method_key: expect.stringMatching(/^dylan_importance@/),
    });
  });

  it('does not begin where its candidate is what is released, or has nothing to be compared with', async () => {
    await expect(home.run('same-1', plan({ name: 'same' }, { candidate: version('a', 'b') }))).rejects.toThrow(
      `The candidate is ${await teamOf()}, which is what it would be compared with`,
    );
    await expect(home.run('alone-1', plan({ name: 'alone' }, { name: 'nobody' }))).rejects.toThrow(
      'Team nobody has no released version yet, and team.base names none',
    );
    // Found out only where it was checked before.
    await expect(home.run('alone-2', plan({ name: 'alone' }, { name: 'nobody' }), { checked: true })).rejects.toThrow(
      'Team nobody has no released version yet',
    );
    const twice = plan({ name: 'same' }, { candidate: version('a', 'b') });
    await expect(home.run('same-2', twice, { checked: true })).rejects.toThrow('change agents, prompts or wiring');
  });

  it('has a rollout and a gate of a plan that trains play in its released version', async () => {
    const { policies, teams } = (await released())!;
    await home.serve('solver', policies.solver!);
    home.team.plays = ({ sample }) => ({ reward: sample });
    const running = home.run('named-1', {
      name: 'named',
      rollout: { runner: 'solver', tasks: tasks.slice(0, 2), samples: 2, team: 'pair' },
      judge: [{ method: 'grpo_advantage' }],
      policies: {
        solver: {
          base: home.base,
          recipe: { unit: 'step', credit: 'grpo_advantage' },
          train: { method: 'rl', groups: 2, learning_rate: 0.01 },
        },
      },
      gate: { kind: 'play', runner: 'solver', tasks: heldOut, samples: 1, team: 'pair', params: { calm: true } },
    });
    const { rounds } = await running;
    for (const id of ['rollout', 'gate', 'gate/incumbent'])
      expect((await home.job(`named-1/1/${id}`))!.spec.team).toMatchObject({ team_id: teams.pair });
    expect((await home.job('named-1/1/gate'))!.spec).toMatchObject({ params: { calm: true } });
    // Released is what training begins with where nothing else is said.
    expect((await home.job('named-1/1/train-solver'))!.spec.base).toContain(policies.solver!);
    expect(rounds[0]).toMatchObject({ passed: false, rollout: { stale: 0 } });
  });

  it('is compared with a release that came meanwhile by nobody, so nothing is released over it', async () => {
    const { policies } = (await released())!;
    await home.serve('solver', policies.solver!);
    home.team.plays = ({ id }) => ({ reward: id.endsWith('candidate') ? 1 : 0 });
    const running = home.run('late-1', plan({ name: 'late', gate: { kind: 'manual' } }, { candidate: version('z') }));
    await home.until('late-1/1/gate');
    const of = {
      release_id: 'by-hand',
      policies,
      teams: { other: 'other@1' },
      reason: null,
      by: 'ada',
      source: '/cli',
    };
    await recordRelease(home.context.log, { ...of, time: new Date().toISOString() });
    await waitProjected(home.context.db, { log: home.context.log });
    await decided('late-1/1/gate', true, 'Accepted by ada.');
    // A person knows what is released; the rest of the map stays.
    expect((await running).rounds[0]).toMatchObject({ release_id: 'late-1/1' });
    expect((await released())!.teams).toMatchObject({ other: 'other@1', pair: expect.stringMatching(/^pair@/) });
  });
});
