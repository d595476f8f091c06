/**
 * Lines that a session repeats of another one without a word, as where it was resumed under a new name: recognised by their ids, in one
 * import and against what was recorded before. The session that holds them first has them; the other one was only shown them.
 */
import type { Format } from '../formats/kit/format.ts';
import type { Part } from '../formats/kit/join-parts.ts';
import { type Earlier, type IdsElsewhere, storedLines } from './import-earlier.ts';
import type { Member } from './import-gather.ts';

/** Finds the ids of a run that another one holds, of those that it was asked for before and of those that were recorded. */
export function copyFinder(earlier: Earlier): (format: Format, lines: readonly unknown[]) => Promise<IdsElsewhere> {
  /** By format, the episode of this import that holds each id. */
  const held = new Map<Format, Map<string, string>>();
  return async (format, lines) => {
    const copied = new Map<string, string>();
    const { joins } = format;
    if (!joins?.originals) return copied;
    const episodes = joins.episodes(lines);
    const { ids, responses } = joins.originals(lines);
    const others = new Set<string>();
    for (const recorded of (await earlier.originals.answered(responses)).values())
      if (!recorded.some((episode) => episodes.includes(episode))) for (const episode of recorded) others.add(episode);
    const stored = await earlier.originals.records([...others], `/import/${format.name}`);
    for (const [episode, names] of stored)
      for (const name of names)
        for (const id of joins.originals(await storedLines(format, earlier, name)).ids) copied.set(id, episode);
    const here = held.get(format) ?? new Map<string, string>();
    held.set(format, here);
    for (const id of ids) {
      const episode = here.get(id);
      if (episode !== undefined && !episodes.includes(episode)) copied.set(id, episode);
      else if (!copied.has(id) && episodes.length > 0) here.set(id, episodes[0]!);
    }
    return copied;
  };
}

/** Runs in the order in which they can have repeated each other: what ended first was there first. */
export function oldestFirst<P extends Part<Member>>(runs: readonly P[], { joins }: Format): readonly P[] {
  if (!joins?.originals) return runs;
  const endOf = ({ lines }: P): string => lines.reduce<string>((last, line) => maxOf(last, joins.timeOf(line)), '');
  return runs
    .map((run) => ({ run, end: endOf(run), name: joins.episodes(run.lines).join() }))
    .sort((a, b) => compare(a.end, b.end) || compare(a.name, b.name))
    .map(({ run }) => run);
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const maxOf = (last: string, time: string | null): string => (time !== null && time > last ? time : last);
