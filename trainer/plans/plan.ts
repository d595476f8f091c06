/**
 * A plan defines how a model is retrained, on one page: which methods evaluate the recorded episodes, which rows each policy learns from,
 * how it is trained, from which weights, how many rounds, and what a candidate has to show before it is released. It is plain data.
 */
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import { parse as parseYaml } from 'yaml';
import { got, TroupeError } from '../../errors.ts';
import { canonicalJson, isRecord, sha256 } from '../../ingest/json.ts';
import { layoutNamed } from '../../store/datasets/export.ts';
import { parseRecipe, recipeSchema } from '../../store/datasets/recipe.ts';
import type { CanaryRules } from '../../store/gating/canary.ts';
import type { GateRules } from '../../store/gating/gate.ts';
import { WatchRules } from '../../store/gating/watch.ts';
import { resolveMethods } from '../../store/judging/judge.ts';
import { nearest } from '../../store/methods/nearest.ts';
import { RolloutSpec, type RolloutTask, rolloutSpec, TasksWhere } from '../../store/rollouts/rollout.ts';
import { parseTaskFilter } from '../../store/select.ts';
import { type TeamVersion, teamVersion } from '../../store/teams/version.ts';
import { WIDEST_CLIP } from '../losses/policy-presets.ts';
import { POLICY_LOSSES } from '../training/policy-losses.ts';

const strict = { additionalProperties: false } as const;
const Name = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
  description: 'letters, digits, dot, dash, underscore',
});
const count = (description: string, minimum = 1) => Type.Optional(Type.Integer({ minimum, description }));
const factor = (description: string) => Type.Optional(Type.Number({ exclusiveMinimum: 0, description }));
const clip = (description: string, maximum: number) => Type.Optional(Type.Number({ minimum: 0, maximum, description }));
const share = (description: string) => Type.Optional(Type.Number({ minimum: 0, description }));

const { name: _, ...recipeFields } = recipeSchema.properties;
const PlanRecipe = Type.Object(recipeFields, {
  ...strict,
  description: 'which rows, of which roles: a recipe without its name',
});

const Shared = {
  learning_rate: Type.Number({ exclusiveMinimum: 0 }),
  warmup: count('steps over which the rate rises; 0 if left out', 0),
  beta1: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  beta2: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  weight_decay: Type.Optional(Type.Number({ minimum: 0 })),
  clip: share('largest norm of the gradients; 0: any'),
};
const Local = { engine: Type.Optional(Type.Literal('local', { description: 'the built-in trainer' })) };
const Batch = { batch: Type.Integer({ minimum: 1, description: 'rows in a step' }) };
const Sft = Type.Object(
  {
    ...Local,
    method: Type.Literal('sft'),
    steps: Type.Union([Type.Integer({ minimum: 1 }), Type.Record(Type.String(), Type.Integer({ minimum: 0 }))], {
      description: 'optimizer steps of each role, or by role',
    }),
    ...Batch,
    ...Shared,
    entropy: share('weight of an entropy bonus; 0 if left out'),
  },
  strict,
);
const Dpo = Type.Object(
  {
    ...Local,
    method: Type.Literal('dpo'),
    steps: Type.Integer({ minimum: 1 }),
    ...Batch,
    ...Shared,
    beta: Type.Optional(Type.Number({ exclusiveMinimum: 0, description: 'how strongly the reference holds; 0.1' })),
    label_smoothing: Type.Optional(Type.Number({ minimum: 0, maximum: 0.5 })),
  },
  strict,
);
const byRole = <Schema extends TSchema>(number: Schema, description: string) =>
  Type.Union([number, Type.Record(Type.String(), number)], { description: `${description}; one number, or by role` });
