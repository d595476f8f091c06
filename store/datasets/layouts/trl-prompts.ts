/** TRL, GRPOTrainer and RLOOTrainer: prompts; the other columns reach the reward functions. */
import type { Layout } from './layout.ts';
import { answerText, promptsOf } from './prompts.ts';
import { MESSAGES, TRL_HOLDS, trlMessage } from './trl-message.ts';

export const trlPrompts: Layout = {
  name: 'trl-prompts',
  about: 'TRL GRPOTrainer: each prompt once, with task_id and ground_truth for reward functions',
  holds: new Set([...TRL_HOLDS, 'ground truth', 'step ids']),
  files(splits, { leftOut }) {
    const parts = splits.map(({ split, turns }) => ({ split, prompts: promptsOf(turns, leftOut) }));
    const ids = { task_id: 'text', episode_id: 'text', step_id: 'text' } as const;
    const shapes = { prompt: MESSAGES, ground_truth: 'text', ...ids } as const;
    return parts.map(({ split, prompts }) => ({
      name: `${split}.parquet`,
      kind: 'parquet',
      split,
      shapes,
      rows: prompts.map((turn) => ({
        prompt: turn.prompt.map(trlMessage),
        ground_truth: answerText(turn),
        task_id: turn.task_id,
        episode_id: turn.episode_id,
        step_id: turn.step_id,
      })),
    }));
  },
};
