/** What the gate of a round is asked for, by its kind. */
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import type { Db } from '../../../store/db/pool.ts';
import { hostedWeights } from '../../../store/loop/play/weights.ts';
import { releasesOf } from '../../../store/loop/release/releases.ts';
import { requireReleasedTeam } from '../../../store/loop/team/version.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { type JobContext, WaitsFor } from '../../../store/queue/jobs/jobs.ts';
import { openModelForIds } from '../../model/model-directory.ts';
import { CANARY } from '../comparison/canary.ts';
import { canaryOf } from '../comparison/canary-traffic.ts';
import type { GateSide } from '../comparison/play.ts';
import type { GateReport, ManualReport } from '../comparison/report.ts';
import { type CanaryGate, canaryRulesOf, type OfflineGate, type PlayGate, rulesOf } from './gate-schema.ts';
import { type Iteration, mapped } from './iteration.ts';
import type { PartResult } from './parts.ts';
import { requireTasks } from './plan-parts.ts';
import { paramsOfGate } from './plan-rollout.ts';
import { type Plan, type PlanPolicy, servedPolicies } from './plan-schema.ts';
import { tasksOf } from './plan-tasks.ts';
import { playAsked } from './play-gate.ts';
import { asJudged, type FrozenRows, withoutGates } from './round-rows.ts';
import type { Stages } from './stages.ts';
import type { TrainingResult } from './training-asked.ts';
import { type Checkpoint, type HostedModels, releasedOf } from './weights.ts';

/** What a round trained, as its gate needs it. */
type GateInput = {
  readonly round: number;
  readonly candidates: Readonly<Record<string, TrainingResult>>;
  /** The rows of the last iteration, by policy. */
  readonly frozen: Readonly<Record<string, FrozenRows>>;
  /** All iterations of the round. */
  readonly ended: () => Promise<readonly Iteration[]>;
};

/** The gate of a round, asked for once. @throws WaitsFor until it has ended */
export async function gateOf(
  context: JobContext,
  plan: Plan,
  stages: Stages,
  shown: GateInput,
  hosted: HostedModels,
): Promise<PartResult<GateReport | ManualReport>> {
  const { gate } = plan;
  const { candidates } = shown;
  switch (gate.kind) {
    case 'manual':
      return stages.job<ManualReport>('gate', 'decision', async () => ({ kind: 'manual', candidates }));
    case 'play':
      return stages.job<GateReport>('gate', 'play', () => playGateAsked(context, plan, gate, shown, hosted));
    case 'canary':
      return stages.job<GateReport>('gate', CANARY, () => canaryAsked(context, plan, gate, shown, hosted));
    case 'offline': {
      const rows = gate.recipe && (await gateRows(plan, stages, gate.recipe));
      return stages.job<GateReport>('gate', 'gate', () => offlineAsked(context, plan, gate, rows ?? null, shown));
    }
  }
}

/** What a policy is answered with until something is released, by policy: its base, else the weights that the round began with. */
const basesOf = async ({ policies }: Plan, ended: GateInput['ended']): Promise<Record<string, string>> =>
  mapped((await ended())[0]!.trained, ({ spec }, name) => policies[name]!.base ?? String(spec.base));

/** The rows of a gate that has a recipe of its own, frozen. */
const gateRows = (plan: Plan, stages: Stages, recipe: PlanPolicy['recipe']): Promise<FrozenRows> =>
  stages.freeze('freeze-gate', () =>
    asJudged(parseRecipe({ ...withoutGates(recipe), name: `${plan.name}-gate` }), plan.judge),
  );

async function offlineAsked(
  { db }: JobContext,
  plan: Plan,
  gate: OfflineGate,
  rows: FrozenRows | null,
  { candidates, frozen, ended }: GateInput,
): Promise<Record<string, unknown>> {
  const bases = await basesOf(plan, ended);
  const policies: Record<string, unknown> = {};
  for (const [name, candidate] of Object.entries(candidates))
    policies[name] = {
      incumbent: await incumbentOf(db, name, bases[name]!),
      candidate,
      dataset: frozen[name]!.directory,
      roles: plan.policies[name]!.recipe.roles ?? null,
    };
  return { kind: 'offline', rules: rulesOf(gate), dataset: rows?.directory ?? null, policies };
}

