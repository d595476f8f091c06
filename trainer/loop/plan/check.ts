/** What a run of a plan would do now, what it needs, what it costs, and whether its gate has enough tasks. Nothing is changed by asking. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { countText, TroupeError } from '../../../errors.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import { resolveMethods } from '../../../store/evaluate/judging/judge.ts';
import { unreadRewards, unreadText } from '../../../store/evaluate/judging/unread-rewards.ts';
import { fewestTasks } from '../../../store/loop/comparison/gate.ts';
import { watchedBy } from '../../../store/loop/comparison/watch.ts';
import { openModelForIds } from '../../model/model-directory.ts';
import { countEpisodes } from '../../sample/pass-episodes.ts';
import type { Checking, PlanCheck, PolicyCheck } from './check-found.ts';
import { canaryWithin, gateCheck, mostTasks } from './check-gates.ts';
import { enginesCheck, noteMissing, playCheck, rolloutCheck } from './check-played.ts';
import { emptied, frozen, isJudgedBy, noteUnjudged, policyCheck, stepsOf, unjudged } from './check-policies.ts';
import { playingTeamCheck, teamCheck } from './check-teams.ts';
import { canaryRulesOf, rulesOf } from './gate-schema.ts';
import { playingStages, writingStages } from './plan-rollout.ts';
import { type Plan, passStage } from './plan-schema.ts';
import { lacksSignal, withoutGates } from './round-rows.ts';
import { learnsFromSignal } from './training-asked.ts';
import { startOf, taskOf } from './weights.ts';

/**
 * A run does not begin with what would keep it from its end.
 * @throws TroupeError `plan_blocked` with every problem that `checkPlan` finds
 */
export async function requireUnblocked(asked: Checking, plan: Plan): Promise<void> {
  const { problems } = await checkPlan(asked, plan);
  if (problems.length === 0) return;
  throw new TroupeError('plan_blocked', `Plan ${plan.name} was not started. ${problems.join(' ')}`, {
    hint: 'troupe plan check shows each problem on a line of its own, with rows, cost and notes; once none is left, run the plan again.',
  });
}

/**
 * Problems are certain: what the stages of the run may change before it matters, such as rows that its methods choose, is a note.
 * @param asked.folder in which datasets are frozen for the count, and removed again
 */
