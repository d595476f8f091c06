import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import type { TroupeError } from '../../../errors.ts';
import { rulesOf } from '../../../trainer/loop/plan/gate-schema.ts';
import { parsePlan, parseStoredPlan, readPlan } from '../../../trainer/loop/plan/plan.ts';
import { withTasks } from '../../../trainer/loop/plan/plan-parts.ts';
import { servedPolicies } from '../../../trainer/loop/plan/plan-schema.ts';

const solver = {
  base: '/models/base',
  recipe: { where: { field: 'reward', op: '>=', value: 1 }, split: { held_out: 0.2 } },
  train: { method: 'sft', steps: 40, batch: 8, learning_rate: 0.02 },
};
const plan = (more: object = {}) => ({
  name: 'nightly',
  policies: { solver },
  gate: { kind: 'offline' },
  ...more,
});
/** A plan whose candidate is a version of a team. */
const versions = (gate: object) => ({
  name: 'prompts',
  team: { name: 'pair', candidate: { agents: [{ name: 'a', role: 'a' }] } },
  gate,
});
const rollout = { runner: 'team', tasks: [{ task_id: 'a' }, { task_id: 'b' }], samples: 2 };
const changed = (more: object) => plan({ policies: { solver: { ...solver, ...more } } });

describe('A plan', () => {
  it('is read from YAML and from JSON alike', async () => {
    expect(await readPlan(stringify(plan()))).toEqual(plan());
    expect(await readPlan(JSON.stringify(plan()))).toEqual(plan());
  });

  it('says in messages which text is no YAML', async () => {
    await expect(readPlan('{name: [', 'The plan nightly.yaml')).rejects.toThrow(
      /^The plan nightly.yaml is neither YAML nor JSON/,
    );
    // A tag that nothing here knows would leave a text where its writer meant a file.
    for (const text of ['name: !include other.yaml', '%FOO bar\n---\nname: x'])
      await expect(readPlan(text, 'The plan nightly.yaml')).rejects.toThrow(
        /^The plan nightly.yaml is neither YAML nor JSON: (Unresolved tag: !include|Unknown directive %FOO) at line 1/,
      );
  });

  it('has values that are set beside its text, by their paths, and is checked with them', async () => {
    const judge = [{ method: 'grpo_advantage' }, { method: 'majority_filter' }];
    const text = stringify(plan({ judge }));
    const read = (values: object) => readPlan(text, 'The plan', { ...values });
    expect(await read({ seed: 2, 'policies.solver.train.steps': 7, 'judge.1.method': 'well_formed_filter' })).toEqual({
      ...plan({ judge: [judge[0], { method: 'well_formed_filter' }], seed: 2 }),
      policies: { solver: { ...solver, train: { ...solver.train, steps: 7 } } },
    });
    // A map that is not there is made.
    const lora = { 'policies.solver.train.lora.r': 4, 'policies.solver.train.lora.alpha': 8 };
    expect((await read(lora)).policies.solver!.train).toMatchObject({ lora: { r: 4, alpha: 8 } });
    expect(
      await readPlan(stringify(plan({ policies: { 'v1.2': solver } })), '', { 'policies.v1.2.from': 'last' }),
    ).toMatchObject({ policies: { 'v1.2': { from: 'last' } } });
    for (const [values, why] of [
      [{ 'policies.solver.train.stepz': 7 }, 'Did you mean steps?'],
      [{ 'policies.solver.train.steps': 'many' }, 'policies.solver.train.steps'],
      [{ 'name.x': 1 }, 'name.x cannot be set: name is "nightly", which has no parts.'],
      [{ 'judge.2.method': 'x' }, 'judge.2.method cannot be set: judge has 2 elements, from 0, and no "2".'],
    ] as const)
      await expect(read(values)).rejects.toThrow(why);
  });

  it.each([
    ['a name that is not known', plan({ rouns: 2 }), 'rouns', 'rounds'],
    ['a value that is none of the choices', changed({ from: 'best' }), 'policies.solver.from', ''],
    [
      'a misspelt number of the training',
      changed({ train: { ...solver.train, step: 2 } }),
      'policies.solver.train.step',
      'steps',
    ],
    ['a method that is not there', changed({ train: { method: 'ppo' } }), 'policies.solver.train.method', 'dpo'],
    ['no base to start from', changed({ from: 'base', base: undefined }), 'policies.solver.base', 'directory'],
    [
      'an offline gate without held-out rows',
      changed({ recipe: { ...solver.recipe, split: null } }),
      'policies.solver.recipe.split',
      'held_out',
    ],
    [
      'a field of the filter',
      changed({ recipe: { where: { field: 'rewrd', op: '=', value: 1 } } }),
      'policies.solver.recipe.where.field',
      'reward',
    ],
    [
      'rl without a credit method',
      changed({ train: { method: 'rl', groups: 4, learning_rate: 1e-3 } }),
      'policies.solver.recipe.credit',
      'credit',
    ],
    [
      'a number by role that lacks a role',
      changed({
        recipe: { unit: 'step', credit: 'grpo_advantage', roles: ['coder', 'verifier'] },
        train: { method: 'rl', groups: 4, learning_rate: { coder: 1e-3 } },
      }),
      'policies.solver.train.learning_rate',
      'verifier',
    ],
    [
      'a number by role where the recipe names no roles',
      changed({
        recipe: { unit: 'step', credit: 'grpo_advantage' },
        train: { method: 'rl', groups: { coder: 4 }, learning_rate: 1e-3 },
      }),
      'policies.solver.train.groups',
      'roles',
    ],
    [
      'a value that is not among those',
      changed({ from: 'relased' }),
      'policies.solver.from',
      'one of base, released, last',
    ],
    [
      'a number that is a text',
      changed({ train: { ...solver.train, steps: 'ten' } }),
      'policies.solver.train.steps',
      'whole number',
    ],
    [
      'seconds, which the budget of a rollout has',
      plan({ budget: { seconds: 5000 } }),
      'budget.seconds',
      'It has minutes',
    ],
    [
      'a misspelt field deep inside',
      plan({ rollout: { ...rollout, budget: { token: 5 } } }),
      'rollout.budget.token',
      'Did you mean tokens',
    ],
    ['a kind of gate', plan({ gate: { kind: 'canry' } }), 'gate.kind', 'offline'],
    [
      'a guardrail that only a gate that plays has',
      plan({ gate: { kind: 'offline', guardrails: { tokens: 2 } } }),
      'gate.guardrails.tokens',
      'families',
    ],
    ['a misspelt field of the watch', plan({ watch: { metric: 'reward', fal: 0.1 } }), 'watch.fal', 'fall'],
    [
      'a range of the watch that is none',
      plan({ watch: { metric: 'reward', fall: 0.1, range: [1, 0] } }),
      'watch.range',
      'greater',
    ],
    [
      'a range of the watch of one value',
      plan({ watch: { metric: 'reward', fall: 0.1, range: [0.5, 0.5] } }),
      'watch.range',
      'greater',
    ],
    [
      'a gate that plays a team by its name, in a plan whose versions of a team play',
      versions({ kind: 'play', ...rollout, team: 'pair' }),
      'gate.team',
      'whose two versions play',
    ],
    [
      'a task that the gate has twice',
      plan({ gate: { kind: 'play', runner: 'team', tasks: [{ task_id: 'a' }, { task_id: 'a' }], samples: 1 } }),
      'gate.tasks',
      'stands twice',
    ],
    ['no policy', plan({ policies: {} }), 'policies', ''],
    ['a misspelt field of the rollout', plan({ rollout: { ...rollout, sample: 2 } }), 'rollout.sample', 'samples'],
    [
      'a task that stands twice',
      plan({ rollout: { ...rollout, tasks: [{ task_id: 'a' }, { task_id: 'a' }] } }),
      'rollout.tasks',
      'stands twice',
    ],
    ['more tasks a round than it has', plan({ rollout: { ...rollout, per_round: 3 } }), 'rollout.per_round', '2'],
    [
      'a pass by a policy that is not of the plan',
      plan({ passes: [{ pass: 'reference', policy: 'critic' }] }),
      'passes.0.policy',
      'solver',
    ],
    [
      'a pass by nobody',
      plan({ passes: [{ pass: 'ifd', as: 'small' }] }),
      'passes.0.policy',
      'one of policy and model',
    ],
    [
      'a pass that does not say which of two models it is',
      plan({ passes: [{ pass: 'ifd', model: 'large' }] }),
      'passes.0.as',
      'small or large',
    ],
    [
      'a model that does not learn where one that does is meant',
      plan({ passes: [{ pass: 'reference', model: 'large' }] }),
      'passes.0.model',
      'policy of the plan',
    ],
    [
      'a critic at an offline gate',
      changed({ train: { method: 'value', of: 'state', steps: 4, batch: 2, learning_rate: 1e-3 } }),
      'gate.kind',
      'values',
    ],
    [
      'a misspelt number of an adapter',
      changed({ train: { ...solver.train, lora: { r: 8, alfa: 16 } } }),
      'policies.solver.train.lora.alfa',
      'alpha',
    ],
    [
      'an adapter without a rank',
      changed({ train: { ...solver.train, lora: { alpha: 16 } } }),
      'policies.solver.train.lora',
      'should have r',
    ],
    [
      'an adapter of a program',
      changed({ train: { engine: 'command', use: 'trl', lora: { r: 8, alpha: 16 } } }),
      'policies.solver.train.lora',
      'params',
    ],
    [
      'an adapter below a head',
      changed({
        train: { method: 'value', of: 'state', steps: 4, batch: 2, learning_rate: 1e-3, lora: { r: 8, alpha: 16 } },
      }),
      'policies.solver.train.lora',
      'all layers below',
    ],
    [
      'a repair beside an answer',
      plan({
        rollout: {
          ...rollout,
          branches: [{ where: 'reward = 0', samples: 1, repair: { runner: 'critic' }, answer: '4' }],
        },
      }),
      'rollout.branches.0.answer',
      'should have no answer',
    ],
    ['a hash of other tasks', plan({ rollout: { ...rollout, tasks_sha256: 'ab' } }), 'rollout.tasks_sha256', 'hash'],
  ])('with %s is refused, with the path and what was meant', async (_, value, field, meant) => {
    let error: TroupeError | null = null;
    try {
      await parsePlan(value);
    } catch (thrown) {
      error = thrown as TroupeError;
    }
    expect([error?.code, error?.detail.field]).toEqual(['plan_invalid', field]);
    expect(JSON.stringify([error?.message, error?.detail])).toContain(meant);
  });

  it('may train an adapter by each method of a language model', async () => {
    const lora = { r: 8, alpha: 16, targets: ['q_proj', 'v_proj'] };
    const rows = { unit: 'step', credit: 'grpo_advantage' };
    for (const [recipe, train] of [
      [solver.recipe, { ...solver.train, lora }],
      [{ unit: 'pair' }, { method: 'dpo', steps: 4, batch: 2, learning_rate: 1e-3, lora }],
      [rows, { method: 'rl', groups: 4, learning_rate: 1e-3, lora: { r: 1, alpha: 0.5 } }],
    ])
      expect(
        (await parsePlan({ ...changed({ recipe, train }), gate: { kind: 'manual' } })).policies.solver!.train,
      ).toEqual(train);
  });

  it('with a team may have a gate that plays its two versions, or a range of two values', async () => {
    expect((await parsePlan(versions({ kind: 'play', ...rollout }))).gate.kind).toBe('play');
    const canary = { kind: 'canary', share: 0.5, metric: 'reward', range: [0, 0.5], hours: 1 };
    expect((await parsePlan(versions(canary))).gate).toMatchObject({ range: [0, 0.5] });
  });

  it.each([
    [{ method: 'grpo_advantag' }, 'judge.1.method', 'Did you mean grpo_advantage?'],
    [{ method: 'drmas_advantage', reads: 'rema_rewards' }, 'judge.1.reads', 'Did you mean rema_reward?'],
    [{ method: 'grpo_advantage', params: { eps: 'small' } }, 'judge.1.params.eps', 'should be number'],
    // It is run, but after the method that reads it.
    [{ method: 'drmas_advantage', reads: 'rema_reward' }, 'judge.1', 'not among the methods before it'],
  ])('that judges by %j is refused with its place and what was meant', async (asked, field, meant) => {
    const judge = [{ method: 'majority_filter' }, asked, { method: 'rema_reward' }];
    const rollout = { runner: 'team', tasks: [{ task_id: 'a' }], samples: 1 };
    const writers = { runner: 'writers', samples: 1, judge, accept: 'reward > 0' };
    for (const [value, at] of [
      [plan({ judge }), field],
      [plan({ rollout: { ...rollout, writers } }), `rollout.writers.${field}`],
    ] as const) {
      const error: TroupeError = await parsePlan(value).then(
        () => expect.fail('was accepted'),
        (thrown) => thrown,
      );
      expect(error.detail.field).toBe(at);
      expect(error.message).toContain(`${at}: `);
      expect(error.message).toContain(meant);
    }
  });

  it('that learns from rows which are not all good needs rows of its own for an offline gate', async () => {
    const dpo = { ...solver, train: { method: 'dpo', steps: 4, batch: 2, learning_rate: 1e-3 } };
    await expect(parsePlan(plan({ policies: { solver: dpo } }))).rejects.toThrow('gate.recipe');
    const gate = { kind: 'offline', recipe: solver.recipe };
    expect((await parsePlan(plan({ policies: { solver: dpo }, gate }))).gate).toEqual(gate);
    expect((await parsePlan(plan({ policies: { solver: dpo }, gate: { kind: 'manual' } }))).gate.kind).toBe('manual');
  });

  it('with a rollout names a file of tasks as people write it, and holds the tasks where it is run', async () => {
    const asWritten = await parsePlan(plan({ rollout: { ...rollout, tasks: 'tasks.jsonl' } }));
    await expect(parseStoredPlan(asWritten)).rejects.toThrow('it is the file "tasks.jsonl"');
    const stored = withTasks(asWritten, () => rollout.tasks);
    // printf '[{"task_id":"a"},{"task_id":"b"}]' | sha256sum
    expect(stored.rollout?.tasks_sha256).toBe('df54113dd2024fba4ff6a77eb56bd35a3a3ef5fc1331b84945e66beb3754a820');
    expect(await parseStoredPlan(JSON.parse(JSON.stringify(stored)))).toEqual(stored);
  });

  it('with a gate that plays holds its tasks where it is run, and reaches guardrails on tokens, latency and money', async () => {
    const gate = {
      kind: 'play',
      runner: 'team',
      tasks: 'held-out.jsonl',
      samples: 2,
      guardrails: { tokens: 1.5, usd: 2 },
    };
    const asWritten = await parsePlan(plan({ gate }));
    await expect(parseStoredPlan(asWritten)).rejects.toThrow('gate.tasks should be the tasks as a list');
    const stored = await parseStoredPlan(withTasks(asWritten, () => rollout.tasks));
    expect(stored.gate).toEqual({
      ...gate,
      tasks: rollout.tasks,
      tasks_sha256: 'df54113dd2024fba4ff6a77eb56bd35a3a3ef5fc1331b84945e66beb3754a820',
    });
    expect(rulesOf(stored.gate as never).guardrails).toEqual({
      roles: null,
      families: null,
      tokens: 1.5,
      latency: null,
      usd: 2,
    });
  });

  it('with a critic has all but the critic answer the team; a judge that no pass reads answers as well', async () => {
    const value = { method: 'value', of: 'state', steps: 4, batch: 2, learning_rate: 1e-3 };
    const policies = { solver, critic: { ...solver, recipe: { unit: 'step' }, train: value } };
    const passes = [
      { pass: 'value-of-state', policy: 'critic' },
      { pass: 'masked', policy: 'solver' },
    ];
    const gate = { kind: 'manual' };
    expect(servedPolicies(await parsePlan(plan({ policies, passes, gate })))).toEqual(['solver']);
    expect(servedPolicies(await parsePlan(plan({ policies, gate })))).toEqual(['solver', 'critic']);
  });

  it('that says nothing of its gate asks for better at the level 0.95, without guardrails', () => {
    expect(rulesOf({ kind: 'offline' })).toEqual({
      accept: 'better',
      margin: 0,
      level: 0.95,
      guardrails: { roles: null, families: null, tokens: null, latency: null },
    });
  });
});
