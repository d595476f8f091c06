/**
 * Dr. MAMR: what a step changed, from log-probabilities with and without it, both by one checkpoint.
 */
import { causalInfluence } from '../methods/credit/causal-influence.ts';
import { restartReward } from '../methods/credit/restart-reward.ts';
import { runMethod } from '../methods/run.ts';
import { groupBy } from '../methods/statistics.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import { type EpisodeFacts, groupOf, type StepFacts, stepKey } from './facts.ts';
import { credit, type Judgement } from './judgement.ts';
import { listsOn, numbersOn } from './named-feedback.ts';
import { answerTo, onwardOf, overEpisodes, overGroups } from './over-episodes.ts';
import { mixedIn } from './policy-versions.ts';
import type { RecordedPass } from './token-facts.ts';

/**
 * Influence of a step on the next that was told it: the log-probability of that step's trained tokens given what was said, minus the
 * same with the step taken out. Steps of a group are alike where their tokens are equal.
 */
const byInfluence: Assemble = (method, params, facts) => {
  const { steps, episodes, contentOf } = facts;
  const groups = new Map(episodes.map((episode) => [episode.episode_id, groupOf(episode)]));
  const places = new Map(steps.map((step, i) => [stepKey(step.episode_id, step.step_id), i]));
  // Of several later steps that were asked without it the first is the next.
  const sooner = (episode: string, a: RecordedPass, b: RecordedPass) =>
    (places.get(stepKey(episode, a.step_id)) ?? Number.POSITIVE_INFINITY) <=
    (places.get(stepKey(episode, b.step_id)) ?? Number.POSITIVE_INFINITY);
  const changes = changesOf(facts, sooner);
  const rows = steps.map((step) => ({
    step,
    delta: changes.get(stepKey(step.episode_id, step.step_id)) ?? 'no_masked_logprobs',
  }));
  const known = rows.flatMap(({ step, delta }) => (typeof delta === 'object' ? [{ step, delta }] : []));
  const output = runMethod(method, {
    cluster: known.map(({ step }) => stepKey(groups.get(step.episode_id) ?? '', contentOf(step).tokens_key)),
    delta: known.map(({ delta }) => delta.kept - delta.masked),
    ...params,
  }) as number[];
  const values = new Map(known.map(({ step }, i) => [step, output[i] ?? null]));
  return rows.map(({ step, delta }) =>
    typeof delta === 'string' ? credit(step, null, delta) : credit(step, values.get(step) ?? null, null),
  );
};

type Change = { readonly kept: number; readonly masked: number };

