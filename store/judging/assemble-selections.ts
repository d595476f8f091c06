/**
 * Selections among episodes: by category, by query, by team. What is chosen among queries depends on all that are judged together, so
 * those are run over the whole set; what is chosen among the runs of one query needs its group only.
 */
import { poolOf } from '../consistency/pool.ts';
import { refinedPairs } from '../consistency/refined-teams.ts';
import { taskClusters } from '../consistency/task-clusters.ts';
import { runMethod } from '../methods/run.ts';
import { groupBy } from '../methods/statistics.ts';
import type { Assemble, Assembled, Assemblers, Params, Reading } from './assembler.ts';
import { type EpisodeFacts, groupOf, stepKey } from './facts.ts';
import { score, verdictOn } from './judgement.ts';
import { numbersOn } from './named-feedback.ts';

const survivors = ({ episodes, survives }: Assembled): Set<string> =>
  new Set(episodes.filter(({ episode_id }) => survives(episode_id, '')).map(({ episode_id }) => episode_id));

const textTag = (tags: Params | null, name: string): string | null => {
  const value = tags?.[name];
  return typeof value === 'string' && value !== '' ? value : null;
};

/**
 * Chooses among the episodes that every filter before kept. The category is the tag `category` of the task, else its domain; the score
 * is the reward of the episode. Over the set: a category's turn depends on all others.
 */
const byCategory: Assemble = (method, params, facts) => {
  const known = survivors(facts);
  const rows = facts.episodes.map((episode) => {
    const category = textTag(episode.task_tags, 'category') ?? episode.domain;
    const reason = !known.has(episode.episode_id)
      ? 'dropped_before'
      : category === null
        ? 'no_category'
        : episode.reward === null
          ? 'missing_reward'
          : null;
    return { episode, category, reason };
  });
  const items = rows.flatMap(({ episode, category, reason }) =>
    reason === null ? [{ id: episode.episode_id, category, score: episode.reward }] : [],
  );
  const taken = new Map((runMethod(method, { items, ...params }) as string[]).map((id, place) => [id, place]));
  return rows.map(({ episode, category, reason }) => {
    if (reason !== null) return verdictOn(episode, reason === 'dropped_before' ? false : null, reason);
    const place = taken.get(episode.episode_id);
    return verdictOn(episode, place !== undefined, place === undefined ? 'not_taken' : null, {
      category,
      ...(place === undefined ? {} : { place }),
    });
  });
};

const clustersOf = (facts: Assembled, { embedding_model: model }: Params) => {
  const texts = new Map(
    facts.episodes.flatMap(({ task_id, query }) => (task_id === null ? [] : [[task_id, query] as const])),
  );
  const tasks = [...texts].map(([id, text]) => ({ id, text }));
  return taskClusters(tasks, typeof model === 'string' ? { vectors: facts.vectors, model } : null);
};

const vectorsIfNamed = ({ embedding_model }: Params): readonly Reading[] =>
  embedding_model === null ? [] : ['vectors'];

const played = (episode: EpisodeFacts) => ({
  episode_id: episode.episode_id,
  task_id: episode.task_id,
  task_text: episode.query,
  team_id: episode.team_id,
  reward: episode.reward,
  outcome: episode.outcome,
});

/**
 * A system is a team, a query a task, the score of a team on a task the mean reward of its episodes, a cluster the tasks that are alike. Only teams that were played on every task of a cluster compete: a score that is not there is not 0. An episode is
 * kept if its team is the one that its cluster gets and its task is kept with it. Over the set: clusters are.
 */
const byTeamScores: Assemble = (_, params, facts) => {
  const { episodes } = facts;
  const pool = poolOf(episodes.map(played), clustersOf(facts, params), params as { min_score: number | null });
  const choices = new Map(
    Object.entries(pool.clusters).flatMap(([cluster, choice]) =>
      choice.queries.map((task) => [task, { cluster, ...choice }] as const),
    ),
  );
  return episodes.map((episode) => {
    const { task_id, team_id, reward } = episode;
    if (task_id === null || team_id === null || reward === null) {
      return verdictOn(episode, null, task_id === null ? 'no_task' : team_id === null ? 'no_team' : 'missing_reward');
    }
    const { cluster, team, total, competing, kept, reason } = choices.get(task_id)!;
    const detail = { cluster, team_id: team, total };
    if (team === null) return verdictOn(episode, null, reason, detail);
    if (!competing.includes(team_id)) return verdictOn(episode, null, 'not_played_on_all_queries', detail);
    if (team_id !== team) return verdictOn(episode, false, 'other_team', detail);
    return verdictOn(episode, kept.includes(task_id), kept.includes(task_id) ? null : 'below_min_score', detail);
  });
};

/** Which team each query was given: those of the episodes that every filter before kept, each pair of task and team once. */
const byGivenTeams: Assemble = (method, params, facts) => {
  const known = survivors(facts);
  const clusters = clustersOf(facts, params);
  const given = facts.episodes.filter(
    ({ episode_id, task_id, team_id }) => known.has(episode_id) && task_id !== null && team_id !== null,
  );
  const pairs = [...groupBy(given, ({ task_id, team_id }) => stepKey(task_id!, team_id!)).values()].map(
    ([one]) => one!,
  );
  const detail = { pairs: pairs.length, left_out: facts.episodes.length - given.length };
  if (pairs.length === 0) return [score('s/queries', null, 'no_teams', detail)];
  const value = runMethod(method, {
    cluster: pairs.map(({ task_id }) => clusters.get(task_id!)!.cluster),
    mas: pairs.map(({ team_id }) => team_id),
    ...params,
  }) as number;
  return [score('s/queries', value, null, detail)];
};

