/** Rewards of candidates from what they earned already and from how long they are. */
import { groupBy } from '../methods/statistics.ts';
import type { Assemble, Assemblers } from './assembler.ts';
import { groupOf, stepKey } from './facts.ts';
import { type Judgement, reward } from './judgement.ts';
import { answerTo, overEpisodes } from './over-episodes.ts';

/**
 * CURE weighs the rewards of a task's programs, or of its tests, against each other: what one agent said in a group is one set. The
 * rewards are those of the method that is read (`cure_code_reward`, say), else the recorded one of the episode.
 */
const bySet: Assemble = (method, params, { episodes, steps, rewardOf, contentOf }) => {
  const groups = new Map(episodes.map((episode) => [episode.episode_id, groupOf(episode)]));
  const fields = Object.keys((method.input as { properties: object }).properties);
  const rows = steps.map((step) => ({ step, value: rewardOf(step), length: contentOf(step).length ?? null }));
  const rowsOf = groupBy(rows, ({ step }) => stepKey(groups.get(step.episode_id)!, step.agent ?? ''));
  return [...rowsOf.values()].flatMap((set): Judgement[] => {
    const reasonOf = ({ value, length }: (typeof set)[number]) =>
      value === null ? 'missing_reward' : fields.includes('length') && length === null ? 'no_length' : null;
    const known = set.filter((row) => reasonOf(row) === null);
    const columns = {
      x: known.map((row) => row.value),
      reward: known.map((row) => row.value),
      length: known.map((row) => row.length),
    };
    const input = Object.fromEntries(Object.entries(columns).filter(([name]) => fields.includes(name)));
    const output = answerTo<number[] | null>(method, { ...input, ...params });
    const values = new Map(
      known.map(({ step }, i) => [step, typeof output === 'string' ? null : (output?.[i] ?? null)]),
    );
    const without = typeof output === 'string' ? output : output === null ? 'one_sided' : null;
    return set.map((row) => reward(row.step, values.get(row.step) ?? null, reasonOf(row) ?? without));
  });
};

/** Length in tokens: the token ids of the step, else what its call is said to have used. */
const byLength: Assemble = (method, params, facts) =>
  overEpisodes(method, facts, (_, steps) =>
    steps.map((step) => {
      const length = facts.contentOf(step).length ?? null;
      if (length === null) return reward(step, null, 'no_length');
      const value = answerTo<number>(method, { length, ...params });
      return typeof value === 'string' ? reward(step, null, value) : reward(step, value, null);
    }),
  );

export const CANDIDATE_ASSEMBLERS: Assemblers = {
  'rewards of candidates': { reward: { over: bySet, reads: ['content'] } },
  lengths: { reward: { over: byLength, reads: ['content'], writes: ['rewards', 'scores'] } },
};