const Rl = Type.Object(
  {
    ...Local,
    method: Type.Literal('rl'),
    groups: byRole(Type.Integer({ minimum: 1 }), 'groups in a step'),
    ...Shared,
    learning_rate: byRole(Shared.learning_rate, 'learning rate'),
    entropy: Type.Optional(byRole(Type.Number({ minimum: 0 }), 'weight of an entropy bonus, 0 if left out')),
    loss: Type.Optional(Type.Enum([...POLICY_LOSSES])),
    kl: share('coefficient of the divergence to the starting weights'),
    epochs: count('passes over the dataset; 1'),
    clip_low: clip('lower clip of the ratio; 0.2', WIDEST_CLIP.clipLow),
    clip_high: clip('upper clip of the ratio; 0.28', WIDEST_CLIP.clipHigh),
  },
  strict,
);
const Program = Type.Object(
  {
    engine: Type.Literal('command', { description: 'a program of yours: TRL, LLaMA-Factory, Axolotl, verl, a script' }),
    use: Type.String({ minLength: 1, description: 'its name in the setting engines' }),
    layout: Type.Optional(
      Type.String({
        description: 'files the program reads, as dataset export names them; the frozen folder if left out',
      }),
    ),
    params: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'passed to the program as they are' }),
    ),
  },
  strict,
);
const TRAIN = { sft: Sft, dpo: Dpo, rl: Rl } as const;

const Policy = Type.Object(
  {
    from: Type.Optional(
      Type.Enum(['base', 'released', 'last'], {
        description:
          'starting weights: base, the directory below · released, what the policy was given last · last, its newest checkpoint. released and last fall back to base where there is none yet. released if left out',
      }),
    ),
    base: Type.Optional(Type.String({ minLength: 1, description: 'directory of a model, relative to the plan' })),
    recipe: PlanRecipe,
    train: Type.Union([Sft, Dpo, Rl, Program]),
  },
  strict,
);

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
const Offline = Type.Object(
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
const PlayedTasks = {
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
  serving_within_s: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description: 'seconds until the processes that serve the policies have to answer with the right weights; 120',
    }),
  ),
};
const Play = Type.Object(
  {
    kind: Type.Literal('play', {
      description: 'a runner plays the same tasks with candidate and incumbent; mean reward, paired by task',
    }),
    ...PlayedTasks,
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
    unknown: share(
      'share of episodes without a value that the candidate may have beyond the incumbent; 0.1, always checked',
    ),
  },
  strict,
);
const Canary = Type.Object(
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
const Manual = Type.Object(
  { kind: Type.Literal('manual', { description: 'a person decides: troupe gate accept or refuse' }) },
  strict,
);
const GATES = { offline: Offline, play: Play, canary: Canary, manual: Manual } as const;
const GUARDRAILS: Readonly<Record<string, TSchema & { readonly properties: object }>> = {
  offline: Guardrails,
  play: PlayGuardrails,
  canary: CanaryGuardrails,
};

const Setting = Type.Union([Type.String(), Type.Number(), Type.Boolean()]);
const Rollout = Type.Object(
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
    deadline_s: RolloutSpec.properties.deadline_s,
    params: Type.Optional(
      Type.Record(Type.String(), Type.Union([Setting, Type.Array(Setting, { minItems: 1 })]), {
        description:
          'settings of the team (TROUPE_PARAMS); a list has one value for each round, and the last one holds for all that follow',
      }),
    ),
    budget: RolloutSpec.properties.budget,
    max_staleness: RolloutSpec.properties.max_staleness,
  },
  { ...strict, description: 'a runner plays tasks at the beginning of each round, and the recipes take its episodes' },
);

const Definition = Type.Union([Type.String({ minLength: 1 }), Type.Record(Type.String(), Type.Unknown())], {
  description:
    'file of a version as YAML or JSON, relative to the plan, or the version itself: agents, edges and whatever else the program of the team reads',
});
const Team = Type.Object(
  {
    name: Name,
    candidate: Definition,
    base: Type.Optional(Definition),
  },
  {
    ...strict,
    description:
      'a version of a team as the candidate: nothing is trained, and the gate plays it against the released version, before the first release against base',
  },
);

/** JSON Schema (TypeBox) of a plan as people write it. */
export const planSchema = Type.Object(
  {
    name: Name,
    seed: Type.Optional(Type.Integer({ minimum: 0, description: 'seed of everything that is drawn; 0' })),
    rounds: count('how often all stages are run; 1'),
    rollout: Type.Optional(Rollout),
    judge: Type.Optional(
      Type.Array(
        Type.Object(
          {
            method: Type.String({ minLength: 1 }),
            params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
            reads: Type.Optional(Type.String({ description: 'reward method whose rewards a credit method takes' })),
          },
          strict,
        ),
        { description: 'methods run over the recorded episodes before the datasets are frozen' },
      ),
    ),
    policies: Type.Optional(Type.Record(Name, Policy)),
    team: Type.Optional(Team),
    gate: Type.Union([Offline, Play, Canary, Manual]),
    watch: Type.Optional(WatchRules),
    budget: Type.Optional(
      Type.Object(
        {
          minutes: Type.Number({
            exclusiveMinimum: 0,
            description: 'since the run was asked for; no stage begins later',
          }),
        },
        strict,
      ),
    ),
  },
  { ...strict, description: 'How a model is retrained.' },
);