/**
 * A refinement is a team whose tag `base_team_id` names the team that it was made from; both were played on the task. The verdict is on
 * each episode that the refinement played there.
 */
const byRefinement: Assemble = (_method, _params, { episodes, teams }) => {
  const pairs = refinedPairs(episodes.map(played), [...teams.values()]);
  const found = new Map(pairs.map((pair) => [stepKey(pair.task_id, pair.team_id), pair]));
  return episodes.map((episode) => {
    const { task_id, team_id } = episode;
    if (task_id === null || team_id === null) return verdictOn(episode, null, task_id === null ? 'no_task' : 'no_team');
    const { tags, unmapped } = teams.get(team_id) ?? {};
    const base = textTag(tags ?? null, 'base_team_id') ?? textTag(unmapped ?? null, 'base_team_id');
    if (base === null) return verdictOn(episode, null, 'not_a_refinement');
    const pair = found.get(stepKey(task_id, team_id));
    if (pair === undefined) return verdictOn(episode, null, 'no_base_score');
    const { accepted, base_score, refined_score, executable, base_team_id } = pair;
    const reason = !executable ? 'not_executable' : refined_score === null ? 'never_scored' : 'worse_than_base';
    return verdictOn(episode, accepted, accepted ? null : reason, {
      base_team_id,
      base_score,
      refined_score,
      executable,
    });
  });
};

/**
 * A query is a group. The reward is what a judge said under `correctness` and `faithfulness`, added; in a query of which neither was
 * said of any run it is the recorded reward.
 */
const byQuery: Assemble = (method, params, facts) => {
  const correctness = numbersOn(facts.feedback, 'episode', 'correctness');
  const faithfulness = numbersOn(facts.feedback, 'episode', 'faithfulness');
  return [...groupBy(facts.episodes, groupOf)].flatMap(([query, members]) => {
    const parts = members.map(({ episode_id }) => {
      const place = stepKey(episode_id, '');
      return [correctness.get(place) ?? null, faithfulness.get(place) ?? null] as const;
    });
    const judged = parts.some(([right, faithful]) => right !== null || faithful !== null);
    const rewardOf = (i: number): number | null => {
      const [right, faithful] = parts[i]!;
      if (!judged) return members[i]!.reward;
      return right === null || faithful === null ? null : right + faithful;
    };
    const trajectories = members.map(({ episode_id }, i) => ({ id: episode_id, query, reward: rewardOf(i) }));
    const kept = new Set(runMethod(method, { trajectories, ...params }) as string[]);
    return members.map((episode, i) => {
      const reward = rewardOf(i);
      if (reward === null) return verdictOn(episode, null, judged ? 'no_judge_score' : 'missing_reward');
      const keep = kept.has(episode.episode_id);
      return verdictOn(episode, keep, keep ? null : 'not_selected', { reward });
    });
  });
};

/** Names of the filters whose verdicts count, and what the method calls them. */
const EARLIER = { consensus: 'consensus_filter', format: 'format_filter', correct: 'correctness_filter' } as const;

/**
 * Verdicts of the three filters earlier in the same judging. The task's tags say `interdisciplinary` (true or false) and
 * `answer_tokens`, the length of the reference answer; a reference with a `usage` says it by its `output_tokens`.
 */
const byEarlierVerdicts: Assemble = (method, params, { episodes, verdictOf }) =>
  episodes.map((episode) => {
    const { episode_id, task_tags } = episode;
    const said = Object.entries(EARLIER).map(([name, filter]) => [name, verdictOf(filter, episode_id)] as const);
    const unsaid = said.find(([, keep]) => typeof keep !== 'boolean');
    if (unsaid)
      return verdictOn(episode, null, unsaid[1] === undefined ? `no_${unsaid[0]}_verdict` : `unknown_${unsaid[0]}`);
    const answer_tokens = task_tags?.answer_tokens ?? usedTokens(episode.reference);
    if (!Number.isSafeInteger(answer_tokens)) return verdictOn(episode, null, 'no_answer_tokens');
    const interdisciplinary = task_tags?.interdisciplinary;
    if (typeof interdisciplinary !== 'boolean' && params.require_interdisciplinary !== false)
      return verdictOn(episode, null, 'no_interdisciplinary_tag');
    const trace = {
      id: episode_id,
      answer_tokens,
      ...(typeof interdisciplinary === 'boolean' ? { interdisciplinary } : {}),
      ...Object.fromEntries(said),
    };
    const kept = (runMethod(method, { traces: [trace], ...params }) as string[]).length === 1;
    return verdictOn(episode, kept, kept ? null : 'dropped', trace);
  });

function usedTokens(reference: unknown): unknown {
  const { usage } = (reference ?? {}) as { usage?: { output_tokens?: unknown } | null };
  return usage?.output_tokens;
}

export const SELECTION_ASSEMBLERS: Assemblers = {
  'categories and scores': { filter: { over: byCategory, scope: 'set' } },
  'team scores by query': { filter: { over: byTeamScores, reads: vectorsIfNamed, scope: 'set' } },
  'teams by cluster': { score: { over: byGivenTeams, reads: vectorsIfNamed, scope: 'set' } },
  'base and refinement': { filter: { over: byRefinement, reads: ['teams'] } },
  'judge scores by query': { filter: { over: byQuery, reads: ['feedback'] } },
  'earlier verdicts': { filter: { over: byEarlierVerdicts } },
};
