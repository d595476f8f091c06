/** What a candidate has to show before it is released, as JSON Schema, and its rules with what was left out filled in. */
import { type Static, Type } from 'typebox';
import { type ErrorDetail, TroupeError } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import { parseRecipe, recipeSchema } from '../../../store/datasets/recipe.ts';
import type { GateRules } from '../../../store/loop/comparison/gate.ts';
import { WatchRules } from '../../../store/loop/comparison/watch.ts';
import { RolloutSpec, TasksWhere } from '../../../store/loop/play/rollout.ts';
import type { CanaryRules } from '../comparison/canary.ts';
import { count, factor, share, strict } from './schema-numbers.ts';

const { name: _, ...recipeFields } = recipeSchema.properties;
export const PlanRecipe = Type.Object(recipeFields, {
  ...strict,
  description: 'which rows, of which roles: a recipe without its name',
  reads: readRecipe,
});

/** @throws TroupeError `plan_invalid` for what is no recipe, with its path in the plan */
function readRecipe(value: unknown, at: string): void {
  const invalid = (field: string, message: string, detail: ErrorDetail = {}) =>
    new TroupeError('plan_invalid', message, { ...detail, field });
  if (isRecord(value) && 'name' in value)
    throw invalid(`${at}.name`, `${at}.name should be left out: a recipe in a plan has no name.`);
  try {
    parseRecipe(isRecord(value) ? { ...value, name: 'plan' } : value);
  } catch (error) {
    if (!(error instanceof TroupeError)) throw error;
    const { field, ...detail } = error.detail;
    throw invalid(field === undefined ? at : `${at}.${field}`, `${at}: ${error.message}`, detail);
  }
}

const Guardrails = Type.Object(
  {
    roles: share('loss of a single role that is accepted, in the unit of the measure'),
    families: share('loss of a single family of tasks (their domain) that is accepted'),
  },
  strict,
);
const PlayGuardrails = Type.Object(
  {
    roles: share('loss of a single role that is accepted, in rewards recorded for its steps and agents'),
    families: share('loss of a single family of tasks (their domain) that is accepted'),
    tokens: factor('how many times the tokens of the incumbent an episode may take'),
    latency: factor('how many times the time of the incumbent the calls of an episode may take'),
    usd: factor(
      'how many times the money of the incumbent the calls of an episode may cost, by the prices of the upstreams; a call without a price is no data, and does not pass',
    ),
    unplayed: share('share of samples that the candidate may fail to play beyond the incumbent; 0.05'),
  },
  strict,
);
const Rules = {
  accept: Type.Optional(Type.Enum(['better', 'not_worse'], { description: 'better if left out' })),
  margin: share('loss that counts as not worse, in the unit of the measure; 0 if left out'),
  level: Type.Optional(Type.Number({ exclusiveMinimum: 0.5, exclusiveMaximum: 1, description: '0.95 if left out' })),
  find: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description: 'gain that should pass, in the unit of the measure: plan check computes how many tasks that takes',
    }),
  ),
  power: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      exclusiveMaximum: 1,
      description: 'chance with which such a gain passes; 0.8',
    }),
  ),
};
export const Offline = Type.Object(
  {
    kind: Type.Literal('offline', {
      description: 'mean log-probability of a token of held-out answers, in nats, paired by task',
    }),
    recipe: Type.Optional(PlanRecipe),
    guardrails: Type.Optional(Guardrails),
    ...Rules,
  },
  strict,
);
export const PlayedTasks = {
  runner: RolloutSpec.properties.runner,
  tasks: Type.Union(
    [Type.String({ minLength: 1 }), Type.Object({ where: TasksWhere }, strict), RolloutSpec.properties.tasks],
    {
      description:
        'file of tasks, one JSON object a line, relative to the plan; or the tasks themselves; or where: a filter over stored tasks, read when the stage begins',
    },
  ),
  tasks_sha256: Type.Optional(
    Type.String({ description: 'hash of the tasks as canonical JSON; filled in when a run is requested' }),
  ),
  samples: RolloutSpec.properties.samples,
  team: Type.Optional(
    Type.String({ minLength: 1, description: 'name of a team, which plays in its released version' }),
  ),
  serving_within_s: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description: 'seconds until the processes that serve the policies have to answer with the right weights; 120',
    }),
  ),
};
export const Play = Type.Object(
  {
    kind: Type.Literal('play', {
      description: 'a runner plays the same tasks with candidate and incumbent; mean reward, paired by task',
    }),
    ...PlayedTasks,
    params: Type.Optional({
      ...RolloutSpec.properties.params,
      description:
        'settings of the team on both sides; those of the rollout in this round if left out, where the runner is the same',
    }),
    deadline_s: Type.Optional(
      Type.Number({ exclusiveMinimum: 0, description: 'seconds that each of the two sides may take' }),
    ),
    guardrails: Type.Optional(PlayGuardrails),
    ...Rules,
  },
  strict,
);
const CanaryGuardrails = Type.Object(
  {
    roles: PlayGuardrails.properties.roles,
    families: PlayGuardrails.properties.families,
    tokens: PlayGuardrails.properties.tokens,
    latency: PlayGuardrails.properties.latency,
    usd: PlayGuardrails.properties.usd,
    unknown: share(
      'share of episodes without a value that the candidate may have beyond the incumbent; 0.1, always checked',
    ),
  },
  strict,
);
export const Canary = Type.Object(
  {
    kind: Type.Literal('canary', {
      description: 'a share of the live episodes is answered by the candidate, until one of the two is better',
    }),
    share: Type.Number({
      exclusiveMinimum: 0,
      exclusiveMaximum: 1,
      description: 'of the live episodes that the candidate answers; all episodes of a group go to one side',
    }),
    metric: WatchRules.properties.metric,
    range: WatchRules.properties.range,
    at_least: count('episodes, groups counted once, that each side needs before a release; 100', 2),
    bake_hours: share('hours before a release, since the candidate answered its first call; 1'),
    hours: factor('ends after so many hours; 168, a week'),
    at_most: count('ends after so many episodes of both sides; 200000', 2),
    guardrails: Type.Optional(CanaryGuardrails),
    ...Rules,
  },
  strict,
);
export const Manual = Type.Object(
  { kind: Type.Literal('manual', { description: 'a person decides: troupe gate accept or refuse' }) },
  strict,
);
export type OfflineGate = Static<typeof Offline>;
export type PlayGate = Static<typeof Play>;
export type CanaryGate = Static<typeof Canary>;

/** The rules of a gate with what was left out filled in. */
export function rulesOf(gate: OfflineGate | PlayGate | CanaryGate): GateRules {
  const { accept = 'better', margin = 0, level = 0.95 } = gate;
  const guardrails: Static<typeof PlayGuardrails> = gate.guardrails ?? {};
  return {
    accept,
    margin,
    level,
    guardrails: {
      roles: guardrails.roles ?? null,
      families: guardrails.families ?? null,
      tokens: guardrails.tokens ?? null,
      latency: guardrails.latency ?? null,
      ...(guardrails.usd === undefined ? {} : { usd: guardrails.usd }),
    },
  };
}

/** The rules of a canary with what was left out filled in. */
export function canaryRulesOf(gate: CanaryGate): CanaryRules {
  const { share, metric, range, at_least = 100, bake_hours = 1, hours = 168, at_most = 200_000 } = gate;
  return {
    ...rulesOf(gate),
    share,
    metric,
    range: [range?.[0] ?? 0, range?.[1] ?? 1],
    at_least,
    bake_hours,
    hours,
    at_most,
    unknown: gate.guardrails?.unknown ?? 0.1,
  };
}
