/** Rollouts that are compared with each other: how clean each is, how far their rewards spread, and which are kept. */
import { TroupeError } from '../../errors.ts';
import { groupFlags } from '../methods/group-flags.ts';
import { runMethod } from '../methods/run.ts';
import { rocFormatPenalty } from '../methods/scores/roc-format-penalty.ts';
import { rocToolPenalty } from '../methods/scores/roc-tool-penalty.ts';
import { groupBy } from '../methods/statistics.ts';
import { attempt } from './answers.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import type { ToolFact } from './episode-facts.ts';
import { type EpisodeFacts, groupOf, type StepFacts } from './facts.ts';
import { type Judgement, score, verdictOn } from './judgement.ts';
import { onwardOf } from './over-episodes.ts';

/** What a tool said: its output; where it gave none, its error; where neither, the word of its status. */
function responseOf({ output, error, status }: ToolFact): string[] {
  if (status === null) return [];
  const said = output ?? error;
  if (said === null || said === undefined) return [status === 'ok' ? '' : status];
  return [typeof said === 'string' ? said : JSON.stringify(said)];
}

type Input = Readonly<Record<string, unknown>>;

/** An episode whose every tool call stands without an answer says nothing; one without tool calls is the method's affair. */
function toolInput({ tools }: Assembled, { episode_id }: EpisodeFacts): Input | string {
  const calls = tools.get(episode_id) ?? [];
  const tool_responses = calls.flatMap(responseOf);
  return calls.length > 0 && tool_responses.length === 0 ? 'no_tool_responses' : { tool_responses };
}

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0;

/** Answer tags are `<answer>` and `</answer>`; an assistant's turn is a step that the episode went on from. */
function tagInput({ contentOf }: Assembled, steps: readonly StepFacts[]): Input | string {
  const turns = onwardOf(steps);
  if (turns.length === 0) return 'no_steps';
  const text = turns.map((step) => contentOf(step).text ?? '').join('\n');
  return {
    open_tags: count(text, /<answer>/g),
    close_tags: count(text, /<\/answer>/g),
    closed_pairs: count(text, /<answer>[\s\S]*?<\/answer>/g),
    turns: turns.length,
  };
}

const stepsOf = (facts: Assembled): ((episode: EpisodeFacts) => readonly StepFacts[]) => {
  const steps = groupBy(facts.steps, (step) => step.episode_id);
  return ({ episode_id }) => steps.get(episode_id) ?? [];
};

const byToolResponses: Assemble = (method, params, facts) =>
  facts.episodes.map((episode) => {
    const input = toolInput(facts, episode);
    const key = `e/${episode.episode_id}`;
    if (typeof input === 'string') return score(key, null, input);
    return score(key, runMethod(method, { ...input, ...params }) as number, null);
  });

const byAnswerTags: Assemble = (method, params, facts) => {
  const own = stepsOf(facts);
  return facts.episodes.map((episode) => {
    const input = tagInput(facts, own(episode));
    const key = `e/${episode.episode_id}`;
    if (typeof input === 'string') return score(key, null, input);
    return score(key, runMethod(method, { ...input, ...params }) as number, null, input);
  });
};

/** The penalty of an episode is the sum of both penalties; one that has not both, or no reward, leaves its group. */
const byPenalties: Assemble = (method, params, facts) => {
  const own = stepsOf(facts);
  return [...groupBy(facts.episodes, groupOf)].flatMap(([, members]): Judgement[] => {
    const rows = members.map((episode) => {
      const [tool, tags] = [toolInput(facts, episode), tagInput(facts, own(episode))];
      if (episode.reward === null) return { episode, reason: 'missing_reward' };
      if (typeof tool === 'string' || typeof tags === 'string')
        return { episode, reason: typeof tool === 'string' ? tool : (tags as string) };
      const penalties = {
        tool_penalty: runMethod(rocToolPenalty, tool),
        format_penalty: runMethod(rocFormatPenalty, tags),
      };
      return { episode, penalties };
    });
    const known = rows.flatMap(({ episode, penalties }) => (penalties ? [{ episode, penalties }] : []));
    const output = attempt(method, {
      rewards: known.map(({ episode }) => episode.reward),
      penalties: known.map(({ penalties }) => penalties.tool_penalty + penalties.format_penalty),
      ...params,
    });
    const kept = new Set(output instanceof TroupeError ? [] : (output as number[]).map((i) => known[i]!.episode));
    return rows.map(({ episode, reason, penalties }) => {
      if (reason !== undefined) return verdictOn(episode, null, reason);
      if (output instanceof TroupeError) return verdictOn(episode, null, output.message, penalties);
      return verdictOn(episode, kept.has(episode), kept.has(episode) ? null : 'dropped', penalties);
    });
  });
};

