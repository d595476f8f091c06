/** What assemblers of several kinds do with an answer, a missing input or a reference. */
import { TroupeError } from '../../errors.ts';
import type { Method } from '../methods/method.ts';
import { runMethod } from '../methods/run.ts';
import type { EpisodeFacts } from './facts.ts';
import type { Judgement } from './judgement.ts';

/** The row of an episode that lacks what the method needs. */
export function missing(method: Method, episode: EpisodeFacts, reason: string): Judgement {
  const { episode_id } = episode;
  if (method.kind === 'filter') return { table: 'verdicts', episode_id, step_id: '', keep: null, reason };
  if (method.kind !== 'blame') return { table: 'scores', key: `e/${episode_id}`, value: null, reason };
  return { table: 'blames', episode_id, rank: 0, agent_id: null, step_id: null, entry: null, value: null, reason };
}

/** The method's answer, or the error with which it refused this input. */
export function attempt(method: Method, input: unknown): unknown {
  try {
    return runMethod(method, input);
  } catch (error) {
    if (error instanceof TroupeError && error.code === 'method_input') return error;
    throw error;
  }
}

/** A reference as an answer would be written; null where there is none. */
export function textOfTruth(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}
