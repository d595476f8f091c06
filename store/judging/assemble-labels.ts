/**
 * How well annotators find failures. The truth is a failure that a person named (`by` human) or that the environment put there (`by` env);
 * what anybody else named is a prediction by its annotator. What is said of an annotator is said over everything that is judged
 * together, and stands under `s/<annotator>`.
 */
import { mastCode } from '../methods/mast.ts';
import { runMethod } from '../methods/run.ts';
import { groupBy } from '../methods/statistics.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import type { FeedbackFact } from './episode-facts.ts';
import { type EpisodeFacts, stepKey } from './facts.ts';
import { type Judgement, score } from './judgement.ts';
import { numberOf } from './named-feedback.ts';

/** Feedback of kind failure with this name says who made the mistake that decided, and where; any other name is a failure mode. */
const MISTAKE = 'mistake';

const isTrue = ({ by }: FeedbackFact): boolean => by === 'human' || by === 'env';
const annotatorOf = ({ annotator, by }: FeedbackFact): string => annotator ?? by ?? 'unknown';

type Labelled = {
  readonly episode: EpisodeFacts;
  readonly gold: readonly FeedbackFact[];
  readonly said: ReadonlyMap<string, FeedbackFact[]>;
};

/** The failures of each episode that somebody says are true, apart from what annotators predict; and who predicted anything at all. */
function labelled(
  { episodes, feedback }: Assembled,
  counts: (fact: FeedbackFact) => boolean,
): { cases: Labelled[]; annotators: string[] } {
  const annotators = new Set<string>();
  const cases = episodes.map((episode) => {
    const facts = (feedback.get(episode.episode_id) ?? []).filter((fact) => fact.kind === 'failure' && counts(fact));
    const said = groupBy(
      facts.filter((fact) => !isTrue(fact)),
      annotatorOf,
    );
    for (const annotator of said.keys()) annotators.add(annotator);
    return { episode, gold: facts.filter(isTrue), said };
  });
  return { cases: cases.filter(({ gold }) => gold.length > 0), annotators: [...annotators].sort() };
}

const agentsBySteps = ({ steps }: Assembled): ReadonlyMap<string, string | null> =>
  new Map(steps.map(({ episode_id, step_id, agent }) => [stepKey(episode_id, step_id), agent]));

const agentIn = (agents: ReadonlyMap<string, string | null>, { target_kind, target_id, episode_id }: FeedbackFact) =>
  target_kind === 'agent' ? target_id : (agents.get(stepKey(episode_id, target_id ?? '')) ?? null);

/**
 * A case is an episode with a true mistake; the last one counts, on both sides. The step is the number of the entry where the record counts
 * entries, else the step that is the target. The value is the share of right agents; the share of right steps stands beside it.
 */
const byMistake: Assemble = (method, params, facts) => {
  const agents = agentsBySteps(facts);
  const placeOf = (fact: FeedbackFact) => fact.entry ?? (fact.target_kind === 'step' ? fact.target_id : null);
  const { cases, annotators } = labelled(facts, ({ name }) => name === MISTAKE);
  const known = cases.flatMap(({ gold, said }) => {
    const fact = gold.at(-1)!;
    const [true_agent, true_step] = [agentIn(agents, fact), placeOf(fact)];
    return true_agent === null || true_step === null ? [] : [{ true_agent, true_step, said }];
  });
  const reason = known.length === 0 ? 'no_truth' : annotators.length === 0 ? 'no_predictions' : null;
  if (reason !== null) return [score(`s/${MISTAKE}`, null, reason)];
  return annotators.map((annotator) => {
    const rows = known.map(({ true_agent, true_step, said }) => {
      const fact = said.get(annotator)?.at(-1);
      return {
        true_agent,
        true_step,
        pred_agent: fact ? agentIn(agents, fact) : null,
        pred_step: fact ? placeOf(fact) : null,
      };
    });
    const output = runMethod(method, { cases: rows, ...params }) as { agent: number; step: number };
    return score(`s/${annotator}`, output.agent, null, { ...output, cases: rows.length });
  });
};

/** A mode that was denied was not found. */
const isMode = (fact: FeedbackFact): boolean => fact.name !== MISTAKE && numberOf(fact) !== 0;
const modeOf = ({ name }: FeedbackFact): string => mastCode(name) ?? name;