type Written = Static<typeof planSchema>;
/** A plan that was checked; one with a team has no policies. */
export type Plan = Omit<Written, 'policies'> & { readonly policies: NonNullable<Written['policies']> };
export type PlanTeam = Static<typeof Team>;
export type PlanPolicy = Static<typeof Policy>;
export type PlanGate = Plan['gate'];
export type PlayGate = Static<typeof Play>;
export type CanaryGate = Static<typeof Canary>;
/** Tasks of a plan that is run: the tasks themselves, or a filter over the stored ones. */
export type PlanTasks = readonly RolloutTask[] | { readonly where: Static<typeof TasksWhere> };
export type PlanRollout = Omit<Static<typeof Rollout>, 'tasks'> & { readonly tasks: PlanTasks };

const invalid = (field: string, message: string, detail: { expected?: string; got?: string; hint?: string } = {}) =>
  new TroupeError('plan_invalid', message, { field, ...detail });

/** Reads YAML or JSON text (JSON is YAML). @throws TroupeError `plan_invalid` */
export function readPlan(text: string): Plan {
  let value: unknown;
  try {
    value = parseYaml(text);
  } catch (error) {
    throw invalid('plan', `The plan is neither YAML nor JSON: ${(error as Error).message.split('\n', 1)[0]}`);
  }
  return parsePlan(value);
}

/**
 * Checks a plan, its recipes and its methods.
 * @throws TroupeError `plan_invalid` with the path of what is wrong and what was expected; `method_unknown` and `method_input`
 */
export function parsePlan(value: unknown): Plan {
  if (!isRecord(value)) throw invalid('plan', `A plan should be an object, but it is ${got(value)}.`);
  requireKnown(value, planSchema.properties, '');
  const policies = isRecord(value.policies) ? value.policies : {};
  for (const [name, policy] of Object.entries(policies)) {
    if (!isRecord(policy)) continue;
    requireKnown(policy, Policy.properties, `policies.${name}`);
    checkTrain(policy.train, `policies.${name}.train`);
    if (isRecord(policy.recipe)) checkRecipe(policy.recipe, `policies.${name}.recipe`);
  }
  checkGate(value.gate);
  if (isRecord(value.rollout)) requireKnown(value.rollout, Rollout.properties, 'rollout');
  if (isRecord(value.team)) requireKnown(value.team, Team.properties, 'team');
  if (isRecord(value.watch)) requireKnown(value.watch, WatchRules.properties, 'watch');
  // What has a better checked language of its own is left out here.
  const plain = { ...value, gate: withoutRecipe(value.gate), policies: mapped(policies, withoutRecipe) };
  requireShape(planSchema, plain, '');
  const plan = { ...value, policies } as unknown as Plan;
  requireCandidate(plan);
  if (plan.judge) resolveMethods(plan.judge);
  if (plan.rollout) requirePlayable(plan.name, 'rollout', plan.rollout);
  if (plan.gate.kind === 'play') requirePlayable(plan.name, 'gate', plan.gate);
  requireRange('watch.range', plan.watch?.range);
  if (plan.gate.kind === 'canary') requireRange('gate.range', plan.gate.range);
  for (const [name, policy] of Object.entries(plan.policies)) requireComplete(plan, name, policy);
  return plan;
}

