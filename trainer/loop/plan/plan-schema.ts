/**
 * A plan defines how a model is retrained, on one page: which methods evaluate the recorded episodes, which rows each policy learns from,
 * how it is trained, from which weights, how many rounds, and what a candidate has to show before it is released. It is plain data.
 */
import { type Static, Type } from 'typebox';
import { WatchRules } from '../../../store/loop/comparison/watch.ts';
import { ReplayRequest } from '../../../store/loop/play/replay.ts';
import { RolloutSpec, type RolloutTask, type TasksWhere } from '../../../store/loop/play/rollout.ts';
import { PASS_AS, PASS_NAMES } from '../../sample/passes.ts';
import { Canary, Manual, Offline, PlanRecipe, Play, PlayedTasks } from './gate-schema.ts';
import { count, Name, strict } from './schema-numbers.ts';
import { Dpo, Program, Rl, Sft, Value } from './train-schema.ts';

export const Policy = Type.Object(
  {
    from: Type.Optional(
      Type.Enum(['base', 'released', 'last'], {
        description:
          'starting weights: base, the directory below · released, what the policy was given last · last, its newest checkpoint. released and last fall back to base where there is none yet. released if left out',
      }),
    ),
    base: Type.Optional(Type.String({ minLength: 1, description: 'directory of a model, relative to the plan' })),
    recipe: PlanRecipe,
    train: Type.Union([Sft, Dpo, Rl, Value, Program]),
  },
  strict,
);

/** A replay of what a round has played so far. */
const Branch = Type.Object(
  {
    ...Type.Required(Type.Pick(ReplayRequest, ['where'])).properties,
    ...Type.Omit(ReplayRequest, ['where', 'episode_id', 'from']).properties,
    samples: RolloutSpec.properties.samples,
    repair: Type.Optional(
      Type.Object(
        { runner: RolloutSpec.properties.runner },
        {
          ...strict,
          description:
            'a runner that gets the task of each step, with its output in failed, and returns the output that should replace it. Without a step that fits the branch is left out',
        },
      ),
    ),
  },
  {
    ...strict,
    description:
      'plays on from each step that fits where, among the episodes of the round so far, samples times: they are a group. The fields of a replay change the step',
  },
);

const Judged = Type.Array(
  Type.Object(
    {
      method: Type.String({ minLength: 1 }),
      params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      reads: Type.Optional(Type.String({ description: 'reward method whose rewards a credit method takes' })),
    },
    strict,
  ),
  { description: 'methods run over the recorded episodes before the datasets are frozen' },
);

/** Who writes the tasks of a round. */
export const Writers = Type.Object(
  {
    runner: RolloutSpec.properties.runner,
    samples: RolloutSpec.properties.samples,
    judge: Type.Optional({ ...Judged, description: 'methods run over the episodes of the writers' }),
    accept: Type.Union([Type.String({ minLength: 1 }), Type.Record(Type.String(), Type.Unknown())], {
      description: 'filter over the episodes of the writers: the answer of each that fits is a task, as a JSON object',
    }),
    at_most: count('tasks of a round that are taken, in the order of the episodes that wrote them; all if left out'),
  },
  {
    ...strict,
    description:
      'a runner plays the tasks of the rollout first, and what it wrote in the answers of the accepted episodes is what the rollout plays',
  },
);

const Setting = Type.Union([Type.String(), Type.Number(), Type.Boolean()]);
export const Rollout = Type.Object(
  {
    ...PlayedTasks,
    per_round: count('tasks of a round, drawn by its seed; all if left out'),
    iterations: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 999,
        description:
          'how often a round plays, judges, freezes and trains before its gate, each time with the weights that were trained last; 1',
      }),
    ),
    writers: Type.Optional(Writers),
    deadline_s: RolloutSpec.properties.deadline_s,
    params: Type.Optional(
      Type.Record(Type.String(), Type.Union([Setting, Type.Array(Setting, { minItems: 1 })]), {
        description:
          'settings of the team (TROUPE_PARAMS); a list has one value for each round, and the last one holds for all that follow',
      }),
    ),
    budget: RolloutSpec.properties.budget,
    max_staleness: RolloutSpec.properties.max_staleness,
    branches: Type.Optional(
      Type.Array(Branch, {
        minItems: 1,
        maxItems: 99,
        description: 'how the episodes grow into trees, one level after another',
      }),
    ),
  },
  { ...strict, description: 'a runner plays tasks at the beginning of each round, and the recipes take its episodes' },
);