/** A case is an episode with a true failure mode. The value is the micro F1 of pairs of agent and mode; the others stand beside it. */
const byMode: Assemble = (method, params, facts) => {
  const agents = agentsBySteps(facts);
  const pairs = (said: readonly FeedbackFact[]) =>
    said.flatMap((fact) => {
      const agent = agentIn(agents, fact);
      return agent === null ? [] : [[agent, modeOf(fact)]];
    });
  const { cases, annotators } = labelled(facts, isMode);
  const known = cases.map(({ gold, said }) => ({ gold: pairs(gold), said })).filter(({ gold }) => gold.length > 0);
  const reason = known.length === 0 ? 'no_truth' : annotators.length === 0 ? 'no_predictions' : null;
  if (reason !== null) return [score('s/modes', null, reason)];
  return annotators.map((annotator) => {
    const rows = known.map(({ gold, said }) => ({ gold, pred: pairs(said.get(annotator) ?? []) }));
    const output = runMethod(method, { cases: rows, ...params }) as { pair: { micro: number } };
    return score(`s/${annotator}`, output.pair.micro, null, { ...output, cases: rows.length });
  });
};

/** A label as two annotators are compared by: its word, else its number, a truth value being 1 or 0; a failure without either is found. */
const labelOf = (fact: FeedbackFact): string | null => {
  if (fact.label !== null) return fact.label;
  if (typeof fact.value_json === 'string') return fact.value_json;
  const number = numberOf(fact) ?? (fact.kind === 'failure' && fact.value_json === null ? 1 : null);
  return number === null ? null : String(number);
};

/**
 * For every two annotators over what both of them labelled: one target under one name, the last label of each. The key of the row is
 * `s/<one>~<other>`, in the order of their names.
 */
const byAnnotators: Assemble = (method, params, { episodes, feedback }) => {
  const labels = new Map<string, Map<string, string>>();
  for (const { episode_id } of episodes) {
    for (const fact of feedback.get(episode_id) ?? []) {
      const label = labelOf(fact);
      if ((fact.kind !== 'label' && fact.kind !== 'failure') || label === null) continue;
      if (fact.annotator === null && fact.by === null) continue;
      const item = JSON.stringify([episode_id, fact.target_kind, fact.target_id, fact.entry, fact.name]);
      const own = labels.get(annotatorOf(fact)) ?? new Map<string, string>();
      labels.set(annotatorOf(fact), own.set(item, label));
    }
  }
  const annotators = [...labels.keys()].sort();
  const rows = annotators.flatMap((one, i) =>
    annotators.slice(i + 1).flatMap((other): Judgement[] => {
      const shared = [...labels.get(one)!.keys()].filter((item) => labels.get(other)!.has(item));
      if (shared.length === 0) return [];
      const column = (annotator: string) => shared.map((item) => labels.get(annotator)!.get(item)!);
      const value = runMethod(method, { a: column(one), b: column(other), ...params }) as number;
      return [score(`s/${one}~${other}`, value, null, { labels: shared.length })];
    }),
  );
  return rows.length > 0 ? rows : [score('s/annotators', null, 'no_common_labels')];
};

/**
 * A trace is an episode that somebody looked at for failure modes, its codes those that anybody found in it. Names that are no code of
 * the taxonomy are counted and left out. How often each mode occurs stands in the detail; there is no one number.
 */
const byModes: Assemble = (method, params, { episodes, feedback }) => {
  const looked = episodes.flatMap(({ episode_id }) => {
    const facts = (feedback.get(episode_id) ?? []).filter(({ kind, name }) => kind === 'failure' && name !== MISTAKE);
    return facts.length === 0 ? [] : [facts];
  });
  const unlabelled = episodes.length - looked.length;
  if (looked.length === 0) return [score('s/modes', null, 'no_labels', { unlabelled })];
  const known = looked.map((facts) => facts.filter(({ name }) => mastCode(name) !== null));
  const traces = known.map((facts) => facts.filter(isMode).map(({ name }) => name));
  const other_names = looked.flat().length - known.flat().length;
  const output = runMethod(method, { traces, ...params }) as object;
  return [score('s/modes', null, 'see_detail', { ...output, traces: traces.length, unlabelled, other_names })];
};

const about = { reads: ['feedback'], writes: ['scores'], scope: 'set' } as const;
export const LABEL_ASSEMBLERS: Assemblers = {
  'blamed steps and truth': { blame: { over: byMistake, ...about } },
  'blamed modes and truth': { blame: { over: byMode, ...about } },
  'labels of two annotators': { blame: { over: byAnnotators, ...about } },
  'failure modes': { blame: { over: byModes, ...about } },
};
