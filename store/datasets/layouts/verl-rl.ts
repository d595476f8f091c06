/** verl, reinforcement learning: prompts with what its rule-based rewards compare an answer with. */
import type { Layout } from './layout.ts';
import { openaiMessage } from './openai-message.ts';
import { answerText, promptsOf } from './prompts.ts';

export const verlRl: Layout = {
  name: 'verl-rl',
  about: 'verl RL: each prompt once, with data_source, reward_model.ground_truth and extra_info',
  holds: new Set(['ground truth', 'step ids']),
  files(splits, { name, leftOut }) {
    const message = { struct: { role: 'text', content: 'text' } } as const;
    const shapes = {
      data_source: 'text',
      prompt: { list: message },
      ability: 'text',
      reward_model: { struct: { style: 'text', ground_truth: 'text' } },
      extra_info: {
        struct: { split: 'text', index: 'int', task_id: 'text', episode_id: 'text', step_id: 'text', agent: 'text' },
      },
    } as const;
    return splits.map(({ split, turns }) => {
      const known = promptsOf(turns, leftOut).filter((turn) => {
        const calls = turn.prompt.some(({ calls }) => calls.length > 0);
        const why = turn.ground_truth === null ? 'no right answer is known of the task' : null;
        if (why ?? calls) leftOut.add(why ?? 'the prompt holds calls of tools, which verl takes from its own rollout');
        return why === null && !calls;
      });
      const rows = known.map((turn, index) => {
        const { task_id, episode_id, step_id, agent } = turn;
        return {
          data_source: name,
          prompt: turn.prompt.map((one) => ({ content: '', ...openaiMessage(one) })),
          ability: null,
          reward_model: { style: 'rule', ground_truth: answerText(turn) },
          extra_info: { split, index, task_id, episode_id, step_id, agent },
        };
      });
      return { name: `${split}.parquet`, kind: 'parquet', split, shapes, rows };
    });
  },
};
