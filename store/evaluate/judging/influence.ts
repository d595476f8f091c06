/** What a step changed in what came after it, from log-probabilities with and without it, both by one checkpoint (Dr. MAMR). */
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type EpisodeFacts, groupOf, type StepFacts, stepKey } from './facts.ts';
import type { MethodFacts } from './method-facts.ts';
import { onwardOf } from './over-episodes.ts';
import type { RecordedPass } from './token-facts.ts';

export type Change = { readonly kept: number; readonly masked: number };

/**
 * Of each step what it changed in the next that was given it: the log-probability of that step's trained tokens given the conversation,
 * and the same with the step taken out. A text is the reason why it is not known. Steps of a group are alike where their tokens are equal.
 */
export function influencesOf(facts: MethodFacts): { readonly cluster: string; readonly change: Change | string }[] {
  const { steps, episodes, contentOf } = facts;
  const groups = new Map(episodes.map((episode) => [episode.episode_id, groupOf(episode)]));
  const places = new Map(steps.map((step, i) => [stepKey(step.episode_id, step.step_id), i]));
  // Of several later steps that were asked without it the first is the next.
  const sooner = (episode: string, a: RecordedPass, b: RecordedPass) =>
    (places.get(stepKey(episode, a.step_id)) ?? Number.POSITIVE_INFINITY) <=
    (places.get(stepKey(episode, b.step_id)) ?? Number.POSITIVE_INFINITY);
  const changes = changesOf(facts, sooner);
  return steps.map((step) => ({
    cluster: stepKey(groups.get(step.episode_id) ?? '', contentOf(step).tokens_key),
    change: changes.get(stepKey(step.episode_id, step.step_id)) ?? 'no_masked_logprobs',
  }));
}

/** Of a step what the last step of its episode, its answer, loses or wins without it; a text is the reason why it is not known. */
export function answerChangesOf(facts: MethodFacts): (step: StepFacts) => Change | string {
  const steps = groupBy(facts.steps, (step) => step.episode_id);
  const answers = new Map([...steps].map(([episode, own]) => [episode, onwardOf(own).at(-1)?.step_id]));
  const changes = changesOf(facts, (episode, a) => a.step_id === answers.get(episode));
  const asked = new Set(
    [...facts.recorded.passes].flatMap(([episode, passes]) =>
      passes.flatMap(({ pass, step_id, without }) =>
        pass === 'masked' && without !== null && step_id === answers.get(episode) ? [stepKey(episode, without)] : [],
      ),
    ),
  );
  return ({ episode_id, step_id }) => {
    const key = stepKey(episode_id, step_id);
    return asked.has(key) ? changes.get(key)! : 'no_masked_logprobs';
  };
}

/** By the `stepKey` of each step that was taken out of a prompt what that changed, or the reason why it is not known. */
function changesOf(
  { recorded: { passes, tokens } }: MethodFacts,
  preferred: (episode: string, a: RecordedPass, b: RecordedPass) => boolean,
): Map<string, Change | string> {
  const changes = new Map<string, Change | string>();
  for (const [episode, own] of passes) {
    const plain = new Map(
      own.filter(({ pass }) => pass === 'reference').map((one) => [stepKey(one.checkpoint, one.step_id), one]),
    );
    const asked = new Map<string, RecordedPass>();
    for (const one of own) {
      if (one.pass !== 'masked' || one.without === null) continue;
      const before = asked.get(one.without);
      if (before === undefined || preferred(episode, one, before)) asked.set(one.without, one);
    }
    for (const [without, masked] of asked) {
      const mask = tokens.get(stepKey(episode, masked.step_id))?.mask;
      const kept = plain.get(stepKey(masked.checkpoint, masked.step_id));
      changes.set(stepKey(episode, without), changeOf(kept, masked, mask));
    }
  }
  return changes;
}

function changeOf(
  kept: RecordedPass | undefined,
  masked: RecordedPass,
  mask: readonly (0 | 1)[] | null | undefined,
): Change | string {
  if (!kept) return 'no_reference_logprobs';
  if (!mask || mask.length !== masked.numbers.length || mask.length !== kept.numbers.length) return 'other_tokens';
  return { kept: sumOver(kept, mask), masked: sumOver(masked, mask) };
}

const sumOver = ({ numbers }: RecordedPass, mask: readonly (0 | 1)[]): number =>
  numbers.reduce((sum, number, t) => (mask[t] === 1 ? sum + number : sum), 0);

/** Whether an episode came out right: its reward where that is 0 or 1, else its outcome. */
export function rightOf({ reward, outcome }: Pick<EpisodeFacts, 'reward' | 'outcome'>): boolean | null {
  if (reward === 0 || reward === 1) return reward === 1;
  return outcome === 'success' ? true : outcome === 'failure' ? false : null;
}