/** By the `stepKey` of each step that was taken out of a prompt what that changed, or the reason why it is not known. */
function changesOf(
  { recorded: { passes, tokens } }: Assembled,
  preferred: (episode: string, a: RecordedPass, b: RecordedPass) => boolean,
): Map<string, Change | string> {
  const changes = new Map<string, Change | string>();
  for (const [episode, said] of passes) {
    const plain = new Map(
      said.filter(({ pass }) => pass === 'reference').map((one) => [stepKey(one.checkpoint, one.step_id), one]),
    );
    const asked = new Map<string, RecordedPass>();
    for (const one of said) {
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
function rightOf({ reward, outcome }: EpisodeFacts): boolean | null {
  if (reward === 0 || reward === 1) return reward === 1;
  return outcome === 'success' ? true : outcome === 'failure' ? false : null;
}

/** What the last step of the episode, its answer, loses or wins without a step. */
const byRestart: Assemble = (method, params, facts) => {
  const steps = groupBy(facts.steps, (step) => step.episode_id);
  const answers = new Map([...steps].map(([episode, own]) => [episode, onwardOf(own).at(-1)?.step_id]));
  const changes = changesOf(facts, (episode, a) => a.step_id === answers.get(episode));
  const asked = new Set(
    [...facts.recorded.passes].flatMap(([episode, said]) =>
      said.flatMap(({ pass, step_id, without }) =>
        pass === 'masked' && without !== null && step_id === answers.get(episode) ? [stepKey(episode, without)] : [],
      ),
    ),
  );
  return overEpisodes(method, facts, (episode, own) => {
    const correct = rightOf(episode);
    if (correct === null) return 'unknown_outcome';
    return own.map((step) => {
      const key = stepKey(step.episode_id, step.step_id);
      const change = asked.has(key) ? changes.get(key)! : 'no_masked_logprobs';
      if (typeof change === 'string') return credit(step, null, change);
      const input = { correct, logp_without_history: change.masked, logp_with_history: change.kept };
      const value = answerTo<number>(method, { ...input, ...params });
      return typeof value === 'string' ? credit(step, null, value) : credit(step, value, null);
    });
  });
};

/**
 * All steps of a group together. Influence and restart are feedback of these names on the step, else what their methods make of recorded
 * passes. A step that lacks one of them leaves the group.
 */
const byInfluenceAndRestart: Assemble = (method, params, facts) => {
  const influence = partOf(facts, 'influence', byInfluence(causalInfluence, {}, facts));
  const restart = partOf(facts, 'restart', byRestart(restartReward, {}, facts));
  const mixed = mixedIn(facts);
  return overGroups(method, facts, (members) => {
    const rows = members.flatMap(({ steps }) =>
      steps.map((step) => ({
        step,
        outcome: facts.rewardOf(step),
        influence: influence(step),
        restart: restart(step),
      })),
    );
    const reasonOf = (row: (typeof rows)[number]) =>
      row.outcome === null
        ? 'missing_reward'
        : row.influence === null
          ? 'no_influence'
          : row.restart === null
            ? 'no_restart'
            : null;
    const known = rows.filter((row) => reasonOf(row) === null);
    const output = answerTo<number[]>(method, {
      outcome: known.map((row) => row.outcome),
      influence: known.map((row) => row.influence),
      restart: known.map((row) => row.restart),
      ...params,
    });
    if (typeof output === 'string') return output;
    const values = new Map(known.map(({ step }, i) => [step, output[i] ?? null]));
    return rows.map((row) => {
      const reason = reasonOf(row) ?? (mixed(row.step.episode_id) ? 'mixed_policies' : null);
      return credit(row.step, values.get(row.step) ?? null, reason);
    });
  });
};

function partOf(facts: Assembled, name: string, judged: readonly Judgement[]): (step: StepFacts) => number | null {
  const recorded = numbersOn(facts.feedback, 'step', name);
  const computed = new Map(
    judged.flatMap((row) =>
      row.table === 'credits' && row.value !== null ? [[stepKey(row.episode_id, row.step_id), row.value] as const] : [],
    ),
  );
  return ({ episode_id, step_id }) => {
    const key = stepKey(episode_id, step_id);
    return recorded.get(key) ?? computed.get(key) ?? null;
  };
}

/** The credit of a step is the number of its cluster in its group; `embedding` is feedback on the step. */
const byEmbedding: Assemble = (method, params, facts) => {
  const embeddings = listsOn(facts.feedback, 'step', 'embedding');
  return overGroups(method, facts, (members) => {
    const steps = members.flatMap((member) => member.steps);
    const of = (step: StepFacts) => embeddings.get(stepKey(step.episode_id, step.step_id));
    const width = steps.map((step) => of(step)?.length).find((length) => length !== undefined);
    const known = steps.filter((step) => of(step) !== undefined && of(step)!.length === width);
    const output = answerTo<number[]>(method, { embeddings: known.map(of), ...params });
    if (typeof output === 'string') return output;
    const values = new Map(known.map((step, i) => [step, output[i] ?? null]));
    return steps.map((step) =>
      credit(
        step,
        values.get(step) ?? null,
        values.has(step) ? null : of(step) === undefined ? 'no_embedding' : 'other_dimension',
      ),
    );
  });
};

const writes = ['credits', 'scores'] as const;
export const INFLUENCE_ASSEMBLERS: Assemblers = {
  'masked log-probabilities': { credit: { over: byInfluence, reads: ['passes', 'content'] } },
  'masked log-probabilities of the answer': { credit: { over: byRestart, reads: ['passes'], writes } },
  'outcome, influence and restart': {
    credit: { over: byInfluenceAndRestart, reads: ['passes', 'content', 'feedback'], writes },
  },
  embeddings: { credit: { over: byEmbedding, reads: ['feedback'], writes } },
};