const bySpread: Assemble = (method, params, { episodes }) =>
  [...groupBy(episodes, groupOf)].map(([group, members]) => {
    const rewards = members.map((member) => member.reward);
    if (rewards.every((reward) => reward === null)) return score(`g/${group}`, null, 'missing_reward');
    const value = attempt(method, { rewards, ...params });
    if (value instanceof TroupeError) return score(`g/${group}`, null, value.message);
    const flag = groupFlags(members.map(groupOf), rewards).find((one) => one !== 'missing_reward') ?? null;
    return score(`g/${group}`, value as number, flag);
  });

/**
 * A number for each agent of a group stands in the detail. The value is that of the agent that is furthest above: the one whose
 * gradients the team's own scale would inflate most.
 */
const byAgentSpread: Assemble = (method, params, { episodes, steps, rewardOf }) => {
  const own = groupBy(steps, (step) => step.episode_id);
  return [...groupBy(episodes, groupOf)].map(([group, members]) => {
    const rows = members.flatMap(({ episode_id }) =>
      (own.get(episode_id) ?? []).map((step) => ({
        query: group,
        traj: episode_id,
        agent: step.agent ?? '',
        reward: rewardOf(step),
      })),
    );
    if (rows.length === 0) return score(`g/${group}`, null, 'no_steps');
    if (rows.every(({ reward }) => reward === null)) return score(`g/${group}`, null, 'missing_reward');
    const output = attempt(method, { steps: rows, ...params });
    if (output instanceof TroupeError) return score(`g/${group}`, null, output.message);
    const ratios = output as Record<string, number | null>;
    const known = Object.values(ratios).filter((ratio) => ratio !== null);
    return known.length === 0
      ? score(`g/${group}`, null, 'zero_variance', ratios)
      : score(`g/${group}`, Math.max(...known), null, ratios);
  });
};

/**
 * Groups are environment × turn × agent, rows are steps, as AT-GRPO compares them. Over the set: two of the modes rank all groups
 * against each other.
 */
const byEnvironment: Assemble = (method, params, { episodes, steps, rewardOf }) => {
  const envs = new Map(episodes.map((episode) => [episode.episode_id, episode.env_id ?? groupOf(episode)]));
  const known = steps.filter((step) => step.turn !== null && step.agent !== null && rewardOf(step) !== null);
  const group = known.map(({ episode_id, turn, agent }) => JSON.stringify([envs.get(episode_id), turn, agent]));
  const reward = known.map(rewardOf);
  const kept = new Set((runMethod(method, { group, reward, ...params }) as number[]).map((i) => known[i]!));
  const flags = new Map(groupFlags(group, reward).map((flag, i) => [known[i]!, flag]));
  const acted = new Set(steps.map((step) => step.episode_id));
  return [
    ...steps.map((step) => {
      if (step.turn === null) return verdictOn(step, null, 'no_turn');
      if (step.agent === null) return verdictOn(step, null, 'no_agent');
      if (rewardOf(step) === null) return verdictOn(step, null, 'missing_reward');
      return verdictOn(step, kept.has(step), kept.has(step) ? null : (flags.get(step) ?? 'dropped'));
    }),
    ...episodes.filter(({ episode_id }) => !acted.has(episode_id)).map((one) => verdictOn(one, null, 'no_steps')),
  ];
};

export const ROLLOUT_ASSEMBLERS: Assemblers = {
  'tool responses': { score: { over: byToolResponses, reads: ['tools'] } },
  'answer tags': { score: { over: byAnswerTags, reads: ['content'] } },
  'rewards and penalties': { filter: { over: byPenalties, reads: ['tools', 'content'] } },
  'rewards by group': { score: { over: bySpread } },
  'rewards by group and agent': { score: { over: byAgentSpread } },
  'rewards by environment, turn and agent': { filter: { over: byEnvironment, scope: 'set' } },
};
