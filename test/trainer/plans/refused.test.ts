import { describe, expect, it } from 'vitest';
import type { TroupeError } from '../../../errors.ts';
import { canaryRulesOf, rulesOf } from '../../../trainer/loop/plan/gate-schema.ts';
import { parsePlan, parseStoredPlan, readPlan } from '../../../trainer/loop/plan/plan.ts';
import { withTasks, withTeam } from '../../../trainer/loop/plan/plan-parts.ts';
import { withValues } from '../../../trainer/loop/plan/plan-values.ts';

const sft = { method: 'sft', steps: 4, batch: 8, learning_rate: 0.02 };
const solver = { base: '/models/base', recipe: { where: 'reward >= 1', split: { held_out: 0.2 } }, train: sft };
const manual = { kind: 'manual' };
const plan = (more: object = {}) => ({ name: 'nightly', policies: { solver }, gate: manual, ...more });
const trained = (train: object, recipe: object = { unit: 'step', credit: 'grpo_advantage' }) =>
  plan({ policies: { solver: { ...solver, recipe, train } } });
const tasks = [{ task_id: 'a' }, { task_id: 'b' }];
const rollout = { runner: 'team', tasks, samples: 2 };
const playing = (more: object) => plan({ rollout: { ...rollout, ...more } });
const play = { kind: 'play', ...rollout };
const version = { agents: [{ name: 'a', role: 'a' }] };
const team = (more: object = {}, of: object = {}) => ({
  ...{ name: 'prompts', team: { name: 'pair', candidate: version, ...of }, gate: play },
  ...more,
});
const pruned = (more: object = {}, prune: object = { by: 'dylan_importance', keep: 1 }) =>
  team({ rollout, judge: [{ method: 'dylan_importance' }], ...more }, { candidate: undefined, prune });
const refused = async (value: unknown): Promise<TroupeError> =>
  parsePlan(JSON.parse(JSON.stringify(value))).then(
    () => expect.fail('was accepted'),
    (error) => error,
  );

