/** TRL, stepwise supervision: the answers of one agent in one episode as steps, each right or wrong. Text only. */
import type { Counter } from './counter.ts';
import type { Layout } from './layout.ts';
import { isGood } from './trl-unpaired.ts';
import { type Chat, chatsOf, type LayoutTurn } from './turn.ts';

type Stepwise = { readonly prompt: string; readonly steps: readonly Chat[] };

export const trlStepwise: Layout = {
  name: 'trl-stepwise',
  about: 'TRL stepwise supervision: what an agent was asked, its answers in an episode, and a label for each',
  refuses: {
    pair: 'two answers to one prompt are no steps of one answer',
    triplet: 'a team is one answer and has no steps',
  },
  holds: new Set(['step ids']),
  files(splits, { leftOut }) {
    const shapes = {
      prompt: 'text',
      completions: { list: 'text' },
      labels: { list: 'bool' },
      episode_id: 'text',
      step_ids: { list: 'text' },
    } as const;
    return splits.map(({ split, turns }) => ({
      name: `${split}.parquet`,
      kind: 'parquet',
      split,
      shapes,
      rows: stepwise(turns, leftOut).map(({ prompt, steps }) => ({
        prompt,
        completions: steps.map(({ answer }) => answer.text ?? ''),
        labels: steps.map(isGood),
        episode_id: steps[0]!.episode_id,
        step_ids: steps.map(({ step_id }) => step_id),
      })),
    }));
  },
};

/** One row for each agent of an episode whose answers are all texts, one to each call, and all good or bad. */
function stepwise(turns: readonly LayoutTurn[], leftOut: Counter): Stepwise[] {
  const byAgent = new Map<string, Chat[]>();
  for (const chat of chatsOf(turns, leftOut)) {
    const key = JSON.stringify([chat.episode_id, chat.agent, chat.role]);
    byAgent.set(key, [...(byAgent.get(key) ?? []), chat]);
  }
  return [...byAgent.values()].flatMap((steps) => {
    const prompt = steps[0]!.prompt.findLast(({ role }) => role === 'user')?.text ?? null;
    const why =
      prompt === null
        ? 'nobody asked the agent anything in text'
        : new Set(steps.map(({ call_id }) => call_id)).size < steps.length
          ? 'the agent has several answers to one call'
          : steps.some((step) => isGood(step) === null)
            ? 'one of the answers is neither good nor bad'
            : steps.some(({ answer }) => answer.text === null)
              ? 'one of the answers is no text'
              : null;
    if (why === null) return [{ prompt: prompt!, steps }];
    leftOut.add(why, steps.length);
    return [];
  });
}
