/** TRL, SFTTrainer with rows that are tokens already: as they were sampled, so that no template writes them anew. */
import { type Layout, LEARNS_ALL } from './layout.ts';
import { ID_SHAPES, TRL_HOLDS, weightShape } from './trl-message.ts';
import type { Tokens, Turn } from './turn.ts';

/** The label of a token that is not learnt. */
const IGNORED = -100;

export const trlTokens: Layout = {
  name: 'trl-tokens',
  about: 'TRL SFTTrainer: input_ids as sampled, labels -100 where nothing is learnt, logprobs of the answer',
  // The text is in the tokens, as the template of the model that sampled them wrote it.
  refuses: LEARNS_ALL,
  holds: new Set([
    ...TRL_HOLDS,
    ...(['tool definitions', 'token ids', 'log-probabilities', 'reward', 'advantage'] as const),
    ...(['weight', 'step ids'] as const),
  ]),
  files(splits, { leftOut }) {
    const ids = { list: 'int' } as const;
    const values = { logprobs: { list: 'number' }, reward: 'number', advantage: 'number' } as const;
    const weight = weightShape(splits.flatMap(({ turns }) => turns));
    const shapes = { input_ids: ids, labels: ids, ...values, ...weight, ...ID_SHAPES };
    return splits.map(({ split, turns }) => {
      const rows = turns.flatMap(({ tokens, reward, advantage, weight, episode_id, step_id }: Turn) => {
        const labels = tokens === null ? [] : labelsOf(tokens);
        if (tokens === null) leftOut.add('no token ids were recorded');
        else if (labels.every((label) => label === IGNORED)) leftOut.add('no token of the answer is learnt');
        else {
          const { prompt, answer, logprobs } = tokens;
          return [
            { input_ids: [...prompt, ...answer], labels, logprobs, reward, advantage, weight, episode_id, step_id },
          ];
        }
        return [];
      });
      return { name: `${split}.parquet`, kind: 'parquet', split, shapes, rows };
    });
  },
};

const labelsOf = ({ prompt, answer, mask }: Tokens): readonly number[] => [
  ...prompt.map(() => IGNORED),
  ...answer.map((token, i) => (mask === null || mask[i] === 1 ? token : IGNORED)),
];
