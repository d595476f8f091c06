/**
 * Which subgoals of a task a run met. Each is an observation of kind `progress`: its content is a list with an entry for each subgoal, 1 or
 * true where it is met at that moment, or an object with that list under `subgoals_done`.
 */

import type { ObservationFact } from './episode-facts.ts';
import type { MethodFacts } from './method-facts.ts';

type Bits = readonly (0 | 1)[];

export type Subgoals = {
  /** At each moment that was observed, in order. Empty where none was; null where an observation cannot be read. */
  readonly moments: (episode: string) => readonly Bits[] | null;
  /** Met at any moment; null where nothing was observed, or moments do not have the same subgoals. */
  readonly met: (episode: string) => Bits | null;
};

function bitsOf({ content }: ObservationFact): Bits | null {
  const list = Array.isArray(content) ? content : (content as { subgoals_done?: unknown } | null)?.subgoals_done;
  if (!Array.isArray(list) || list.length === 0) return null;
  const bits = list.map((one) => (one === 1 || one === true ? 1 : one === 0 || one === false ? 0 : null));
  return bits.every((one) => one !== null) ? bits : null;
}

export function subgoalsOf(observations: MethodFacts['observations']): Subgoals {
  const moments = (episode: string): readonly Bits[] | null => {
    const read = (observations.get(episode) ?? []).filter(({ kind }) => kind === 'progress').map(bitsOf);
    return read.every((bits) => bits !== null) ? read : null;
  };
  const met = (episode: string): Bits | null => {
    const seen = moments(episode) ?? [];
    const first = seen[0];
    if (first === undefined || seen.some((bits) => bits.length !== first.length)) return null;
    return first.map((_, i) => (seen.some((bits) => bits[i] === 1) ? 1 : 0));
  };
  return { moments, met };
}
