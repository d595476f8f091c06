/** From the transcript of a failed episode to an attribution. */
import { whyNotFailed } from '../attribution/failed.ts';
import type { FailedRun } from '../methods/failure-signs.ts';
import type { Blamed } from '../methods/ranked-blame.ts';
import type { Assembled } from './assembled.ts';
import { nobody } from './blamed.ts';
import type { EpisodeFacts } from './facts.ts';
import type { Judgement } from './judgement.ts';

/** A row for each agent that `rank` names, the surest first; a text is the reason why nobody is blamed. */
export const blameEntries = (
  { episodes, entries }: Assembled,
  rank: (episode: EpisodeFacts, run: FailedRun) => readonly Blamed[] | string,
): Judgement[] =>
  episodes.flatMap((episode): Judgement[] => {
    const why = whyNotFailed(episode);
    if (why !== null) return [nobody(episode, why)];
    const transcript = entries.get(episode.episode_id) ?? [];
    const ranked = rank(episode, { question: episode.query, entries: transcript });
    if (typeof ranked === 'string') return [nobody(episode, ranked)];
    if (ranked.length === 0) return [nobody(episode, 'no_agents')];
    return ranked.map(({ agent, entry, value, entry_value }, rank) => ({
      table: 'blames',
      episode_id: episode.episode_id,
      rank,
      agent_id: agent,
      step_id: transcript[entry]?.step_id ?? null,
      entry: transcript[entry]?.seq ?? null,
      value,
      reason: null,
      detail: { entry_value },
    }));
  });
