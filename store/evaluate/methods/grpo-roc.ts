/** GRPO-RoC (microsoft/rStar, rstar2_agent/down_sample): which roll-outs of a group to learn from. */

import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { ToolFact } from '../judging/episode-facts.ts';
import { type EpisodeFacts, groupOf, type StepFacts } from '../judging/facts.ts';
import { type Judgement, score, verdictOn } from '../judging/judgement.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import { onwardOf } from '../judging/over-episodes.ts';
import { verdictsByReward } from '../judging/reward-groups.ts';
import { method } from './method.ts';
import { refuseInput, requireRows } from './refuse.ts';
import { Key, Reward } from './shapes.ts';
import { groupRows, roundHalfEven, stableOrder } from './statistics.ts';

/** Share of tool responses that contain “error” in any case; 0.5 without tool calls. */
const toolPenalty = (responses: readonly string[]): number =>
  responses.length === 0
    ? 0.5
    : responses.filter((text) => text.toLowerCase().includes('error')).length / responses.length;

type AnswerTags = {
  readonly open_tags: number;
  readonly close_tags: number;
  readonly closed_pairs: number;
  readonly turns: number;
};

/** 1 for missing or unpaired answer tags, otherwise the pairs beyond the first per assistant turn, at most 1. */
function formatPenalty({ open_tags, close_tags, closed_pairs, turns }: AnswerTags): number {
  const paired = open_tags > 0 && open_tags === closed_pairs && close_tags === closed_pairs;
  return paired && turns > 0 ? Math.min((closed_pairs - 1) / turns, 1) : 1;
}

/** The text of a tool's result: its output; where it gave none, its error; where neither, the word of its status. */
function responseOf({ output, error, status }: ToolFact): string[] {
  if (status === null) return [];
  const text = output ?? error;
  if (text === null || text === undefined) return [status === 'ok' ? '' : status];
  return [typeof text === 'string' ? text : JSON.stringify(text)];
}

/** An episode whose every tool call is without an answer has no score; one without tool calls is the method's affair. */
function toolInput(
  { tools }: MethodFacts,
  { episode_id }: EpisodeFacts,
): { readonly tool_responses: readonly string[] } | string {
  const calls = tools.get(episode_id) ?? [];
  const tool_responses = calls.flatMap(responseOf);
  return calls.length > 0 && tool_responses.length === 0 ? 'no_tool_responses' : { tool_responses };
}

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0;

/** How many open tags have a closing one behind them, each closing one counted once. */
function pairsIn(text: string): number {
  let pairs = 0;
  for (let open = text.indexOf('<answer>'); open >= 0; pairs++) {
    const close = text.indexOf('</answer>', open);
    if (close < 0) return pairs;
    open = text.indexOf('<answer>', close);
  }
  return pairs;
}

/** Answer tags are `<answer>` and `</answer>`; an assistant's turn is a step that the episode went on from. */
export function tagInput({ contentOf }: MethodFacts, steps: readonly StepFacts[]): AnswerTags | string {
  const turns = onwardOf(steps);
  if (turns.length === 0) return 'no_steps';
  const text = turns.map((step) => contentOf(step).text ?? '').join('\n');
  return {
    open_tags: count(text, /<answer>/g),
    close_tags: count(text, /<\/answer>/g),
    closed_pairs: pairsIn(text),
    turns: turns.length,
  };
}

const stepsOf = (facts: MethodFacts): ((episode: EpisodeFacts) => readonly StepFacts[]) => {
  const steps = groupBy(facts.steps, (step) => step.episode_id);
  return ({ episode_id }) => steps.get(episode_id) ?? [];
};

/**
 * How much of a trajectory's tool use went wrong.
 *
 * Source: microsoft/rStar, rstar2_agent/down_sample/roc.py. Verified (code). A trajectory without a tool call gets 0.5.
 * Kept: the word, in any case, anywhere. Dropped: nothing. Open: nothing known.
 */
export const rocToolPenalty = method({
  name: 'roc_tool_penalty',
  kind: 'score',
  source: 'GRPO-RoC: microsoft/rStar, down_sample/roc.py; verified (code)',
  version: 1,
  summary: 'Share of tool responses that contain “error” in any case; 0.5 without tool calls.',
  teams: 'agents that use tools',
  input: Type.Object({ tool_responses: Type.Array(Type.String()) }),
  run: ({ tool_responses }): number => toolPenalty(tool_responses),
  judged: {
    reads: ['tools'],
    rows: (facts, ask) =>
      facts.episodes.map((episode) => {
        const input = toolInput(facts, episode);
        const key = `e/${episode.episode_id}`;
        if (typeof input === 'string') return score(key, null, input);
        return score(key, ask.run(input), null);
      }),
  },
});