export async function checkPlan(asked: Checking, plan: Plan): Promise<PlanCheck> {
  const problems: string[] = [];
  const notes: string[] = [];
  await mkdir(asked.folder, { recursive: true });
  const folder = await mkdtemp(join(asked.folder, 'plan-check-'));
  try {
    noteMissing(asked, plan, notes);
    enginesCheck(asked, plan, { problems, notes });
    if (plan.rollout !== undefined) await noteUnjudged(asked.db, plan, { problems, notes });
    const rollout = await rolloutCheck(asked, plan, { problems, notes });
    if (plan.judge !== undefined)
      for (const one of await unreadRewards(asked.db, resolveMethods(plan.judge))) notes.push(unreadText(one));
    const policies: Record<string, PolicyCheck> = {};
    const heldOut = new Set<string>();
    const trained = new Set<string>();
    let unknown = false;
    for (const [name, policy] of Object.entries(plan.policies)) {
      const start = await startOf(asked.db, name, policy, null).catch((error: TroupeError) => {
        problems.push(error.message);
        return null;
      });
      if (start !== null && (policy.from ?? 'released') !== 'base' && start.directory === policy.base)
        notes.push(`${name} has no ${policy.from ?? 'released'} checkpoint yet; it starts with ${policy.base}.`);
      if (policy.base !== undefined && start !== null && start.directory !== policy.base && !existsSync(policy.base))
        notes.push(
          `There is nothing at ${policy.base}, the base of ${name}. This run does not need it; one from base, or where nothing is released any more, fails.`,
        );
      const recipe = { ...withoutGates(policy.recipe), name: `${plan.name}-${name}` };
      const dataset = rollout === null ? await frozen({ ...asked, folder }, recipe, plan, notes) : null;
      unknown ||= dataset === null;
      for (const row of stepsOf(dataset, 'held_out')) heldOut.add(taskOf(row));
      for (const row of stepsOf(dataset, 'train')) trained.add(taskOf(row));
      if (rollout === null && !dataset?.manifest.rows.train) {
        const judged = isJudgedBy(plan, recipe);
        // What a method chooses is known once it ran; that nothing is there to choose from is known now.
        const most = judged ? await frozen({ ...asked, folder }, unjudged(parseRecipe(recipe)), plan, []) : dataset;
        const silent =
          most !== null &&
          learnsFromSignal(policy) &&
          (await lacksSignal(most.manifest, most.manifest.recipe, countEpisodes(asked.db)));
        if (most?.manifest.rows.train === 0 && !silent) problems.push(emptied(name, most));
        else if (dataset !== null) notes.push(emptied(name, dataset));
      }
      policies[name] = await policyCheck(
        asked.db,
        { name, policy, start, dataset, rollout, rounds: plan.rounds ?? 1 },
        { problems, notes },
      );
    }
    for (const { model } of plan.passes ?? [])
      if (model !== undefined)
        await openModelForIds(model).catch((error: Error) => problems.push(`passes: ${error.message}`));
    for (const at of ['rollout', 'gate'] as const) await playingTeamCheck(asked.db, plan, at, problems);
    const team =
      plan.team === undefined ? null : await teamCheck(asked.db, plan.team, plan.gate.kind === 'manual', problems);
    const gateRows = plan.gate.kind === 'offline' ? plan.gate.recipe : undefined;
    const shown =
      gateRows &&
      (await frozen({ ...asked, folder }, { ...withoutGates(gateRows), name: `${plan.name}-gate` }, plan, notes));
    const compared =
      gateRows === undefined
        ? heldOut
        : new Set(
            stepsOf(shown ?? null, 'train')
              .map(taskOf)
              .filter((task) => !trained.has(task)),
          );
    const counted = plan.gate.kind === 'offline' && !unknown && shown !== null;
    const played =
      plan.gate.kind === 'play' ? await playCheck(asked, plan, plan.gate, { trained, problems, notes }) : null;
    if (
      plan.gate.kind !== 'manual' &&
      'guardrails' in plan.gate &&
      plan.gate.guardrails &&
      'usd' in plan.gate.guardrails
    )
      notes.push(
        'gate.guardrails.usd compares what the calls of an episode cost: of upstreams by their prices, of policies by those in the setting prices. If one call has no price, it has no data, and the gate does not pass.',
      );
    const tasks = played === null ? (counted ? compared.size : null) : played.tasks_of_round;
    const gate = await gateCheck(asked.db, plan, policies, { tasks, played }, notes);
    if (gate.tasks !== null && plan.gate.kind !== 'manual') {
      const fewest = fewestTasks(rulesOf(plan.gate).level);
      if (gate.tasks < fewest)
        (mostTasks(plan, gate.tasks) < fewest ? problems : notes).push(
          `The gate compares tasks that were not trained on, and there are ${gate.tasks} now; it needs at least ${fewest}, since fewer differ in one direction by chance: give it others, or train on fewer.`,
        );
    }
    if (gate.tasks !== null && gate.tasks_wanted !== null && gate.tasks < gate.tasks_wanted)
      notes.push(
        `The gate has ${countText(gate.tasks, 'task')} and wants ${gate.tasks_wanted}: a gain as small as gate.find will often not pass.`,
      );
    if (gate.gain !== null)
      notes.push(
        `With ${countText(gate.tasks!, 'task')} the gate can tell a gain of ${gate.gain}${gate.deviation === null ? ', if each reward is 0 or 1' : ''}; a smaller one will often not pass.`,
      );
    if (plan.watch !== undefined) {
      const { metric, at_least, hours } = watchedBy(plan.watch);
      notes.push(
        `A release is watched for ${countText(hours, 'hour')} by \`troupe run work\`, which \`troupe up\` starts: it needs ${at_least} live episodes with a ${metric} before it and as many after it, ${plan.team === undefined ? 'answered by the gateway' : 'which name their version by team_id'}. The first release of a policy can only go back to the model that a route of it falls back to.`,
      );
    }
    const rounds = plan.rounds ?? 1;
    const budget = plan.budget ?? null;
    if (plan.gate.kind === 'canary') canaryWithin(plan.budget, canaryRulesOf(plan.gate), { problems, notes });
    if (budget?.tokens !== undefined || budget?.usd !== undefined)
      for (const [name, { train }] of Object.entries(plan.policies))
        if (train.engine === 'command')
          notes.push(
            `The budget counts what the program ${train.use} writes to TROUPE_METRICS, such as {"step": 10, "tokens": 52000, "usd": 0.4}: what it has used until then. A program of policies.${name} that writes none of what the budget limits, not even 0, ends the run once it has trained: unknown is not 0.`,
          );
    if (budget?.usd !== undefined)
      notes.push(
        'budget.usd counts what calls cost: of upstreams by their prices, of policies by those in the setting prices, else nothing. A call of an upstream without a price cannot be counted, and ends the run.',
      );
    return { plan: plan.name, stages: stagesOf(plan), rounds, budget, policies, team, rollout, gate, problems, notes };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The stages of a round by the names that their jobs have. */
function stagesOf(plan: Plan): string[] {
  const names = Object.keys(plan.policies);
  if (plan.team?.prune !== undefined) return ['rollout', 'judge', 'prune', 'gate'];
  return [
    ...(plan.rollout ? ['serving', ...writingStages(plan), ...playingStages(plan)] : []),
    ...(plan.passes ?? []).map(passStage),
    ...(plan.judge ? ['judge'] : []),
    ...names.map((name) => `freeze-${name}`),
    ...(plan.gate.kind === 'offline' && plan.gate.recipe ? ['freeze-gate'] : []),
    ...names.map((name) => `train-${name}`),
    'gate',
  ];
}