const Definition = Type.Union([Type.String({ minLength: 1 }), Type.Record(Type.String(), Type.Unknown())], {
  description:
    'file of a version as YAML or JSON, relative to the plan, or the version itself: agents, edges and whatever else the program of the team reads',
});
export const Team = Type.Object(
  {
    name: Name,
    candidate: Type.Optional(Definition),
    prune: Type.Optional(
      Type.Object(
        {
          by: Type.String({ minLength: 1, description: 'method of `judge` that gives each member its importance' }),
          keep: Type.Integer({ minimum: 1, description: 'members that stay, those with the greatest importance' }),
        },
        {
          ...strict,
          description:
            'in place of a candidate: the rollout plays the version that is compared with, and the candidate is that without the least important members',
        },
      ),
    ),
    base: Type.Optional(Definition),
  },
  {
    ...strict,
    description:
      'a version of a team as the candidate: nothing is trained, and the gate plays it against the released version, before the first release against base',
  },
);

const Pass = Type.Object(
  {
    pass: Type.Enum(PASS_NAMES),
    policy: Type.Optional({
      ...Name,
      description: 'by the weights that the training of this policy of the plan begins with',
    }),
    model: Type.Optional(
      Type.String({
        minLength: 1,
        description: 'by this model instead, which does not learn: its directory, relative to the plan; of ifd only',
      }),
    ),
    as: Type.Optional(Type.Enum(PASS_AS, { description: 'of ifd: which of the two models it is' })),
  },
  strict,
);

/** JSON Schema (TypeBox) of a plan as people write it. */
export const planSchema = Type.Object(
  {
    name: Name,
    seed: Type.Optional(Type.Integer({ minimum: 0, description: 'seed of everything that is drawn; 0' })),
    rounds: count('how often all stages are run; 1'),
    rollout: Type.Optional(Rollout),
    judge: Type.Optional(Judged),
    passes: Type.Optional(
      Type.Array(Pass, {
        description:
          'forward passes over the episodes before they are judged: log-probabilities or values that methods read',
      }),
    ),
    policies: Type.Optional(Type.Record(Name, Policy)),
    team: Type.Optional(Team),
    gate: Type.Union([Offline, Play, Canary, Manual]),
    watch: Type.Optional(WatchRules),
    budget: Type.Optional(
      Type.Object(
        {
          minutes: Type.Optional(
            Type.Number({
              exclusiveMinimum: 0,
              description: 'since the run was asked for, without the time between its end and its going on',
            }),
          ),
          tokens: Type.Optional(
            Type.Integer({ minimum: 1, description: 'of prompts and answers of all episodes that the run has played' }),
          ),
          usd: Type.Optional(
            Type.Number({
              exclusiveMinimum: 0,
              description:
                'what those cost by the prices of upstreams and policies; a call without a price ends the run',
            }),
          ),
        },
        {
          ...strict,
          minProperties: 1,
          description:
            'of all rounds of a run: once one of these is used up, no stage begins, and a rollout begins no further episode',
        },
      ),
    ),
  },
  { ...strict, description: 'How a model is retrained.' },
);

type PlanDocument = Static<typeof planSchema>;
/** A plan that was checked; one with a team has no policies. */
export type Plan = Omit<PlanDocument, 'policies'> & { readonly policies: NonNullable<PlanDocument['policies']> };
export type PlanTeam = Static<typeof Team>;
export type PlanPolicy = Static<typeof Policy>;
/** Tasks of a plan that is run: the tasks themselves, or a filter over the stored ones. */
export type PlanTasks = readonly RolloutTask[] | { readonly where: Static<typeof TasksWhere> };
export type PlanWriters = Static<typeof Writers>;
export type PlanBranch = Static<typeof Branch>;
export type PlanRollout = Omit<Static<typeof Rollout>, 'tasks'> & { readonly tasks: PlanTasks };

export type PlanPass = Static<typeof Pass>;

/** The stage of a pass. */
export const passStage = ({ pass, policy, as }: PlanPass): string => `${pass}-${as ?? policy}`;

/** The policies that answer the team: all but critics, whose values passes read. */
export const servedPolicies = ({ policies, passes = [] }: Pick<Plan, 'policies' | 'passes'>): string[] =>
  Object.entries(policies).flatMap(([name, { train }]) => {
    const isCritic =
      train.engine !== 'command' && train.method === 'value' && passes.some(({ policy }) => policy === name);
    return isCritic ? [] : [name];
  });

/** Whether tasks are a filter over the stored ones. */
export const isWhere = (tasks: string | PlanTasks): tasks is Extract<PlanTasks, { readonly where: unknown }> =>
  typeof tasks !== 'string' && 'where' in tasks;