const Count = Type.Integer({ minimum: 0 });

/**
 * How badly a trajectory marks its answer: one complete pair of answer tags costs nothing, each further pair a turn's share.
 *
 * Source: microsoft/rStar, rstar2_agent/down_sample/roc.py. Verified (code).
 * Kept: 1 for unpaired tags and for no turn. Dropped: counting the tags. Open: nothing known.
 */
export const rocFormatPenalty = method({
  name: 'roc_format_penalty',
  kind: 'score',
  source: 'GRPO-RoC: microsoft/rStar, down_sample/roc.py; verified (code)',
  version: 1,
  summary: '1 for missing or unpaired answer tags, otherwise the pairs beyond the first per assistant turn, at most 1.',
  input: Type.Object({ open_tags: Count, close_tags: Count, closed_pairs: Count, turns: Count }),
  run: (tags): number => formatPenalty(tags),
  judged: {
    reads: ['content'],
    rows: (facts, ask) => {
      const own = stepsOf(facts);
      return facts.episodes.map((episode) => {
        const input = tagInput(facts, own(episode));
        const key = `e/${episode.episode_id}`;
        if (typeof input === 'string') return score(key, null, input);
        return score(key, ask.run(input), null, input);
      });
    },
  },
});

const params: { n: number; min_zero: number; min_nonzero: number; failure_order: 'first' | 'seeded'; seed: number } = {
  n: 16,
  min_zero: 2,
  min_nonzero: 2,
  failure_order: 'first',
  seed: 0,
};
/**
 * GRPO-RoC: from an oversampled group, keeps the cleanest successes and as many failures as their share was.
 *
 * Source: microsoft/rStar, rstar2_agent/down_sample/roc.py. Verified (code).
 * Kept: quotas rounded half to even, minimum counts, all rows when neither quota reaches its minimum, and a group as large as n whole.
 * The paper draws failures at random, the code takes the first: `failure_order` offers both, `seeded` with the seed handed in.
 * Quotas that do not add up to n (possible with an odd n and two exact halves) are an error, as in the source.
 * A row without a reward is not selected and not counted.
 * Dropped: the mask that restores the order of the batch. Open: nothing known.
 */