describe('A plan is refused with the path of what is wrong', () => {
  it.each<[why: string, value: object, field: string, meant: string]>([
    ['a name with a space', plan({ name: 'a b' }), 'name', ''],
    ['a name that begins with a dot', plan({ name: '.a' }), 'name', ''],
    ['a seed below 0', plan({ seed: -1 }), 'seed', ''],
    ['no round', plan({ rounds: 0 }), 'rounds', ''],
    ['half a round', plan({ rounds: 1.5 }), 'rounds', ''],
    ['a policy of another name', plan({ policies: { 'a b': solver } }), 'policies.a b', ''],
    ['an empty base', plan({ policies: { solver: { ...solver, base: '' } } }), 'policies.solver.base', ''],
    [
      'a misspelt field of a policy',
      plan({ policies: { solver: { ...solver, bse: 'x' } } }),
      'policies.solver.bse',
      'base',
    ],
    ['a misspelt method', plan({ judge: [{ method: 'x', parms: {} }] }), 'judge.0.parms', 'params'],
    ['no minutes', plan({ budget: { minutes: 0 } }), 'budget.minutes', ''],
    ['half a token', plan({ budget: { tokens: 0.5 } }), 'budget.tokens', ''],
    ['no tokens', plan({ budget: { tokens: 0 } }), 'budget.tokens', ''],
    ['no dollars', plan({ budget: { usd: 0 } }), 'budget.usd', ''],
    ['an empty budget', plan({ budget: {} }), 'budget', ''],
    ['a pass that is none', plan({ passes: [{ pass: 'refernce', policy: 'solver' }] }), 'passes.0.pass', 'reference'],
    [
      'a misspelt field of a pass',
      plan({ passes: [{ pass: 'reference', polcy: 'solver' }] }),
      'passes.0.polcy',
      'policy',
    ],
    [
      'a pass by two',
      plan({ passes: [{ pass: 'ifd', policy: 'solver', model: 'm', as: 'large' }] }),
      'passes.0.policy',
      'one of policy and model',
    ],
    [
      'a pass of one model as one of two',
      plan({ passes: [{ pass: 'reference', policy: 'solver', as: 'large' }] }),
      'passes.0.as',
      'left out',
    ],
    // The rollout.
    ['no task of a round', playing({ per_round: 0 }), 'rollout.per_round', ''],
    ['no iteration', playing({ iterations: 0 }), 'rollout.iterations', ''],
    ['a thousand iterations', playing({ iterations: 1000 }), 'rollout.iterations', ''],
    ['no sample', playing({ samples: 0 }), 'rollout.samples', ''],
    ['no branch', playing({ branches: [] }), 'rollout.branches', ''],
    [
      'a hundred branches',
      playing({ branches: Array(100).fill({ where: 'reward = 0', samples: 1 }) }),
      'rollout.branches',
      '',
    ],
    ['a branch from nowhere', playing({ branches: [{ samples: 1 }] }), 'rollout.branches.0', 'where'],
    [
      'a branch from one episode',
      playing({ branches: [{ where: 'reward = 0', samples: 1, episode_id: 'e' }] }),
      'rollout.branches.0.episode_id',
      '',
    ],
    [
      'a field of a branch that is none',
      playing({ branches: [{ where: 'reward = 0', samples: 1, repair: { runer: 'x' } }] }),
      'rollout.branches.0.repair.runer',
      'runner',
    ],
    [
      'a repair beside a fault',
      playing({ branches: [{ where: 'reward = 0', samples: 1, repair: { runner: 'x' }, skip: true }] }),
      'rollout.branches.0.skip',
      'no skip',
    ],
    [
      'a branch that skips and answers',
      playing({ branches: [{ where: 'reward = 0', samples: 1, answer: 'x', skip: true }] }),
      'rollout.branches.0',
      '',
    ],
    ['a setting that is a map', playing({ params: { a: {} } }), 'rollout.params.a', ''],
    ['a setting without a value', playing({ params: { a: [] } }), 'rollout.params.a', ''],
    ['no time to be served', playing({ serving_within_s: 0 }), 'rollout.serving_within_s', ''],
    ['no file of tasks', playing({ tasks: '' }), 'rollout.tasks', ''],
    ['writers that accept nothing', playing({ writers: { runner: 'w', samples: 1 } }), 'rollout.writers', 'accept'],
    [
      'writers of no task',
      playing({ writers: { runner: 'w', samples: 1, accept: 'reward > 0', at_most: 0 } }),
      'rollout.writers.at_most',
      '',
    ],
    [
      'a misspelt field of writers',
      playing({ writers: { runner: 'w', samples: 1, accept: 'reward > 0', most: 1 } }),
      'rollout.writers.most',
      'at_most',
    ],
    [
      'writers accepted by single steps',
      playing({ writers: { runner: 'w', samples: 1, accept: 'role = solver' } }),
      'rollout.writers.accept',
      'no field of single steps',
    ],
    // Trainings.
    ['sft without steps', trained({ method: 'sft' }), 'policies.solver.train', 'steps'],
    ['no step', trained({ ...sft, steps: 0 }), 'policies.solver.train.steps', ''],
    ['no learning rate', trained({ ...sft, learning_rate: 0 }), 'policies.solver.train.learning_rate', ''],
    ['no batch', trained({ ...sft, batch: 0 }), 'policies.solver.train.batch', ''],
    ['a warm-up below 0', trained({ ...sft, warmup: -1 }), 'policies.solver.train.warmup', ''],
    ['a moment above 1', trained({ ...sft, beta2: 1.1 }), 'policies.solver.train.beta2', ''],
    ['a decay below 0', trained({ ...sft, weight_decay: -0.1 }), 'policies.solver.train.weight_decay', ''],
    ['a loss of another method', trained({ ...sft, loss: 'grpo' }), 'policies.solver.train.loss', 'sequence-mean'],
    [
      'dpo with steps by role',
      trained({ method: 'dpo', steps: { solver: 2 } }, { unit: 'pair' }),
      'policies.solver.train.steps',
      '',
    ],
    [
      'dpo that the reference does not hold',
      trained({ method: 'dpo', steps: 2, beta: 0 }, { unit: 'pair' }),
      'policies.solver.train.beta',
      '',
    ],
    [
      'dpo with labels that say nothing',
      trained({ method: 'dpo', steps: 2, label_smoothing: 0.6 }, { unit: 'pair' }),
      'policies.solver.train.label_smoothing',
      '',
    ],
    ['rl without a group in a step', trained({ method: 'rl', groups: 0 }), 'policies.solver.train.groups', ''],
    ['rl that pays for nothing', trained({ method: 'rl', entropy: -1 }), 'policies.solver.train.entropy', ''],
    ['rl in no pass', trained({ method: 'rl', epochs: 0 }), 'policies.solver.train.epochs', ''],
    ['rl with steps', trained({ method: 'rl', steps: 4 }), 'policies.solver.train.steps', ''],
    [
      'rl with entropy of a role that is none',
      trained({ method: 'rl', entropy: { a: 1 } }, { unit: 'step', credit: 'grpo_advantage', roles: ['a', 'b'] }),
      'policies.solver.train.entropy',
      'no number for the role "b"',
    ],
    [
      'rl with groups by role and rows of any',
      trained({ method: 'rl', groups: { a: 1 } }),
      'policies.solver.train.groups',
      'should name its roles',
    ],
    [
      'rl over pairs',
      trained({ method: 'rl' }, { unit: 'pair', credit: 'grpo_advantage' }),
      'policies.solver.recipe.unit',
      'rl learns from steps',
    ],
    ['sft over episodes', trained(sft, { unit: 'episode' }), 'policies.solver.recipe.unit', 'sft learns from steps'],
    [
      'values over episodes',
      trained({ method: 'value', of: 'state', steps: 2 }, { unit: 'episode' }),
      'policies.solver.recipe.unit',
      'value learns from steps',
    ],
    ['values of what is none', trained({ method: 'value', of: 'stat', steps: 2 }), 'policies.solver.train.of', 'state'],
    ['a program of no name', trained({ engine: 'command', use: '' }), 'policies.solver.train.use', ''],
    [
      'a program with a layout that is none',
      trained({ engine: 'command', use: 'trl', layout: 'trl-sftt' }),
      'policies.solver.train.layout',
      'trl-sft',
    ],
    // Gates.
    ['a level of a coin', plan({ gate: { kind: 'offline', level: 0.5 } }), 'gate.level', ''],
    ['a level that nothing reaches', plan({ gate: { kind: 'offline', level: 1 } }), 'gate.level', ''],
    ['a gain of nothing', plan({ gate: { kind: 'offline', find: 0 } }), 'gate.find', ''],
    ['a chance that is certain', plan({ gate: { kind: 'offline', power: 1 } }), 'gate.power', ''],
    ['a margin below 0', plan({ gate: { kind: 'offline', margin: -1 } }), 'gate.margin', ''],
    ['a verdict that is none', plan({ gate: { kind: 'offline', accept: 'worse' } }), 'gate.accept', 'not_worse'],
    [
      'a guardrail below 0',
      plan({ gate: { kind: 'offline', guardrails: { roles: -1 } } }),
      'gate.guardrails.roles',
      '',
    ],
    ['a factor of nothing', plan({ gate: { ...play, guardrails: { tokens: 0 } } }), 'gate.guardrails.tokens', ''],
    ['a misspelt guardrail', plan({ gate: { ...play, guardrails: { token: 2 } } }), 'gate.guardrails.token', 'tokens'],
    [
      'a gate that has a hash of other tasks',
      plan({ gate: { ...play, tasks_sha256: 'ab' } }),
      'gate.tasks_sha256',
      'hash of the tasks',
    ],
    ['a canary that all answer', plan({ gate: { kind: 'canary', share: 1, metric: 'reward' } }), 'gate.share', ''],
    ['a canary that nobody answers', plan({ gate: { kind: 'canary', share: 0, metric: 'reward' } }), 'gate.share', ''],
    [
      'a canary of one episode',
      plan({ gate: { kind: 'canary', share: 0.5, metric: 'reward', at_least: 1 } }),
      'gate.at_least',
      '',
    ],
    [
      'a canary of another metric',
      plan({ gate: { kind: 'canary', share: 0.5, metric: 'rewrd' } }),
      'gate.metric',
      'reward',
    ],
    [
      'a canary with a range of nothing',
      plan({ gate: { kind: 'canary', share: 0.5, metric: 'reward', range: [1, 1] } }),
      'gate.range',
      'least and a greater value',
    ],
    [
      'a canary of no hours',
      plan({ gate: { kind: 'canary', share: 0.5, metric: 'reward', hours: 0 } }),
      'gate.hours',
      '',
    ],
    ['a person with rules', plan({ gate: { kind: 'manual', level: 0.9 } }), 'gate.level', ''],
    [
      'an offline gate over pairs',
      { ...trained({ method: 'dpo', steps: 2 }, { unit: 'pair' }), gate: { kind: 'offline' } },
      'gate.recipe',
      'compares steps',
    ],
    [
      'an offline gate over what rl learns from',
      { ...trained({ method: 'rl' }), gate: { kind: 'offline' } },
      'gate.recipe',
      'not all good',
    ],
    [
      'an offline gate with nothing held out',
      { ...trained(sft, { split: { held_out: 0 } }), gate: { kind: 'offline' } },
      'policies.solver.recipe.split',
      'held_out: 0.2',
    ],
    [
      'an offline gate with a split that holds nothing out',
      { ...trained(sft, { split: { validation: 0.2 } }), gate: { kind: 'offline' } },
      'policies.solver.recipe.split',
      'held_out',
    ],
    // Teams.
    ['a team of no name', team({}, { name: '' }), 'team.name', ''],
    [
      'a team with neither candidate nor prune',
      team({}, { candidate: undefined }),
      'team.candidate',
      'one of candidate and prune',
    ],
    ['a team with both', team({}, { prune: { by: 'x', keep: 1 } }), 'team.candidate', 'one of candidate and prune'],
    ['a team beside policies', team({ policies: { solver } }), 'policies', 'trains nothing'],
    ['a team beside passes', team({ passes: [] }), 'passes', 'trains nothing'],
    ['a team beside a rollout', team({ rollout }), 'rollout', 'trains nothing'],
    ['a team beside methods', team({ judge: [] }), 'judge', 'trains nothing'],
    ['a team in two rounds', team({ rounds: 2 }), 'rounds', 'one round'],
    ['a team at an offline gate', team({ gate: { kind: 'offline' } }), 'gate.kind', 'compares weights'],
    ['a version that is empty', team({}, { candidate: {} }), 'team.candidate', 'it is empty'],
    ['a base whose agents are none', team({}, { base: { agents: 'a' } }), 'team.base', 'list of objects'],
    ['a pruned team without a rollout', pruned({ rollout: undefined }), 'rollout', 'should have a rollout'],
    [
      'a pruned team with iterations',
      pruned({ rollout: { ...rollout, iterations: 2 } }),
      'rollout.iterations',
      'no iterations',
    ],
    [
      'a pruned team with branches',
      pruned({ rollout: { ...rollout, branches: [{ where: 'reward = 0', samples: 1 }] } }),
      'rollout.branches',
      'no branches',
    ],
    [
      'a pruned team with writers',
      pruned({ rollout: { ...rollout, writers: { runner: 'w', samples: 1, accept: 'reward > 0' } } }),
      'rollout.writers',
      'no writers',
    ],
    ['a pruned team of another team', pruned({ rollout: { ...rollout, team: 'pair' } }), 'rollout.team', 'no team'],
    [
      'a pruned team that nothing judges',
      pruned({ judge: undefined }),
      'team.prune.by',
      'should run that method, once',
    ],
    [
      'a pruned team that is judged twice',
      pruned({ judge: [{ method: 'dylan_importance' }, { method: 'dylan_importance' }] }),
      'team.prune.by',
      'once',
    ],
    ['a team of nobody', pruned({}, { by: 'dylan_importance', keep: 0 }), 'team.prune.keep', ''],
    ['a watch over nothing', plan({ watch: { metric: 'reward', fall: -1 } }), 'watch.fall', ''],
  ])('%s', async (_, value, field, meant) => {
    const { code, message, detail } = await refused(value);
    expect([code, detail.field]).toEqual(['plan_invalid', field]);
    expect(JSON.stringify([message, detail]).replaceAll('\\"', '"')).toContain(meant);
  });

  it('also where a filter of its tasks is none', async () => {
    const { detail, message } = await refused(plan({ gate: { ...play, tasks: { where: 'task_idd = a' } } }));
    expect([detail.field, message]).toEqual(['gate.tasks.where.field', expect.stringContaining('task_id')]);
  });

  it('which is accepted once it is right', async () => {
    for (const value of [
      plan({ seed: 0, rounds: 1, budget: { minutes: 0.5, tokens: 1, usd: 0.01 } }),
      playing({ per_round: 2, iterations: 999, params: { turns: [1, 2], calm: true }, serving_within_s: 1 }),
      playing({
        branches: [
          { where: 'reward = 0', samples: 1, repair: { runner: 'x' } },
          { where: 'reward = 0', samples: 1, skip: true },
        ],
      }),
      playing({ writers: { runner: 'w', samples: 1, accept: { field: 'reward', op: '>', value: 0 }, at_most: 1 } }),
      playing({ tasks: { where: 'task_id = a' } }),
      trained({ ...sft, steps: { solver: 0 }, warmup: 0, beta1: 0, beta2: 1, weight_decay: 0, clip: 0, entropy: 0 }),
      trained(
        { method: 'rl', groups: { a: 1, b: 2 }, kl: 0, epochs: 1 },
        { unit: 'step', credit: 'grpo_advantage', roles: ['a', 'b'] },
      ),
      trained({ method: 'value', of: 'answer', steps: 1 }),
      trained({ engine: 'command', use: 'trl', layout: 'trl-sft', params: { a: { b: 1 } } }, { unit: 'episode' }),
      { ...plan(), gate: { kind: 'offline' } },
      { ...trained({ method: 'dpo', steps: 2 }, { unit: 'pair' }), gate: { kind: 'offline', recipe: solver.recipe } },
      plan({ gate: { kind: 'canary', share: 0.5, metric: 'success', range: [-1, 0], at_least: 2, bake_hours: 0 } }),
      team({}, { base: version }),
      pruned(),
    ]) {
      const written = JSON.parse(JSON.stringify(value));
      // What was left out stays so, but that there are policies, which may be none.
      expect(await parsePlan(written)).toEqual({ policies: {}, ...written });
    }
  });
});

