import { taskClusters } from '../consistency/task-clusters.ts';
import type { EpisodeFacts } from './facts.ts';
import type { MethodFacts } from './method-facts.ts';

export const survivors = ({ episodes, survives }: MethodFacts): Set<string> =>
  new Set(episodes.filter(({ episode_id }) => survives(episode_id, '')).map(({ episode_id }) => episode_id));

export const textTag = (tags: Readonly<Record<string, unknown>> | null, name: string): string | null => {
  const value = tags?.[name];
  return typeof value === 'string' && value !== '' ? value : null;
};

export const clustersOf = (facts: MethodFacts, model: string | null) => {
  const texts = new Map(
    facts.episodes.flatMap(({ task_id, query }) => (task_id === null ? [] : [[task_id, query] as const])),
  );
  const tasks = [...texts].map(([id, text]) => ({ id, text }));
  return taskClusters(tasks, model !== null ? { vectors: facts.vectors, model } : null);
};

export const played = (episode: EpisodeFacts) => ({
  episode_id: episode.episode_id,
  task_id: episode.task_id,
  task_text: episode.query,
  team_id: episode.team_id,
  reward: episode.reward,
  outcome: episode.outcome,
});
