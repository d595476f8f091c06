/** Generalised advantage estimation over tokens, and whitening, as in verl. */

import { type Static, Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type StepFacts, stepKey } from '../judging/facts.ts';
import { credit, type Judgement } from '../judging/judgement.ts';
import type { TokenFacts } from '../judging/token-facts.ts';
import { type Ask, method } from './method.ts';
import { refuseInput, requireRows } from './refuse.ts';
import { Bit, type Immutable } from './shapes.ts';

const Column = Type.Array(Type.Number());
const Input = Type.Object({ rewards: Column, values: Column, mask: Type.Array(Bit) });
const params = { gamma: 1, lambda: 1 };
const Discount = Type.Number({ minimum: 0, maximum: 1 });

type Estimate = { readonly advantages: readonly number[]; readonly returns: readonly number[] };

/**
 * Generalised advantage estimation over the tokens of a sequence, passing through what the policy did not write.
 *
 * Source: verl, verl/trainer/ppo/core_algos.py (compute_gae_advantage_return). Verified (code). A token with mask 0 (an observation) keeps
 * the next value and the running sum of what follows it. Returns are taken before any whitening. γ and λ default to verl's 1.
 * Kept: no bootstrap after the last token. Dropped: whitening, which is `masked_whiten`. Open: nothing known.
 */
export const gae = method({
  name: 'gae',
  kind: 'credit',
  source: 'GAE: verl/trainer/ppo/core_algos.py; verified (code)',
  version: 1,
  summary: 'Generalised advantages and returns over tokens; masked tokens are passed through.',
  params,
  limits: { gamma: Discount, lambda: Discount },
  input: Input,
  run: ({ rewards, values, mask }, { gamma, lambda }): Estimate => {
    requireRows('values', values, rewards.length, 'rewards');
    requireRows('mask', mask, rewards.length, 'rewards');
    const advantages: number[] = new Array(rewards.length);
    const returns: number[] = new Array(rewards.length);
    let nextValue = 0;
    let last = 0;
    for (let t = rewards.length - 1; t >= 0; t--) {
      if (mask[t] === 1) {
        const delta = rewards[t]! + gamma * nextValue - values[t]!;
        last = delta + gamma * lambda * last;
        nextValue = values[t]!;
      }
      advantages[t] = last;
      returns[t] = last + values[t]!;
    }
    return { advantages, returns };
  },
  judged: {
    reads: ['rewards', 'passes'],
    /**
     * Generalised advantages over recorded values. The steps of one agent in one episode, in their order, are one sequence: a token's
     * next value may be that of the agent's next step. A candidate that the conversation did not go on from is a sequence of its own,
     * and earns only a reward of its own. The recorded reward of the episode stands at the last trained token of the last step;
     * rewards of steps that another method computed stand at the last trained token of each.
     *
     * The credit of a step is the mean over its trained tokens; each token's advantage and return stand in its detail.
     */
    rows: (facts, ask) => {
      const values = lastValues(facts.recorded);
      const tokensOf = (step: StepFacts) => facts.recorded.tokens.get(stepKey(step.episode_id, step.step_id));
      const onward = (step: StepFacts) => tokensOf(step)?.onward ?? false;
      /** What a step brings to its sequence, or the reason why it cannot. */
      const pieceOf = (step: StepFacts, last: boolean): Piece | string => {
        const mask = tokensOf(step)?.mask;
        if (!mask) return 'no_token_ids';
        const value = values.get(step.episode_id)?.numbers.get(step.step_id);
        if (value?.length !== mask.length) return 'no_token_values';
        const reward = facts.ownRewards || last ? facts.rewardOf(step) : 0;
        if (reward === null) return 'missing_reward';
        // A method that passes over what the model did not choose would pass over the reward there too.
        if (reward !== 0 && !mask.includes(1)) return 'no_trained_tokens';
        return { step, values: value, mask, reward };
      };

      return sequencesOf(facts.steps, onward).flatMap((sequence) => {
        const without = (reason: string) => sequence.map((step) => credit(step, null, reason));
        const first = sequence[0] as StepFacts;
        if (!facts.ownRewards && !onward(first)) return without('not_chosen');
        const pieces = sequence.map((step, i) => pieceOf(step, i === sequence.length - 1));
        const reason = pieces.find((piece) => typeof piece === 'string');
        if (reason !== undefined) return without(reason);
        return advantagesOf(pieces as Piece[], values.get(first.episode_id)?.checkpoint ?? null, ask);
      });
    },
  },
});

/** What of a step stands in a sequence: its values, its mask, and what it earns at its last trained token. */
type Piece = {
  readonly step: StepFacts;
  readonly values: readonly number[];
  readonly mask: readonly (0 | 1)[];
  readonly reward: number;
};