describe('The text of a plan', () => {
  it('that is no YAML is named in one line, as what it is', async () => {
    const { code, detail, message } = await readPlan('name: [a').then(
      () => expect.fail('was accepted'),
      (error) => error,
    );
    expect([code, detail.field]).toEqual(['plan_invalid', 'plan']);
    expect(message).toMatch(/^The plan is neither YAML nor JSON: [^\n]+[^:]\.$/);
  });

  it('takes values by their paths, into lists and maps that are there or not', () => {
    const at = (values: object, into: unknown = { a: [{ b: 1 }, 2], 'x.y': { z: 1 } }) =>
      withValues(into, { ...values });
    expect(at({ 'a.0.b': 3, 'a.1': 4 })).toEqual({ a: [{ b: 3 }, 4], 'x.y': { z: 1 } });
    expect(at({ 'x.y.z': 2, 'n.m.o': null })).toEqual({ a: [{ b: 1 }, 2], 'x.y': { z: 2 }, n: { m: { o: null } } });
    expect(withValues(undefined, { 'a.0.c': 1 })).toEqual({ a: { 0: { c: 1 } } });
    for (const [path, why] of [
      ['a.2', 'a.2 cannot be set: a has 2 elements, from 0, and no "2".'],
      ['a.-1', 'a.-1 cannot be set: a has 2 elements, from 0, and no "-1".'],
      ['a.1.b', 'a.1.b cannot be set: a.1 is 2, which has no parts.'],
    ] as const)
      expect(() => at({ [path]: 1 })).toThrow(expect.objectContaining({ message: why, detail: { field: path } }));
    expect(() => at({ a: 1 }, 'text')).toThrow('a cannot be set: the plan is "text", which has no parts.');
  });
});

