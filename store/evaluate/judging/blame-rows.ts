/** Rows of attributions, or with the reason why there is none. */
import type { EpisodeFacts } from './facts.ts';
import type { Judgement } from './judgement.ts';

export type BlameTarget = { readonly agent_id: string | null; readonly step_id: string | null };

export const blame = (
  { episode_id }: EpisodeFacts,
  { agent_id, step_id }: BlameTarget,
  detail: unknown,
  {
    rank = 0,
    value = null,
    reason = null,
  }: { readonly rank?: number; readonly value?: number | null; readonly reason?: string | null } = {},
): Judgement => ({ table: 'blames', episode_id, rank, agent_id, step_id, entry: null, value, reason, detail });

/** The one row of an episode in which nobody is blamed. */
export const nobody = (episode: EpisodeFacts, reason: string, detail?: unknown): Judgement =>
  blame(episode, { agent_id: null, step_id: null }, detail, { reason });
