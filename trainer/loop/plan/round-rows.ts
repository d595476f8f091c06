/** Which rows the policies of a round learn from: those of its own episodes, and none that a gate played. */
import { TroupeError } from '../../../errors.ts';
import { hasParams } from '../../../store/datasets/chosen-methods.ts';
import { type FunnelStage, whyEmpty } from '../../../store/datasets/manifest.ts';
import type { MethodChoice, Recipe } from '../../../store/datasets/recipe.ts';
import { resolveMethods } from '../../../store/evaluate/judging/judge.ts';
import { pinnedTo } from '../../../store/filter/filter-check.ts';
import { type Filter, looksAtJudgement, parseFilter, splitFilter } from '../../../store/filter/select.ts';
import { beforeSignal, type CountEpisodes } from '../../learn/signal.ts';
import type { Plan, PlanPolicy } from './plan-schema.ts';

/** What a job of kind `freeze` came to. */
export type FrozenRows = {
  readonly dataset_id: string;
  readonly directory: string;
  readonly rows: Readonly<Record<string, number>>;
  readonly funnel: readonly FunnelStage[];
};

/**
 * The recipe with the parameters that the plan judges by, where it names a method of the plan and not which parameters: what was judged
 * with others before is not meant. A method that the plan runs twice, or not at all, stays as it is.
 */
export async function asJudged(recipe: Recipe, judge: NonNullable<Plan['judge']> = []): Promise<Recipe> {
  const runs = (await resolveMethods(judge)).map(({ params, reads, ...run }) => ({
    ...run,
    params: reads === null ? params : { ...params, reads },
  }));
  const chosen = <Choice extends MethodChoice>(choice: Choice): Choice => {
    const [run, ...more] = runs.filter(
      ({ name, version, params }) =>
        name === choice.method && version === (choice.version ?? version) && hasParams(params, choice.params ?? {}),
    );
    if (choice.method_key !== null || run === undefined || more.length > 0) return choice;
    return { ...choice, version: run.version, params: run.params };
  };
  return {
    ...recipe,
    where: recipe.where && pinnedTo(recipe.where, runs),
    verdicts: recipe.verdicts.map(chosen),
    reward: recipe.reward && chosen(recipe.reward),
    credit: recipe.credit && chosen(recipe.credit),
  };
}

type RoundRecipe = Omit<PlanPolicy['recipe'], 'where'> & { readonly where?: unknown };

/** Episodes that no gate played: a candidate that learned from those would be compared on what it was trained on. */
const NO_GATE: Filter = { field: 'tags.gate', op: 'is null' };

/** A recipe that takes no episode of a gate. */
export const withoutGates = (recipe: RoundRecipe): RoundRecipe => ({
  ...recipe,
  where: { and: [NO_GATE, ...(recipe.where ? [parseFilter(recipe.where)] : [])] },
});

/** The recipe of a policy, which takes nothing else where the round has episodes of its own. */
export const withinRound = (recipe: PlanPolicy['recipe'], taken: Filter | null): RoundRecipe => {
  const own = recipe.where ? [parseFilter(recipe.where)] : [];
  return taken === null ? recipe : { ...recipe, where: { and: [taken, ...own] } };
};

/** Episodes that a recipe of the plan may take, once they are judged; null where one takes all. */
export function whereOf(plan: Plan, taken: Filter | null): Filter | null {
  const recipes: RoundRecipe[] = Object.values(plan.policies).map(({ recipe }) => withinRound(recipe, taken));
  if (plan.gate.kind === 'offline' && plan.gate.recipe) recipes.push(plan.gate.recipe);
  const filters = recipes.map(({ where }) =>
    splitFilter(where ? parseFilter(where) : null).episode.filter((part) => !looksAtJudgement(part)),
  );
  if (filters.some((parts) => parts.length === 0)) return null;
  return { or: filters.map((and) => ({ and })) };
}

/** A condition on steps that leaves out what carries no signal. An advantage that is null is one that nobody could compute, which is a fault. */
const SIGNAL = /^where advantage (?!is not null)/;

/** Whether rows were there, and none of their groups carried a signal. */
export async function lacksSignal(
  { rows, funnel }: Pick<FrozenRows, 'rows' | 'funnel'>,
  { where }: Pick<Recipe, 'where'>,
  count: CountEpisodes,
): Promise<boolean> {
  if ((rows.train ?? 0) > 0) return false;
  const stage = funnel.find(({ before, after }) => before !== 0 && after === 0);
  if (stage === undefined || stage.of === 'pairs' || SIGNAL.test(stage.name)) return stage !== undefined;
  const others = stage.of === 'episodes' ? beforeSignal(where) : undefined;
  return others !== undefined && (await count(others)) > 0;
}

/** @throws TroupeError `training_failed` with the step of the funnel that left no row, and what those before it took */
export function requireRows(name: string, { rows, funnel }: FrozenRows): void {
  if ((rows.train ?? 0) > 0) return;
  throw new TroupeError('training_failed', `There is nothing to learn for ${name}: ${whyEmpty(funnel)}.`, {
    hint: 'troupe plan check shows how many rows each recipe has.',
  });
}
