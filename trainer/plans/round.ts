/** What a round and a run of a plan come to, and the release that ends a round. */
import { firstOf, query } from '../../store/db/query.ts';
import type { GateReport, ManualReport } from '../../store/gating/report.ts';
import { WATCH, watchSpec } from '../../store/gating/watching.ts';
import { type JobContext, requestJob } from '../../store/jobs/jobs.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import { inReleaseTurn, recordAfterHosted, releasesOf } from '../../store/releasing/releases.ts';
import type { RoundRollout } from './plan-rollout.ts';
import type { Plan } from './plan-schema.ts';
import type { Hosted } from './weights.ts';

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
};

type Released = {
  readonly run: string;
  readonly round: number;
  readonly plan: Plan;
  readonly policies: Readonly<Record<string, string>>;
  readonly teams?: Readonly<Record<string, string>>;
  readonly gate: GateReport | ManualReport;
  readonly hosted: Hosted;
};

/** Appends the release once, and has it watched where the plan says so. */
export async function release(context: JobContext, of: Released): Promise<string> {
  const { run, round, plan } = of;
  const release_id = await releaseOnce(context, of);
  if (plan.watch)
    await requestJob(context, {
      job_id: `${run}/${round}/watch`,
      kind: WATCH,
      spec: watchSpec(release_id, plan.watch),
      parent: run,
    });
  return release_id;
}

/** The whole map, with the other policies and teams as they are. */
async function releaseOnce(
  { db, log, now }: JobContext,
  { run, round, plan, policies, teams, gate, hosted }: Released,
): Promise<string> {
  const release_id = `${run}/${round}`;
  return inReleaseTurn(db, async () => {
    await waitProjected(db, { log });
    const known = query.selectFrom('facts.releases').select('release_id').where('release_id', '=', release_id);
    if ((await firstOf(db, known)) !== undefined) return release_id;
    const before = (await releasesOf(db)).at(-1);
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
