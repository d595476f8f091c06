/** Whether the gate of a plan that is checked has enough to decide by. */
import { countText } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { query, rowsOf, sql } from '../../../store/db/query.ts';
import type { GateRules } from '../../../store/loop/comparison/gate.ts';
import { liveDeviation } from '../../../store/loop/comparison/live-units.ts';
import type { GateReport } from '../comparison/report.ts';
import { episodesForCanary, type SizeRequest, tasksForGate } from '../comparison/size.ts';
import type { Findings, PlanCheck, PolicyCheck } from './check-found.ts';
import { isJudgedBy } from './check-policies.ts';
import { type CanaryGate, canaryRulesOf, rulesOf } from './gate-schema.ts';
import { requireTasks } from './plan-parts.ts';
import { isWhere, type Plan } from './plan-schema.ts';

/** The most tasks that the gate of a run may have, where it has these now. */
export function mostTasks(plan: Plan, now: number): number {
  const { gate } = plan;
  const recipes = [...Object.values(plan.policies), gate].flatMap((of) => ('recipe' in of && of.recipe) || []);
  const settled = plan.rollout === undefined && !recipes.some((recipe) => isJudgedBy(plan, recipe));
  const listed = gate.kind === 'play' ? requireTasks('gate', gate.tasks) : null;
  if (settled && (listed === null || !isWhere(listed))) return now;
  return listed === null || isWhere(listed) ? Number.POSITIVE_INFINITY : listed.length;
}

export async function gateCheck(
  db: Db,
  { name, gate, team }: Plan,
  policies: Readonly<Record<string, PolicyCheck>>,
  { tasks, played }: Pick<PlanCheck['gate'], 'tasks' | 'played'>,
  notes: string[],
): Promise<PlanCheck['gate']> {
  const none = { tasks_wanted: null, episodes_wanted: null, gain: null };
  if (gate.kind === 'manual') return { kind: gate.kind, tasks: null, ...none, deviation: null, played };
  if (gate.kind === 'canary') return canaryCheck(db, gate, { policies, isTeam: team !== undefined }, notes);
  const deviation = await lastDeviation(db, name, gate.kind === 'play' ? 'play' : 'gate');
  const rules = rulesOf(gate);
  const roles = new Set(Object.values(policies).flatMap((policy) => policy.roles)).size;
  const sizeOf = (of: number) => ({
    deviation: of,
    // Roles of one task are taken to differ as much as tasks do, if each had one row.
    partDeviation: of * Math.sqrt(Math.max(1, roles)),
    guardrails: rules.guardrails.roles === null ? 0 : roles,
    power: gate.power ?? 0.8,
  });
  // Before the first report: the difference of two means of rewards of 0 or 1, at its widest.
  const widest = gate.kind === 'play' ? Math.sqrt(0.5 / gate.samples) : null;
  const assumed = deviation ?? widest;
  const gain =
    tasks === null || assumed === null ? null : gainToTell(rules, { ...sizeOf(assumed), guardrails: 0 }, tasks);
  const found = { kind: gate.kind, tasks, ...none, gain, deviation, played };
  if (gate.find === undefined) {
    notes.push('How many tasks the gate wants is not computed: gate.find does not say which gain should pass.');
    return found;
  }
  if (deviation === null) {
    notes.push('How many tasks the gate wants is known after its first report: it depends on how much tasks differ.');
    return found;
  }
  return { ...found, tasks_wanted: tasksForGate(rules, { find: gate.find, ...sizeOf(deviation) }) };
}

/** The smallest gain, in hundredths, that passes at this number of tasks; null where none does. */
function gainToTell(rules: GateRules, size: Omit<SizeRequest, 'find'>, tasks: number): number | null {
  for (let hundredth = 1; hundredth <= 100; hundredth++)
    if (tasksForGate(rules, { ...size, find: hundredth / 100 }) <= tasks) return hundredth / 100;
  return null;
}

/** What a canary needs, from live episodes of now. */
async function canaryCheck(
  db: Db,
  gate: CanaryGate,
  { policies, isTeam }: { readonly policies: Readonly<Record<string, PolicyCheck>>; readonly isTeam: boolean },
  notes: string[],
): Promise<PlanCheck['gate']> {
  const rules = canaryRulesOf(gate);
  notes.push(
    isTeam
      ? `The candidate plays ${rules.share} of the live episodes whose program asks GET /v1/teams/NAME?episode=ID, for ${countText(rules.hours, 'hour')} at most: \`troupe up\` has to run, or \`troupe run serve\` and \`run work\`.`
      : `The candidate answers ${rules.share} of the live calls that name a policy of the plan at the gateway, for ${countText(rules.hours, 'hour')} at most: \`troupe up\` has to run, or \`troupe run serve\`, \`run infer\` and \`run work\`.`,
  );
  const deviation = await liveDeviation(db, gate.metric);
  const found = {
    kind: gate.kind,
    tasks: null,
    tasks_wanted: null,
    episodes_wanted: null,
    gain: null,
    deviation,
    played: null,
  };
  if (gate.find === undefined || deviation === null) {
    notes.push(
      gate.find === undefined
        ? 'How many episodes the canary needs is not computed: gate.find does not say which gain should pass.'
        : `How many episodes the canary needs is not known: fewer than two live episodes have a ${gate.metric}.`,
    );
    return found;
  }
  const roles = new Set(Object.values(policies).flatMap((policy) => policy.roles)).size;
  const all = episodesForCanary(rules, {
    find: gate.find,
    deviation,
    partDeviation: deviation,
    guardrails: rules.guardrails.roles === null ? 0 : roles,
    power: gate.power ?? 0.8,
  });
  const candidate = Math.ceil(all * rules.share);
  notes.push(
    `The canary needs ${all} live episodes, ${candidate} of them of the candidate, so that a gain of ${gate.find} passes with a chance of ${gate.power ?? 0.8}.`,
  );
  if (all > rules.at_most)
    notes.push(`It ends after gate.at_most, ${rules.at_most}: a gain as small as gate.find will often not pass.`);
  return { ...found, episodes_wanted: { all, candidate } };
}

/** A canary ends with the minutes of its plan, whatever `gate.hours` says. */
export function canaryWithin(
  { minutes }: NonNullable<Plan['budget']> = {},
  { bake_hours, hours }: ReturnType<typeof canaryRulesOf>,
  { problems, notes }: Findings,
): void {
  if (minutes === undefined || hours * 60 <= minutes) return;
  const ends = `budget.minutes is ${minutes}, and a canary ends with them`;
  if (bake_hours * 60 > minutes)
    problems.push(`${ends}: it needs ${countText(bake_hours, 'hour')} (gate.bake_hours) before it may release.`);
  else notes.push(`${ends}, though gate.hours is ${hours}.`);
}

/** Of the last gate, of this kind of job, of a plan of this name. */
async function lastDeviation(db: Db, plan: string, kind: 'gate' | 'play'): Promise<number | null> {
  const [last] = await rowsOf(
    db,
    query
      .selectFrom('facts.jobs as gate')
      .innerJoin('facts.jobs as run', 'run.job_id', 'gate.parent_job_id')
      .select('gate.result')
      .where('gate.kind', '=', kind)
      .where('gate.outcome', '=', 'done')
      .where(sql<boolean>`gate.result ->> 'cut_short' is null`)
      .where(sql<string>`run.spec -> 'plan' ->> 'name'`, '=', plan)
      .orderBy('gate.finished_at', 'desc')
      .limit(1),
  );
  return (last?.result as GateReport | null | undefined)?.deviation ?? null;
}
