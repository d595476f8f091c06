/** What the judge needs to know of a method, and how it runs it over assembled facts. */
import { TroupeError } from '../../../errors.ts';
import type { Application, Method, UnitResult } from '../methods/method.ts';
import { askOf } from '../methods/run.ts';
import { nobody } from './blame-rows.ts';
import type { EpisodeFacts } from './facts.ts';
import { credit, type Judgement, type JudgementTable, reward, score, verdictOn } from './judgement.ts';
import type { FactKind, MethodFacts } from './method-facts.ts';
import { type Over, type Units, walk } from './walk.ts';

type Params = Readonly<Record<string, unknown>>;

/** @throws TroupeError `method_input` for a method that can only be run by hand. */
export function requireJudged(method: Method): Application {
  if (method.judged) return method.judged;
  throw new TroupeError(
    'method_input',
    `${method.name} needs an input of its own, which is not stored; run it with \`troupe method run ${method.name} < input.json\`.`,
  );
}

/** What must be read before the method can be run. */
export function readingsOf(method: Method, params: Params): readonly FactKind[] {
  const judged = requireJudged(method);
  return [...(judged.reads ?? []), ...(judged.readsWith?.(params) ?? [])];
}

/** True for a method that compares rewards of steps, and so may take those of a reward method in place of the recorded ones. */
export const readsRewards = ({ judged }: Method): boolean => judged?.reads?.includes('rewards') ?? false;

const TABLE_OF_KIND: Partial<Record<Method['kind'], JudgementTable>> = {
  filter: 'verdicts',
  score: 'scores',
  reward: 'rewards',
  credit: 'credits',
  process: 'credits',
  blame: 'blames',
};

/** The tables in which a method may have rows; a reason why there is no reward stands in a score of the episode. */
export function tablesOf(method: Method): readonly JudgementTable[] {
  const own = TABLE_OF_KIND[method.kind];
  return requireJudged(method).writes ?? (own === undefined ? [] : [own]);
}

/**
 * Runs a method over assembled facts. Facts that the method refuses (such as rewards too large to compute with) give rows without a
 * value and the refusal as the reason, so that a judging can always be repeated.
 * @throws TroupeError `method_input` for a method that can only be run by hand.
 */
export function runOver(method: Method, params: Params, facts: MethodFacts): Judgement[] {
  const judged = requireJudged(method);
  const ask = askOf(method, params);
  try {
    if (judged.over === undefined) return judged.rows(facts, ask);
    const blanks = {
      step: method.kind === 'reward' ? reward : credit,
      episode: (episode: EpisodeFacts, reason: string) => without(method, episode, reason),
    };
    const each = judged.each(facts, ask) as (unit: Units[Over]) => UnitResult;
    return walk<Over>(judged.over, facts, blanks, (unit) => {
      const found = each(unit);
      if (typeof found === 'string' || !('input' in found)) return found;
      const output = ask.answer(found.input);
      return typeof output === 'string' ? output : found.rows(output);
    });
  } catch (error) {
    if (!(error instanceof TroupeError) || error.code !== 'method_input') throw error;
    const { message } = error;
    return method.kind === 'credit' || method.kind === 'process'
      ? facts.steps.map((step) => credit(step, null, message))
      : facts.episodes.map((episode) => without(method, episode, message));
  }
}

/** The row of an episode without a result of the method. */
function without({ kind }: Method, episode: EpisodeFacts, reason: string): Judgement {
  if (kind === 'filter') return verdictOn(episode, null, reason);
  return kind === 'blame' ? nobody(episode, reason) : score(`e/${episode.episode_id}`, null, reason);
}
