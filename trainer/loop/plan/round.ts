/** What a round and a run of a plan come to, and the release that ends a round. */
import { firstOf, query } from '../../../store/db/query.ts';
import { WATCH, watchSpec } from '../../../store/loop/comparison/watching.ts';
import { hostedModel } from '../../../store/loop/play/weights.ts';
import { inReleaseTurn, type Release, recordAfterHosted, releasesOf } from '../../../store/loop/release/releases.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { type JobContext, requestJob } from '../../../store/queue/jobs/jobs.ts';
import type { GateReport, ManualReport } from '../comparison/report.ts';
import type { RoundRollout } from './plan-rollout.ts';
import type { Plan } from './plan-schema.ts';
import type { HostedModels } from './weights.ts';

export type Round = {
  readonly round: number;
  readonly candidates: Readonly<Record<string, string>>;
  /** Of a plan with a team: the id of the version that was its candidate. */
  readonly teams?: Readonly<Record<string, string>>;
  readonly passed: boolean;
  readonly reason: string;
  /** Job that holds the gate's report. */
  readonly gate: string;
  readonly release_id: string | null;
  /** Null where the plan has none. */
  readonly rollout: RoundRollout | null;
};
export type PlanResult = {
  readonly plan: string;
  readonly released: boolean;
  readonly rounds: readonly Round[];
  /** Why it ended before its last round; null where it did not. */
  readonly ended_early: string | null;
  /** Why it ended without a training that made a step; null where it did not. */
  readonly nothing_to_learn: string | null;
};

type ReleasedRound = {
  readonly run: string;
  readonly round: number;
  readonly plan: Plan;
  readonly policies: Readonly<Record<string, string>>;
  readonly teams?: Readonly<Record<string, string>>;
  readonly gate: GateReport | ManualReport;
  readonly hosted: HostedModels;
};

/** What a round ends with: its release, or why there is none. */
type RoundEnd = Pick<Round, 'passed' | 'reason' | 'release_id'>;

/** Where the gate passed, appends the release once, and has it watched where the plan says so. */
export async function endRound(context: JobContext, of: ReleasedRound): Promise<RoundEnd> {
  const { passed, reason } = of.gate;
  if (!passed) return { passed, reason, release_id: null };
  const { run, round, plan } = of;
  const release_id = await releaseOnce(context, of);
  if (typeof release_id !== 'string') return { passed: false, reason: release_id.overtaken, release_id: null };
  if (plan.watch)
    await requestJob(context, {
      job_id: `${run}/${round}/watch`,
      kind: WATCH,
      spec: watchSpec(release_id, plan.watch),
      parent: run,
    });
  return { passed, reason, release_id };
}

/** The whole map, with the other policies and teams as they are; nothing where a policy has other weights than the gate compared with. */
async function releaseOnce(
  { db, log, now }: JobContext,
  { run, round, plan, policies, teams, gate, hosted }: ReleasedRound,
): Promise<string | { readonly overtaken: string }> {
  const release_id = `${run}/${round}`;
  return inReleaseTurn(db, async () => {
    await waitProjected(db, { log });
    const known = query.selectFrom('facts.releases').select('release_id').where('release_id', '=', release_id);
    if ((await firstOf(db, known)) !== undefined) return release_id;
    const before = (await releasesOf(db)).at(-1);
    const overtaken = overtakenBy(before, gate);
    if (overtaken !== null) return { overtaken };
    await recordAfterHosted({ db, log }, hosted, {
      release_id,
      policies: { ...before?.policies, ...policies },
      teams: { ...before?.teams, ...teams },
      reason: gate.reason,
      metrics: measuredBy(gate),
      by: `plan ${plan.name}`,
      source: '/plans',
      time: now().toISOString(),
    });
    await waitProjected(db, { log });
    return release_id;
  });
}

/** What was released since the gate chose what to compare with; null where the candidates would take the place of that. */
function overtakenBy(last: Release | undefined, gate: GateReport | ManualReport): string | null {
  if (last === undefined || gate.kind === 'manual') return null;
  for (const [name, { incumbent }] of Object.entries(gate.models)) {
    const now = name.startsWith('team ') ? last.teams[name.slice('team '.length)] : last.policies[name];
    // A model of another server is compared with by gates that play alone.
    if (now === undefined || now === incumbent || hostedModel(now) !== null) continue;
    return `The gate passed, but release ${last.release_id} gave ${now} to ${name} meanwhile, and the candidate was compared with ${incumbent}: nothing is released. Run the plan again.`;
  }
  return null;
}

/** Means of the gate's measure on both sides, and of the candidate by what its guardrails look at: `role coder`, `tokens`. */
function measuredBy(gate: GateReport | ManualReport): Record<string, number> {
  if (gate.kind === 'manual') return {};
  const { main, guardrails } = gate;
  const means = [
    ['incumbent', main.incumbent] as const,
    ['candidate', main.candidate] as const,
    ...guardrails.map(({ of, candidate }) => [of, candidate] as const),
  ];
  return Object.fromEntries(means.flatMap(([name, mean]) => (mean === null ? [] : [[name, mean]])));
}