/** @throws TroupeError `plan_invalid` for a plan without a candidate, or with a team and what only policies have */
function requireCandidate({ policies, team, rollout, judge, rounds = 1, gate, watch }: Plan): void {
  if (team === undefined) {
    if (Object.keys(policies).length === 0)
      throw invalid('policies', 'A plan should have policies to train, or a team whose version is the candidate.');
    return;
  }
  const other = Object.entries({ policies: Object.keys(policies).length > 0, rollout, judge, watch }).find(
    ([, there]) => there,
  );
  if (other !== undefined)
    throw invalid(
      other[0],
      `A plan with a team trains nothing and plays in its gate alone, so it should have no ${other[0]}.`,
    );
  if (rounds !== 1) throw invalid('rounds', `A plan with a team has one round, but rounds is ${rounds}.`);
  if (gate.kind !== 'play')
    throw invalid('gate.kind', `gate.kind should be play in a plan with a team, but it is ${gate.kind}.`);
  for (const field of ['candidate', 'base'] as const) {
    const definition = team[field];
    if (!isRecord(definition)) continue;
    try {
      teamVersion(team.name, definition);
    } catch (error) {
      throw invalid(`team.${field}`, `team.${field}: ${(error as Error).message}`);
    }
  }
}

/** The plan with the versions of its team in place of their files. */
export function withTeam(plan: Plan, read: (file: string) => unknown): Plan {
  if (plan.team === undefined) return plan;
  const filled = (at: 'candidate' | 'base', definition: PlanTeam['candidate']) => {
    if (typeof definition !== 'string') return definition;
    const value = read(definition);
    if (isRecord(value)) return value;
    throw invalid(
      `team.${at}`,
      `The file ${definition} should hold a version of a team as an object, but it is ${got(value)}.`,
    );
  };
  const { name, candidate, base } = plan.team;
  return {
    ...plan,
    team: {
      name,
      candidate: filled('candidate', candidate),
      ...(base === undefined ? {} : { base: filled('base', base) }),
    },
  };
}

/** A version of the team of a plan that is run. @throws TroupeError `plan_invalid` where it is still a file */
export function versionOf({ name, ...of }: PlanTeam, at: 'candidate' | 'base'): TeamVersion | null {
  const definition = of[at];
  if (definition === undefined) return null;
  if (typeof definition !== 'string') return teamVersion(name, definition);
  throw invalid(
    `team.${at}`,
    `team.${at} should be the version itself in a plan that is requested as a job, but it is the file ${got(definition)}.`,
    { hint: 'troupe plan run and troupe schedule add read the file.' },
  );
}

function requireRange(at: string, range: readonly number[] | undefined): void {
  const [least, greatest] = range ?? [0, 1];
  if (least! < greatest!) return;
  throw invalid(at, `${at} should be a least and a greater value, but it is ${least} and ${greatest}.`);
}

/**
 * Checks a plan that is to be run: it holds the tasks of its rollout itself.
 * @throws TroupeError as `parsePlan` does
 */
export function parseStoredPlan(value: unknown): Plan {
  const plan = parsePlan(value);
  rolloutOf(plan);
  if (plan.gate.kind === 'play') requireTasks('gate', plan.gate.tasks);
  if (plan.team) for (const at of ['candidate', 'base'] as const) versionOf(plan.team, at);
  return plan;
}

/** The rollout of a plan that is run; null where it has none. @throws TroupeError `plan_invalid` where its tasks are still a file */
export function rolloutOf({ rollout }: Plan): PlanRollout | null {
  if (rollout === undefined) return null;
  return { ...rollout, tasks: requireTasks('rollout', rollout.tasks) };
}

/** The tasks that the rollout or the gate of a stored plan plays. @throws TroupeError `plan_invalid` where they are still a file */
export function requireTasks(at: 'rollout' | 'gate', tasks: string | PlanTasks): PlanTasks {
  if (typeof tasks !== 'string') return tasks;
  throw invalid(
    `${at}.tasks`,
    `${at}.tasks should be the tasks as a list in a plan that is requested as a job, but it is the file ${got(tasks)}.`,
    { hint: 'troupe plan run and troupe schedule add read the file; a program puts its tasks into the plan.' },
  );
}

/** The plan with the tasks of its rollout and its gate in place of their files, and with their hashes. */
export function withTasks(plan: Plan, read: (file: string) => readonly RolloutTask[]): Plan {
  const filled = <Part extends { readonly tasks: string | PlanTasks }>(part: Part) => {
    if (isWhere(part.tasks)) return part;
    const tasks = typeof part.tasks === 'string' ? read(part.tasks) : part.tasks;
    return { ...part, tasks: [...tasks], tasks_sha256: tasksHash(tasks) };
  };
  return {
    ...plan,
    ...(plan.rollout === undefined ? {} : { rollout: filled(plan.rollout) }),
    ...(plan.gate.kind === 'play' ? { gate: filled(plan.gate) } : {}),
  };
}