/** What is released now; where nothing is, what answers until then. */
async function incumbentOf(db: Db, policy: string, base: string): Promise<Checkpoint> {
  return (await releasedOf(db, policy)) ?? { checkpoint_id: base.split('/').at(-1)!, directory: base };
}

/** What a gate that plays is asked for: the whole map of each side, so that a release in between changes nothing. */
async function playGateAsked(
  context: JobContext,
  plan: Plan,
  gate: PlayGate,
  { round, candidates, ended }: GateInput,
  hosted: HostedModels,
): Promise<Record<string, unknown>> {
  const all = await ended();
  const served = servedPolicies(plan);
  return playAsked(gate, {
    tasks: await tasksOf(context.db, 'gate', requireTasks('gate', gate.tasks)),
    seed: plan.seed ?? 0,
    ...paramsOfGate(plan, gate, round),
    datasets: all.flatMap(({ frozen }) => Object.values(frozen).map(({ directory }) => directory)),
    maps: await mapsOf(context, only(served, candidates), only(served, await basesOf(plan, async () => all)), hosted),
    policies: served,
    guarded: guardedRoles(plan),
    ...(gate.team === undefined ? {} : { team: await requireReleasedTeam(context.db, gate.team) }),
  });
}

/** Roles whose loss a gate looks at: those that the policies that answer learn. */
const guardedRoles = (plan: Plan): string[] =>
  servedPolicies(plan).flatMap((name) => plan.policies[name]!.recipe.roles ?? []);

const only = <T>(names: readonly string[], of: Readonly<Record<string, T>>): Record<string, T> =>
  Object.fromEntries(names.map((name) => [name, of[name]!]));

/**
 * The whole map of each side: what is released, else the model that the policy's calls go to today, else its base; and the
 * candidates in its place.
 */
export async function mapsOf(
  { db, log }: JobContext,
  candidates: Readonly<Record<string, TrainingResult>>,
  bases: Readonly<Record<string, string>>,
  hosted: HostedModels = {},
): Promise<Record<GateSide, Record<string, Checkpoint>>> {
  await waitProjected(db, { log });
  const incumbent: Record<string, Checkpoint> = {};
  for (const name of Object.keys((await releasesOf(db)).at(-1)?.policies ?? {})) {
    const released = await releasedOf(db, name);
    if (released !== null) incumbent[name] = released;
  }
  for (const [name, base] of Object.entries(bases))
    incumbent[name] ??=
      hosted[name] === undefined
        ? { checkpoint_id: (await openModelForIds(base)).id, directory: base }
        : hostedWeights(hosted[name]);
  return { incumbent, candidate: { ...incumbent, ...mapped(candidates, weightsOf) } };
}

const weightsOf = ({ checkpoint_id, directory }: TrainingResult): Checkpoint => ({ checkpoint_id, directory });

/**
 * What a canary is asked for. One at a time answers the live calls of a policy.
 * @throws WaitsFor the canary of another run that is under way
 */
async function canaryAsked(
  context: JobContext,
  plan: Plan,
  gate: CanaryGate,
  { candidates: all, ended }: GateInput,
  hosted: HostedModels,
): Promise<Record<string, unknown>> {
  const candidates = only(servedPolicies(plan), all);
  const other = await canaryOf(context.db, { policies: Object.keys(candidates), team: null });
  if (other !== null) throw new WaitsFor(other);
  const maps = await mapsOf(context, candidates, only(Object.keys(candidates), await basesOf(plan, ended)), hosted);
  const idsOf = (side: GateSide) => mapped(candidates, (_, name) => maps[side][name]!.checkpoint_id);
  return {
    kind: CANARY,
    rules: canaryRulesOf(gate),
    maps: { incumbent: idsOf('incumbent'), candidate: idsOf('candidate') },
    weights: mapped(candidates, weightsOf),
    guarded: guardedRoles(plan),
  };
}
