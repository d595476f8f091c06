/** From what was said in an episode that failed to who is to blame for it. */
import { TroupeError } from '../../errors.ts';
import type { Entry } from '../attribution/entries.ts';
import { whyNotFailed } from '../attribution/failed.ts';
import type { Method } from '../methods/method.ts';
import type { Blamed } from '../methods/ranked-blame.ts';
import { attempt, textOfTruth } from './answers.ts';
import type { Assemble, Assemblers } from './assembler.ts';
import type { EpisodeFacts } from './facts.ts';
import type { Judgement } from './judgement.ts';

/** The one row of an episode that nobody is blamed for. */
const nobody = ({ episode_id }: EpisodeFacts, reason: string): Judgement => ({
  table: 'blames',
  episode_id,
  rank: 0,
  agent_id: null,
  step_id: null,
  entry: null,
  value: null,
  reason,
});

const blame: Assemble = (method, params, { episodes, entries }) =>
  episodes.flatMap((episode) => {
    const why = whyNotFailed(episode);
    if (why !== null) return [nobody(episode, why)];
    return blamed(method, params, episode, entries.get(episode.episode_id) ?? []);
  });

const blameWithReference: Assemble = (method, params, { episodes, entries }) =>
  episodes.flatMap((episode) => {
    const why = whyNotFailed(episode);
    if (why !== null) return [nobody(episode, why)];
    const reference = textOfTruth(episode.ground_truth);
    if (reference === null) return [nobody(episode, 'no_reference')];
    return blamed(method, { ...params, reference }, episode, entries.get(episode.episode_id) ?? []);
  });

function blamed(
  method: Method,
  beside: Readonly<Record<string, unknown>>,
  episode: EpisodeFacts,
  entries: readonly Entry[],
): Judgement[] {
  const said = entries.map(({ kind, agent, text, hands_over, failed }) => ({ kind, agent, text, hands_over, failed }));
  const output = attempt(method, { question: episode.query, entries: said, ...beside });
  if (output instanceof TroupeError) return [nobody(episode, output.message)];
  const ranked = output as readonly Blamed[];
  if (ranked.length === 0) return [nobody(episode, 'no_agents')];
  return ranked.map(({ agent, entry, value, entry_value }, rank) => ({
    table: 'blames',
    episode_id: episode.episode_id,
    rank,
    agent_id: agent,
    step_id: entries[entry]?.step_id ?? null,
    entry: entries[entry]?.seq ?? null,
    value,
    reason: null,
    detail: { entry_value },
  }));
}

export const ATTRIBUTION_ASSEMBLERS: Assemblers = {
  'failed run': { blame: { over: blame, reads: ['entries'] } },
  'failed run and reference': { blame: { over: blameWithReference, reads: ['entries'] } },
};