export const rocSelect = method({
  name: 'roc_select',
  kind: 'filter',
  source: 'GRPO-RoC: microsoft/rStar, down_sample/roc.py; verified (code)',
  version: 1,
  summary: 'Keeps n rows of a group: the successes with the lowest penalties, then failures.',
  teams: 'agents that use tools',
  params,
  limits: {
    n: Type.Integer({ minimum: 1 }),
    min_zero: Count,
    min_nonzero: Count,
    failure_order: Type.Union([Type.Literal('first'), Type.Literal('seeded')]),
    seed: Type.Integer(),
  },
  input: Type.Object({ rewards: Type.Array(Reward), penalties: Type.Array(Type.Number()) }),
  run: ({ rewards, penalties }, { n, min_zero, min_nonzero, failure_order, seed }): number[] => {
    requireRows('penalties', penalties, rewards.length, 'rewards');
    const rows = [...rewards.keys()].filter((row) => rewards[row] !== null);
    const size = rows.length;
    if (size < n) return [];
    if (size === n) return rows;
    const failures = rows.filter((row) => rewards[row]! <= 0);
    const successes = rows.filter((row) => rewards[row]! > 0);
    let zeros = roundHalfEven((failures.length * n) / size);
    let positives = roundHalfEven((successes.length * n) / size);
    if (zeros < min_zero && positives < min_nonzero) return rows;
    const fewestZeros = Math.min(min_zero, failures.length);
    if (zeros <= fewestZeros) {
      zeros = fewestZeros;
      positives = n - zeros;
    }
    const fewestPositives = Math.min(min_nonzero, successes.length);
    if (positives <= fewestPositives) {
      positives = fewestPositives;
      zeros = n - positives;
    }
    if (
      zeros + positives !== n ||
      zeros < 0 ||
      positives < 0 ||
      zeros > failures.length ||
      positives > successes.length
    ) {
      refuseInput('n', `a size that ${successes.length} successes and ${failures.length} failures can be cut to`, n);
    }
    const cleanest = stableOrder(successes, (row) => penalties[row]!, 'ascending').map((i) => successes[i]!);
    const chosen = failure_order === 'first' ? failures : shuffled(failures, seed);
    return [...cleanest.slice(0, positives), ...chosen.slice(0, zeros)];
  },
  judged: {
    reads: ['tools', 'content'],
    /** The penalty of an episode is the sum of both penalties; one that has not both, or no reward, leaves its group. */
    rows: (facts, ask) => {
      const own = stepsOf(facts);
      return [...groupBy(facts.episodes, groupOf)].flatMap(([, members]): Judgement[] => {
        const rows = members.map((episode) => {
          const [tool, tags] = [toolInput(facts, episode), tagInput(facts, own(episode))];
          if (episode.reward === null) return { episode, reason: 'missing_reward' };
          if (typeof tool === 'string' || typeof tags === 'string')
            return { episode, reason: typeof tool === 'string' ? tool : (tags as string) };
          const penalties = {
            tool_penalty: toolPenalty(tool.tool_responses),
            format_penalty: formatPenalty(tags),
          };
          return { episode, penalties };
        });
        const known = rows.flatMap(({ episode, penalties }) => (penalties ? [{ episode, penalties }] : []));
        const output = ask.answer({
          rewards: known.map(({ episode }) => episode.reward),
          penalties: known.map(({ penalties }) => penalties.tool_penalty + penalties.format_penalty),
        });
        const kept = new Set(typeof output === 'string' ? [] : output.map((i) => known[i]!.episode));
        return rows.map(({ episode, reason, penalties }) => {
          if (reason !== undefined) return verdictOn(episode, null, reason);
          if (typeof output === 'string') return verdictOn(episode, null, output, penalties);
          return verdictOn(episode, kept.has(episode), kept.has(episode) ? null : 'dropped', penalties);
        });
      });
    },
  },
});

function shuffled(rows: readonly number[], seed: number): number[] {
  const random = xoroshiro128plus(seed);
  const order = [...rows];
  for (let last = order.length - 1; last > 0; last--) {
    const other = uniformInt(random, 0, last);
    [order[last], order[other]] = [order[other]!, order[last]!];
  }
  return order;
}

const Tolerance = Type.Number({ minimum: 0 });

/**
 * Drops the groups whose rewards are all the same, because nothing can be learned from comparing them.
 *
 * Source: microsoft/rStar, rstar2_agent/down_sample/reject_sampling.py. Verified (code).
 * Kept: the tolerance of numpy's isclose around each reward, measured from the group's first; a group of one is always dropped.
 * Dropped: cutting the rest to a multiple of the number of workers, which is the trainer's business. A row without a reward is not kept.
 * Open: nothing known.
 */
export const rejectEqualReward = method({
  name: 'reject_equal_reward',
  kind: 'filter',
  source: 'rStar2-Agent: microsoft/rStar, down_sample/reject_sampling.py; verified (code)',
  version: 1,
  summary: 'Keeps the rows of groups whose rewards differ.',
  params: { atol: 1e-8, rtol: 1e-5 },
  limits: { atol: Tolerance, rtol: Tolerance },
  input: Type.Object({ group: Type.Array(Key), reward: Type.Array(Reward) }),
  run: ({ group, reward }, { atol, rtol }): number[] => {
    requireRows('reward', reward, group.length, 'group');
    const { numbers, count } = groupRows(group);
    const first: (number | undefined)[] = new Array(count);
    const differs = new Uint8Array(count);
    reward.forEach((one, row) => {
      if (one === null) return;
      const at = numbers[row]!;
      const start = first[at];
      if (start === undefined) first[at] = one;
      else if (Math.abs(start - one) > atol + rtol * Math.abs(one)) differs[at] = 1;
    });
    return reward.flatMap((one, row) => (one !== null && differs[numbers[row]!] === 1 ? [row] : []));
  },
  judged: {
    rows: ({ episodes }, ask) => {
      const reward = episodes.map((episode) => episode.reward);
      return verdictsByReward(episodes, reward, ask.run({ group: episodes.map(groupOf), reward }));
    },
  },
});