describe('A plan that is run', () => {
  it('holds its tasks and the versions of its team itself', async () => {
    for (const [value, why] of [
      [playing({ tasks: 'tasks.jsonl' }), 'rollout.tasks should be the tasks as a list'],
      [plan({ gate: { ...play, tasks: 'tasks.jsonl' } }), 'gate.tasks should be the tasks as a list'],
      [team({}, { candidate: 'a.yaml' }), 'team.candidate should be the version itself'],
      [team({}, { base: 'b.yaml' }), 'team.base should be the version itself'],
    ] as const)
      await expect(parseStoredPlan(value)).rejects.toThrow(why);
    const files = await parsePlan(
      team({ gate: { ...play, tasks: 'tasks.jsonl' } }, { candidate: 'a.yaml', base: 'b.yaml' }),
    );
    const read: string[] = [];
    const filled = withTeam(
      withTasks(files, (file) => {
        read.push(file);
        return tasks;
      }),
      (file) => {
        read.push(file);
        return { ...version, file };
      },
    );
    expect(read).toEqual(['tasks.jsonl', 'a.yaml', 'b.yaml']);
    expect(await parseStoredPlan(filled)).toMatchObject({
      team: { name: 'pair', candidate: { file: 'a.yaml' }, base: { file: 'b.yaml' } },
      gate: { tasks, tasks_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
    expect(() => withTeam(files, () => ['a'])).toThrow('The file a.yaml should hold a version of a team as an object');
    // What stands in the plan is not read again, and a filter stays one.
    const whole = await parsePlan(team({}, { base: version }));
    const never = () => expect.fail('a file was read');
    expect(withTeam(whole, never)).toEqual(whole);
    const stored = await parsePlan(playing({ tasks: { where: 'task_id = a' } }));
    expect(withTasks(stored, never)).toEqual(stored);
    expect(withTeam(stored, never)).toBe(stored);
  });
});

describe('The rules of a gate', () => {
  it('are those of the plan, and what it leaves out', () => {
    const guardrails = { roles: 0.1, families: 0.2, tokens: 1.5, latency: 2, usd: 3 };
    const own = { accept: 'not_worse', margin: 0.1, level: 0.9 } as const;
    const canary = { kind: 'canary', share: 0.1, metric: 'reward' } as const;
    expect(rulesOf({ kind: 'play', ...rollout, ...own, guardrails })).toEqual({ ...own, guardrails });
    const none = { roles: null, families: null, tokens: null, latency: null };
    expect(canaryRulesOf(canary)).toEqual({
      ...{ accept: 'better', margin: 0, level: 0.95, guardrails: none, share: 0.1, metric: 'reward', range: [0, 1] },
      ...{ at_least: 100, bake_hours: 1, hours: 168, at_most: 200_000, unknown: 0.1 },
    });
    const asked = { range: [-1, 2], at_least: 5, bake_hours: 0, hours: 2, at_most: 9 };
    expect(canaryRulesOf({ ...canary, ...own, ...asked, guardrails: { ...guardrails, unknown: 0 } })).toEqual({
      ...{ ...own, ...asked, guardrails, share: 0.1, metric: 'reward', unknown: 0 },
    });
  });
});