/** Whether tasks are a filter over the stored ones. */
export const isWhere = (tasks: string | PlanTasks): tasks is Extract<PlanTasks, { readonly where: unknown }> =>
  typeof tasks !== 'string' && 'where' in tasks;

const tasksHash = (tasks: readonly RolloutTask[]): string => sha256(canonicalJson(tasks));

function requirePlayable(name: string, at: 'rollout' | 'gate', played: NonNullable<Plan['rollout']> | PlayGate): void {
  const { runner, tasks, tasks_sha256, samples } = played;
  const per_round = 'per_round' in played ? played.per_round : undefined;
  if (typeof tasks === 'string') return;
  if (isWhere(tasks)) {
    parseTaskFilter(tasks.where, `${at}.tasks.where`);
    return;
  }
  try {
    // The longest id that it may get: a run has a number, and each side of a gate a name.
    rolloutSpec(`${name}-1/1/${at === 'gate' ? 'gate/incumbent' : at}`, { runner, tasks, samples });
  } catch (error) {
    throw invalid(`${at}.tasks`, `${at}.tasks: ${(error as Error).message}`);
  }
  if (per_round !== undefined && per_round > tasks.length)
    throw invalid(
      'rollout.per_round',
      `rollout.per_round should be at most the number of tasks, ${tasks.length}, but it is ${per_round}.`,
    );
  if (tasks_sha256 !== undefined && tasks_sha256 !== tasksHash(tasks))
    throw invalid(
      `${at}.tasks_sha256`,
      `${at}.tasks_sha256 should be ${tasksHash(tasks)}, the hash of the tasks that stand in the plan, but it is ${got(tasks_sha256)}. Leave it out where the tasks were changed on purpose.`,
    );
}

/** What a schema cannot express: which fields need each other. */
function requireComplete(plan: Plan, name: string, { from = 'released', base, recipe, train }: PlanPolicy): void {
  const at = `policies.${name}`;
  if (from === 'base' && base === undefined)
    throw invalid(`${at}.base`, `${at}.from is base, so ${at}.base should name the directory of a model.`);
  const { unit, credit, split } = parseRecipe({ ...recipe, name });
  const method = train.engine === 'command' ? null : train.method;
  if ((method === 'sft' || method === 'rl') && unit !== 'step')
    throw invalid(`${at}.recipe.unit`, `${method} learns from steps, but ${at}.recipe.unit is ${unit}.`);
  if (method === 'rl' && credit === null)
    throw invalid(`${at}.recipe.credit`, `rl needs advantages: ${at}.recipe.credit should name a credit method.`);
  if (train.engine !== 'command' && train.method === 'rl')
    for (const field of ['groups', 'learning_rate', 'entropy'] as const)
      requireRoles(`${at}.train.${field}`, train[field], recipe.roles);
  if (plan.gate.kind !== 'offline' || plan.gate.recipe !== undefined) return;
  if (unit !== 'step')
    throw invalid(
      'gate.recipe',
      `An offline gate compares steps, but ${at}.recipe.unit is ${unit}: gate.recipe should name the steps.`,
    );
  if (method === 'dpo' || method === 'rl')
    throw invalid(
      'gate.recipe',
      `An offline gate compares log-probabilities of good answers, and those that ${name} learns from by ${method} are not all good. Set gate.recipe to select good ones, or gate.kind to manual.`,
    );
  if (split === null || !('held_out' in split) || split.held_out === 0)
    throw invalid(
      `${at}.recipe.split`,
      `An offline gate needs held-out rows: ${at}.recipe.split should be such as { held_out: 0.2 }, or gate.recipe name the rows.`,
    );
}

/** @throws TroupeError `plan_invalid` where a number by role lacks a role of the recipe */
function requireRoles(at: string, value: unknown, roles: readonly string[] | null | undefined): void {
  if (!isRecord(value)) return;
  const missing = roles?.find((role) => !(role in value));
  if (roles && missing === undefined) return;
  throw invalid(
    at,
    !roles
      ? `${at} is by role, so the recipe should name its roles.`
      : `${at} has no number for the role ${got(missing)} of the recipe.`,
  );
}

