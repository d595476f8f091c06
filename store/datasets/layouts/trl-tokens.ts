/** TRL, SFTTrainer with rows that are tokens already: as they were sampled, so that no template writes them anew. */
import { type Layout, LEARNS_ALL } from './layout.ts';
import { ID_SHAPES, TRL_HOLDS, weightShape } from './trl-message.ts';
import type { LayoutTurn, Tokens } from './turn.ts';

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
  files(splits, { leftOut, notHeld }) {
    const ids = { list: 'int' } as const;
    const values = { logprobs: { list: 'number' }, reward: 'number', advantage: 'number' } as const;
    const weight = weightShape(splits.flatMap(({ turns }) => turns));
    const shapes = { input_ids: ids, labels: ids, ...values, ...weight, ...ID_SHAPES };
    return splits.map(({ split, turns }) => {
      const rows = rowsOf(turns).flatMap((row) => {
        if (!isSampled(row)) {
          leftOut.add('no token ids of prompt and answer were recorded', row.length);
          return [];
        }
        const labels = labelsOf(row);
        if (labels.every((label) => label === IGNORED)) {
          leftOut.add('no token of the answer is learnt');
          return [];
        }
        const { tokens, weight, episode_id, step_id } = row.at(-1)!;
        const logprobs = row.every((turn) => turn.tokens.logprobs)
          ? row.flatMap((turn) => turn.tokens.logprobs!)
          : null;
        const one = (name: 'reward' | 'advantage'): number | null => {
          const alike = row.every((turn) => turn[name] === row[0]![name]);
          if (!alike) notHeld.add(`${name} that differs between the answers of a branch`);
          return alike ? row[0]![name] : null;
        };
        return [
          {
            input_ids: [...tokens.prompt, ...tokens.answer],
            labels,
            logprobs,
            reward: one('reward'),
            advantage: one('advantage'),
            weight,
            episode_id,
            step_id,
          },
        ];
      });
      return { name: `${split}.parquet`, kind: 'parquet', split, shapes, rows };
    });
  },
};

type SampledTurn = LayoutTurn & { readonly tokens: Tokens };

const isSampled = (row: readonly LayoutTurn[]): row is readonly SampledTurn[] =>
  row.every(({ tokens }) => tokens !== null);

/** The answers of a row: those of a branch stand together, each other one is a row. */
function rowsOf(turns: readonly LayoutTurn[]): readonly (readonly LayoutTurn[])[] {
  const rows: LayoutTurn[][] = [];
  for (const turn of turns) {
    const last = rows.at(-1);
    if (turn.branch !== null && last?.[0]?.branch === turn.branch) last!.push(turn);
    else rows.push([turn]);
  }
  return rows;
}

/** Each answer stands where its prompt ends; of a branch it is in the prompts of those after it. */
function labelsOf(row: readonly SampledTurn[]): readonly number[] {
  const { prompt, answer } = row.at(-1)!.tokens;
  const labels = new Array<number>(prompt.length + answer.length).fill(IGNORED);
  for (const { tokens } of row)
    for (const [i, token] of tokens.answer.entries())
      if (tokens.mask === null || tokens.mask[i] === 1) labels[tokens.prompt.length + i] = token;
  return labels;
}