/** The steps of an agent that an episode went on from, and each other step alone. */
function sequencesOf(steps: readonly StepFacts[], onward: (step: StepFacts) => boolean): StepFacts[][] {
  return [...groupBy(steps, ({ episode_id, agent }) => stepKey(episode_id, agent ?? '')).values()].flatMap((own) => {
    const chain = own.filter(onward);
    const others = own.filter((step) => !onward(step)).map((step) => [step]);
    return chain.length === 0 ? others : [chain, ...others];
  });
}

type Values = { readonly checkpoint: string; readonly numbers: ReadonlyMap<string, readonly number[]> };

/** By episode the values that the checkpoint of its last such pass gave, by step. */
function lastValues({ passes }: TokenFacts): Map<string, Values> {
  const found = new Map<string, Values>();
  for (const [episode, pass] of passes) {
    const values = pass.filter(({ pass }) => pass === 'values');
    const checkpoint = values.at(-1)?.checkpoint;
    if (checkpoint === undefined) continue;
    const own = values.filter((one) => one.checkpoint === checkpoint);
    found.set(episode, { checkpoint, numbers: new Map(own.map(({ step_id, numbers }) => [step_id, numbers])) });
  }
  return found;
}

function advantagesOf(
  pieces: readonly Piece[],
  checkpoint: string | null,
  { answer }: Pick<Ask<Immutable<Static<typeof Input>>, typeof params, Estimate>, 'answer'>,
): Judgement[] {
  const rewards = pieces.flatMap(({ mask, reward }) => {
    const last = mask.lastIndexOf(1);
    return mask.map((_, t) => (t === last ? reward : 0));
  });
  const output = answer({
    rewards,
    values: pieces.flatMap(({ values }) => values),
    mask: pieces.flatMap(({ mask }) => mask),
  });
  if (typeof output === 'string') return pieces.map(({ step }) => credit(step, null, output));
  let begin = 0;
  return pieces.map(({ step, mask }) => {
    const end = begin + mask.length;
    const advantages = output.advantages.slice(begin, end);
    const returns = output.returns.slice(begin, end);
    begin = end;
    const trained = advantages.filter((_, t) => mask[t] === 1);
    if (trained.length === 0) return credit(step, null, 'no_trained_tokens');
    const mean = trained.reduce((sum, advantage) => sum + advantage, 0) / trained.length;
    return credit(step, mean, null, { checkpoint_id: checkpoint, advantages, returns });
  });
}

/**
 * Advantages of a batch brought to mean 0 and std 1 over the tokens that count.
 *
 * Source: verl, verl/utils/torch_functional.py (masked_whiten). Verified (code). eps 1e-8 is added to the count and to the variance, which has
 * the correction n/(n − 1). Fewer than two tokens are an error. Tokens with mask 0 come out as 0, and so do all where those that count are
 * equal: in the source's 32 bits 1e-8 disappears beside the count, in 64 bits it would leave a remainder.
 * The values are another method's advantages over a training batch, which the trainer puts together: it is run by hand.
 * Kept: n/(n − 1), both eps. Dropped: the variant that keeps the mean. Open: nothing known.
 */
export const maskedWhiten = method({
  name: 'masked_whiten',
  kind: 'credit',
  source: 'verl/utils/torch_functional.py; verified (code)',
  version: 1,
  summary: 'Subtracts the masked mean and divides by the masked std.',
  input: Type.Object({ values: Type.Array(Type.Number()), mask: Type.Array(Bit) }),
  run: ({ values, mask }): number[] => {
    requireRows('mask', mask, values.length, 'values');
    let n = 0;
    let total = 0;
    let first = Number.NaN;
    let equal = true;
    for (let i = 0; i < values.length; i++) {
      if (mask[i] !== 1) continue;
      const value = values[i]!;
      if (n === 0) first = value;
      else if (value !== first) equal = false;
      n++;
      total += value;
    }
    if (n <= 1) refuseInput('mask', 'at least two entries of 1', `${n}`);
    if (equal) return values.map(() => 0);
    const centre = total / (n + 1e-8);
    let squares = 0;
    for (let i = 0; i < values.length; i++) if (mask[i] === 1) squares += (values[i]! - centre) ** 2;
    const deviation = Math.sqrt(((squares / (n + 1e-8)) * n) / (n - 1) + 1e-8);
    // A copy has room for doubles from the start; an array that is filled with 0 first is moved as a whole at the first of them.
    const whitened = values.slice();
    for (let i = 0; i < values.length; i++) whitened[i] = mask[i] === 1 ? (values[i]! - centre) / deviation : 0;
    return whitened;
  },
});