function checkTrain(train: unknown, at: string): void {
  if (!isRecord(train)) return;
  if (train.engine !== undefined && train.engine !== 'local' && train.engine !== 'command')
    throw invalid(`${at}.engine`, `${at}.engine should be local or command, got ${got(train.engine)}.`);
  if (train.engine === 'command') {
    requireKnown(train, Program.properties, at);
    requireShape(Program, train, at);
    if (train.layout !== undefined) layoutNamed(String(train.layout));
    return;
  }
  const schema = TRAIN[train.method as keyof typeof TRAIN];
  if (schema === undefined)
    throw invalid(`${at}.method`, `${at}.method should be sft, dpo or rl, got ${got(train.method)}.`);
  requireKnown(train, schema.properties, at);
  requireShape(schema, train, at);
}

function checkGate(gate: unknown): void {
  if (!isRecord(gate)) return;
  const schema = GATES[gate.kind as keyof typeof GATES];
  if (schema === undefined)
    throw invalid('gate.kind', `gate.kind should be one of ${Object.keys(GATES).join(', ')}, got ${got(gate.kind)}.`);
  requireKnown(gate, schema.properties, 'gate');
  if (isRecord(gate.guardrails))
    requireKnown(gate.guardrails, GUARDRAILS[gate.kind as string]?.properties ?? {}, 'gate.guardrails');
  if (isRecord(gate.recipe)) checkRecipe(gate.recipe, 'gate.recipe');
  requireShape(schema, withoutRecipe(gate), 'gate');
}

function checkRecipe(recipe: Readonly<Record<string, unknown>>, at: string): void {
  try {
    if ('name' in recipe) throw invalid(`${at}.name`, 'it has no name in a plan.');
    parseRecipe({ ...recipe, name: 'plan' });
  } catch (error) {
    if (!(error instanceof TroupeError)) throw error;
    const { field, expected, got: came, hint } = error.detail;
    throw invalid(field === undefined ? at : `${at}.${field}`, `${at}: ${error.message}`, {
      ...(expected ? { expected } : {}),
      ...(came ? { got: came } : {}),
      ...(hint ? { hint } : {}),
    });
  }
}

const withoutRecipe = (value: unknown): unknown =>
  isRecord(value) && 'recipe' in value ? { ...value, recipe: {} } : value;

const mapped = (values: Readonly<Record<string, unknown>>, of: (value: unknown) => unknown) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, of(value)]));

function requireKnown(value: Readonly<Record<string, unknown>>, known: object, at: string): void {
  const names = Object.keys(known);
  for (const name of Object.keys(value)) {
    if (names.includes(name)) continue;
    const meant = nearest(name, names);
    throw invalid(
      at === '' ? name : `${at}.${name}`,
      `${at || 'A plan'} has no ${got(name)}.${meant ? ` Did you mean ${meant}?` : ''}`,
      {
        expected: `one of ${names.join(', ')}`,
        got: got(name),
      },
    );
  }
}

function requireShape(schema: TSchema, value: unknown, at: string): void {
  if (Value.Check(schema, value)) return;
  const [error] = [...Value.Errors(schema, value)].sort((a, b) => b.instancePath.length - a.instancePath.length);
  const inner = (error?.instancePath ?? '').slice(1);
  const path = [at, inner.replaceAll('/', '.')].filter((part) => part !== '').join('.') || 'plan';
  const found = inner
    .split('/')
    .reduce<unknown>((from, key) => (key === '' ? from : (from as Record<string, unknown> | undefined)?.[key]), value);
  throw invalid(path, `${path} ${error?.message ?? 'does not fit'}; it is ${got(found)}.`, {
    expected: error?.message ?? 'a plan as in its schema (`troupe plan schema`)',
    got: got(found),
  });
}

/** The rules of a gate with what was left out filled in. */
export function rulesOf(gate: Exclude<PlanGate, { kind: 'manual' }>): GateRules {
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
    },
  };
}

/** The rules of a canary with what was left out filled in. */
export function canaryRulesOf(gate: CanaryGate): CanaryRules {
  const { share, metric, range, at_least = 100, bake_hours = 1, hours = 168, at_most = 200_000 } = gate;
  return {
    ...rulesOf(gate),
    ...{ share, metric, range: [range?.[0] ?? 0, range?.[1] ?? 1] },
    ...{ at_least, bake_hours, hours, at_most },
    unknown: gate.guardrails?.unknown ?? 0.1,
  };
}
