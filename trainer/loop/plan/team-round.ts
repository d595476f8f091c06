/** The round of a plan with a team, and the two versions that its gate compares. */
import { TroupeError } from '../../../errors.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import type { Db } from '../../../store/db/pool.ts';
import { resolveMethods } from '../../../store/evaluate/judging/judge.ts';
import { PRUNE, type PruneResult } from '../../../store/loop/team/prune.ts';
import { releasedTeam, type TeamVersion, teamDraft } from '../../../store/loop/team/version.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { type JobContext, WaitsFor } from '../../../store/queue/jobs/jobs.ts';
import { CANARY } from '../comparison/canary.ts';
import { canaryOf } from '../comparison/canary-traffic.ts';
import type { GateSide } from '../comparison/play.ts';
import type { GateReport, ManualReport } from '../comparison/report.ts';
import type { RolloutResult } from '../play/handler.ts';
import { canaryRulesOf, type PlayGate } from './gate-schema.ts';
import { mapsOf } from './gates-asked.ts';
import type { PartResult } from './parts.ts';
import { requireTasks, rolloutOf, versionOf } from './plan-parts.ts';
import { completeGroupsOf, paramsOfGate, requireCompleteGroup, rolloutAsked, roundRollout } from './plan-rollout.ts';
import type { Plan, PlanTeam } from './plan-schema.ts';
import { tasksOf } from './plan-tasks.ts';
import { playAsked } from './play-gate.ts';
import { endRound, type Round } from './round.ts';
import { requireDecided, type Stages, stagesOf } from './stages.ts';

/** The released version, else the base of the plan. @throws TroupeError `not_found` where there is neither */
export async function incumbentTeam(db: Db, team: PlanTeam): Promise<TeamVersion> {
  const found = (await releasedTeam(db, team.name)) ?? versionOf(team, 'base');
  if (found !== null) return found;
  throw new TroupeError(
    'not_found',
    `Team ${team.name} has no released version yet, and team.base names none to compare the candidate with.`,
  );
}

export const sameVersion = (team_id: string): string =>
  `The candidate is ${team_id}, which is what it would be compared with: change agents, prompts or wiring.`;

/**
 * Both versions, recorded.
 * @throws TroupeError `not_found` as `incumbentTeam`; `training_failed` where they are the same
 */
async function teamsAsked(
  { db, log, now }: JobContext,
  team: PlanTeam,
  candidate: TeamVersion,
): Promise<Record<GateSide, TeamVersion>> {
  await waitProjected(db, { log });
  const incumbent = await incumbentTeam(db, team);
  if (candidate.team_id === incumbent.team_id) throw new TroupeError('training_failed', sameVersion(candidate.team_id));
  const at = now().toISOString();
  await appendOwn(log, [teamDraft(incumbent, at), teamDraft(candidate, at)], 'usage');
  return { incumbent, candidate };
}

/** The round of a plan with a team: its gate compares two versions with the same weights, or asks a person, and nothing is trained. The
 * candidate stands in the plan, or is the incumbent without some of its members. */
export async function teamRound(
  context: JobContext,
  plan: Plan,
  team: PlanTeam,
  { run, round }: { readonly run: string; readonly round: number },
): Promise<Round> {
  const stages = stagesOf(context, plan, { run, round, iterations: 1, iteration: 1 });
  const pruned = team.prune === undefined ? null : await pruneStages(context, plan, stages, team);
  const candidate = pruned?.team ?? versionOf(team, 'candidate')!;
  const gate = await teamGate(context, plan, stages, { team, candidate });
  await requireDecided(context, plan, { gate: gate.result, run, round });
  const teams = { [team.name]: candidate.team_id };
  const end = await endRound(context, { run, round, plan, policies: {}, teams, gate: gate.result, hosted: {} });
  return {
    round,
    candidates: {},
    teams,
    ...end,
    gate: `${run}/${round}/gate`,
    rollout: pruned?.rollout ?? null,
  };
}

/** Plays the version that is compared with, judges it, and leaves the least important members out. */
async function pruneStages(context: JobContext, plan: Plan, stages: Stages, team: PlanTeam) {
  const { db, log, now } = context;
  const { by, keep } = team.prune!;
  const rollout = rolloutOf(plan)!;
  const played = await stages.job<RolloutResult>('rollout', 'rollout', async () => {
    await waitProjected(db, { log });
    const incumbent = await incumbentTeam(db, team);
    await appendOwn(log, [teamDraft(incumbent, now().toISOString())], 'usage');
    const at = { round: 1, seed: plan.seed ?? 0 };
    return { ...rolloutAsked(rollout, await tasksOf(db, 'rollout', rollout.tasks), at, {}), team: incumbent };
  });
  requireCompleteGroup(1, played.result);
  await stages.job('judge', 'judge', async () => ({ methods: plan.judge, where: completeGroupsOf(played.result) }));
  const { result } = await stages.job<PruneResult>('prune', PRUNE, async () => ({
    rollout_id: played.result.rollout_id,
    keep,
    team: played.spec.team,
    method_key: (await resolveMethods(plan.judge!)).find(({ name }) => name === by)!.key,
  }));
  return { team: result.team, rollout: await roundRollout(db, played.result, {}) };
}

/** @throws WaitsFor until it has ended */
async function teamGate(
  context: JobContext,
  plan: Plan,
  stages: Stages,
  { team, candidate }: { readonly team: PlanTeam; readonly candidate: TeamVersion },
): Promise<PartResult<GateReport | ManualReport>> {
  const { gate } = plan;
  switch (gate.kind) {
    case 'manual':
      return stages.job<ManualReport>('gate', 'decision', async () => {
        await appendOwn(context.log, [teamDraft(candidate, context.now().toISOString())], 'usage');
        return { kind: 'manual', candidates: {}, teams: { [team.name]: candidate.team_id } };
      });
    case 'canary':
      return stages.job<GateReport>('gate', CANARY, async () => {
        const other = await canaryOf(context.db, { policies: [], team: team.name });
        if (other !== null) throw new WaitsFor(other);
        const teams = await teamsAsked(context, team, candidate);
        return {
          kind: CANARY,
          rules: canaryRulesOf(gate),
          maps: { incumbent: {}, candidate: {} },
          weights: {},
          guarded: [],
          teams,
        };
      });
    default:
      return stages.job<GateReport>('gate', 'play', () =>
        teamPlayAsked(context, plan, gate as PlayGate, { team, candidate }),
      );
  }
}

async function teamPlayAsked(
  context: JobContext,
  plan: Plan,
  play: PlayGate,
  { team, candidate }: { readonly team: PlanTeam; readonly candidate: TeamVersion },
) {
  const { incumbent: map } = await mapsOf(context, {}, {});
  return playAsked(play, {
    tasks: await tasksOf(context.db, 'gate', requireTasks('gate', play.tasks)),
    seed: plan.seed ?? 0,
    ...paramsOfGate(plan, play, 1),
    datasets: [],
    maps: { incumbent: map, candidate: map },
    policies: [],
    guarded: [],
    teams: await teamsAsked(context, team, candidate),
  });
}
