/** Plans: they take recorded episodes to a released checkpoint. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { named, nullable } from './fields.ts';
import { filterInput } from './filtered-list.ts';
import { listInput, listOf } from './lists.ts';
import { operation } from './operation.ts';
import { detach, exitOfRun, planInput, runEnd } from './plan/fields.ts';

const does = () => import('./plan/run.ts');
const prints = () => import('./plan/text.ts');

const EXAMPLE = `A plan, such as nightly.yaml:

    name: nightly
    judge: [{ method: grpo_advantage }]
    policies:
      solver:
        from: released          # base, released or last
        base: ./model           # until something is released
        recipe:
          where: { field: reward, op: ">=", value: 1 }
          roles: [solver]
          split: { held_out: 0.2, seed: 1 }
        train: { method: sft, steps: 100, batch: 8, learning_rate: 1e-3 }
    gate: { kind: offline, guardrails: { roles: 0.05 } }
    budget: { minutes: 60 }

A gate that plays tasks which nobody trains on, with candidate and incumbent:

    gate: { kind: play, runner: solver, tasks: held-out.jsonl, samples: 4, guardrails: { tokens: 1.5 } }

With a rollout each round begins with new episodes, and the recipes take only those:

    rounds: 3
    rollout: { runner: solver, tasks: tasks.jsonl, samples: 8, per_round: 64 }`;

const nightly = {
  name: 'nightly',
  policies: {
    solver: {
      recipe: { where: 'reward >= 1', split: { held_out: 0.2, seed: 1 } },
      train: { method: 'sft', steps: 100, batch: 8, learning_rate: 1e-3 },
    },
  },
  gate: { kind: 'offline' },
};
const text = nullable(Type.String());
const count = nullable(Type.Integer());
const amount = nullable(Type.Number());
const json = Type.Object({}, { additionalProperties: true });
const budget = nullable(
  Type.Object({
    ...{
      minutes: Type.Optional(Type.Number()),
      tokens: Type.Optional(Type.Integer()),
      usd: Type.Optional(Type.Number()),
    },
  }),
);
const played = nullable(
  Type.Object({
    ...{ runner: Type.String(), tasks: Type.Integer(), tasks_of_round: Type.Integer(), samples: Type.Integer() },
    iterations: Type.Integer({ description: 'how often a round plays its tasks before its gate' }),
    attempts: Type.Integer({ description: 'of a round' }),
    attempts_at_most: nullable(Type.Integer({ description: 'with all that are tried again' })),
    tasks_sha256: text,
  }),
);

export const check = operation({
  name: 'plan.check',
  about: 'show what a run would do now: stages, rows, starting weights, cost, and tasks of the gate',
  notes: `Nothing is changed. The command ends with 1 where something keeps the plan from running.\n\n${EXAMPLE}`,
  examples: [{ plan: nightly }, { plan: nightly, rounds: 3 }],
  input: planInput,
  output: Type.Object({
    plan: Type.String(),
    stages: Type.Array(Type.String(), { description: 'of a round, in order' }),
    ...{ rounds: Type.Integer(), budget },
    policies: Type.Record(
      Type.String(),
      Type.Object({
        ...{ method: Type.String(), start: nullable(json) },
        rows: nullable(
          Type.Record(Type.String(), Type.Integer(), { description: 'by split; null where they are not known yet' }),
        ),
        ...{ roles: Type.Array(Type.String()), by_role: Type.Record(Type.String(), json) },
        tokens: nullable(Type.Number({ description: 'that pass through the model in a round' })),
        minutes: nullable(Type.Number({ description: 'at the speed of the last such job here' })),
        ...{ adapter: nullable(json), memory_bytes: amount, checkpoint_bytes: amount },
      }),
    ),
    team: nullable(Type.Object({ name: Type.String(), candidate: text, incumbent: text })),
    rollout: played,
    gate: Type.Object({
      ...{ kind: Type.String(), tasks: count, tasks_wanted: count },
      gain: nullable(Type.Number({ description: 'the smallest that would pass with the chance `power`' })),
      episodes_wanted: nullable(json),
      ...{ deviation: amount, played },
    }),
    problems: Type.Array(Type.String(), { description: 'what keeps it from running' }),
    notes: Type.Array(Type.String()),
  }),
  scope: 'train',
  changes: false,
  body: true,
  run: async () => (await does()).check,
  text: async () => (await prints()).checked,
  exit: ({ problems }) => (problems.length === 0 ? EXIT.done : EXIT.failed),
});

export const run = operation({
  name: 'plan.run',
  about: 'run a plan, or resume an interrupted run of it',
  notes:
    'It begins only where `troupe plan check` finds no problem. The command ends with 0 where a candidate was released, with 7 where none passed the gate. Killed at any point, the same command goes on: stages that ended are not run again, and a training that was cut off begins again and comes to the same weights. A plan with a rollout needs the processes that the team asks: `troupe up`, or `troupe run serve` and `troupe run infer`.',
  examples: [
    { plan: nightly },
    { plan: nightly, rounds: 3, set: { seed: 2, 'policies.solver.train.steps': 200 } },
    { plan: nightly, detach: true },
  ],
  input: { ...planInput, detach },
  output: runEnd({ resumed: Type.Boolean({ description: 'it had been started before' }) }),
  scope: 'train',
  changes: true,
  long: 'Run',
  run: async () => (await does()).run,
  text: async () => (await prints()).runEndText,
  exit: exitOfRun,
});

export const list = operation({
  name: 'plan.list',
  about: 'list runs of plans, newest first',
  examples: [{}, { limit: 5, filter: 'outcome = failed' }],
  input: { ...listInput(['-requested_at', 'finished_at', 'run', 'state']), ...filterInput('state', 'outcome') },
  output: listOf(
    Type.Object({
      ...{ run: Type.String(), state: text, outcome: text },
      released: nullable(Type.Boolean({ description: 'whether a candidate was released; null before its end' })),
      ...{ requested_at: text, finished_at: text, error: Type.Unknown() },
    }),
  ),
  scope: 'read',
  changes: false,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});

const job = {
  ...{ job_id: Type.String(), kind: text, state: text, outcome: text },
  ...{ requested_at: text, started_at: text, finished_at: text, error: Type.Unknown() },
  made: nullable(Type.String({ description: 'what it made, in a few words' })),
  why: nullable(Type.String({ description: 'why it made nothing, or ended early' })),
};

export const show = operation({
  name: 'plan.show',
  about: 'show the stages and rounds of a run',
  examples: [{ run: 'nightly-1' }],
  input: { run: named('its name, such as nightly-1') },
  output: Type.Object({
    run: Type.Object({ ...job, result: Type.Unknown({ description: 'its rounds; null before its end' }) }),
    set: Type.Record(Type.String(), Type.Unknown(), { description: 'values that were set beside the plan' }),
    budget,
    spent: Type.Object({
      ...{ minutes: amount, tokens: count, usd: amount },
      uncounted: Type.Integer({ description: 'calls of unknown length' }),
      unpriced: Type.Integer({ description: 'calls of unknown price' }),
      untold: Type.Optional(
        Type.Object(
          { tokens: Type.Integer(), usd: Type.Integer() },
          { description: 'trainings by programs that reported none' },
        ),
      ),
    }),
    stages: Type.Array(
      Type.Object({
        ...job,
        gate: Type.Optional(Type.Object({}, { additionalProperties: true, description: 'the report of a gate' })),
      }),
      { description: 'in the order in which they were requested' },
    ),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await does()).show,
  text: async () => (await prints()).shown,
});

export const learning = operation({
  name: 'plan.learning',
  about: 'show how a run learns: rewards by iteration, and what its trainings report by step',
  examples: [{ run: 'nightly-1' }],
  input: { run: named('its name, such as nightly-1') },
  output: Type.Object({
    rollouts: Type.Array(Type.String(), {
      description: 'the jobs that played, in order: iteration 1 is the first; their episodes have the tag `rollout`',
    }),
    curves: Type.Array(
      Type.Object({
        policy: nullable(Type.String({ description: 'null for numbers of whole episodes' })),
        role: nullable(Type.String({ description: 'null for numbers of all roles' })),
        name: Type.String(),
        along: Type.Union([Type.Literal('iteration'), Type.Literal('step')], {
          description: 'what `at` counts: iterations of the run, or optimizer steps of the policy since the run began',
        }),
        at: Type.Array(Type.Integer()),
        values: Type.Array(amount, { description: 'null where it is unknown' }),
      }),
    ),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await does()).learning,
  text: async () => (await prints()).learnt,
});

export const schema = operation({
  name: 'plan.schema',
  about: 'print the JSON Schema of a plan',
  examples: [{}],
  input: {},
  output: json,
  scope: 'read',
  changes: false,
  alone: true,
  run: async () => (await import('./schemas.ts')).plan,
  text: async () => (await import('./schemas.ts')).printed,
});
