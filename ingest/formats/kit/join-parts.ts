/**
 * Files that hold parts of one run, for formats in which a run is the lines of a file: a file that was cut, one that has grown, the
 * same lines twice. The parts become one list of lines, whatever their order, so that they are read as the whole file would be.
 */

import { canonicalJson } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import type { JoinRules } from './format.ts';

/** Lines of one file, and where each of them stands; of stored lines nowhere. */
export type Part<M> = { readonly lines: readonly unknown[]; readonly members: readonly (M | undefined)[] };

type KnownPart<M> = {
  readonly part: Part<M>;
  readonly names: readonly string[];
  readonly holds: ReadonlySet<string>;
  /** What it refers to and does not hold. */
  readonly refers: ReadonlySet<string>;
};

type Run<M> = Part<M> & { readonly sources: readonly Part<M>[] };

/**
 * The lines of each run with the parts that they are of, in the order of the first of these; and the strays, parts that name no run and
 * belong to none of these, or perhaps to several.
 */
export function joinParts<M>(parts: readonly Part<M>[], joins: JoinRules) {
  const known = parts.map((part) => knownOf(part, joins));
  const groups = byName(known.filter(({ names }) => names.length > 0));
  let nameless = known.filter(({ names }) => names.length === 0);
  for (let before = -1; before !== nameless.length; ) {
    before = nameless.length;
    nameless = nameless.filter((part) => {
      const near = groups.filter((group) => group.some((other) => isLinked(part, other) || isLinked(other, part)));
      if (near.length === 1) near[0]!.push(part);
      return near.length !== 1;
    });
  }
  // Lines that refer to nothing, beside one run alone, can only be of it.
  if (joins.needsName && groups.length === 1) pushAll(groups[0]!, nameless.splice(0));
  return { runs: groups.map((group) => merged(group, joins)), strays: nameless.map(({ part }) => part) };
}

function knownOf<M>(part: Part<M>, { names, marks }: JoinRules): KnownPart<M> {
  const found = part.lines.map(marks);
  const holds = new Set(found.flatMap((mark) => mark.holds));
  const refers = new Set(found.flatMap((mark) => mark.refers).filter((mark) => !holds.has(mark)));
  return { part, names: names(part.lines), holds, refers };
}

/** Whether one part refers to what the other holds. */
function isLinked({ refers }: KnownPart<unknown>, { holds }: KnownPart<unknown>): boolean {
  for (const mark of refers) if (holds.has(mark)) return true;
  return false;
}

/** Parts that share a name, also by way of others. */
function byName<M>(parts: readonly KnownPart<M>[]): KnownPart<M>[][] {
  const groups = new Map<string, KnownPart<M>[]>();
  for (const part of parts) {
    const met = new Set(part.names.flatMap((name) => groups.get(name) ?? []).flatMap(({ names }) => names));
    const together = [...new Set([...met].flatMap((name) => groups.get(name) ?? []))];
    const group = [...together, part];
    for (const name of new Set(group.flatMap(({ names }) => names))) groups.set(name, group);
  }
  const places = new Map(parts.map((part, i) => [part, i]));
  return [...new Set(groups.values())].sort((a, b) => places.get(a[0]!)! - places.get(b[0]!)!);
}

/**
 * One list of lines: what several parts hold counts once. Each part keeps its order, a line comes after those it refers to, and of
 * several that may come next the earliest does; a line without a time goes with the line before it.
 */
function merged<M>(group: readonly KnownPart<M>[], { marks, timeOf }: JoinRules): Run<M> {
  const sources = group.map(({ part }) => part);
  if (sources.length === 1) return { ...sources[0]!, sources };
  const queues = [...sources]
    .sort((a, b) => b.lines.length - a.lines.length)
    .map((part) => queueOf(part, marks, timeOf));
  const waiting = new Map<string, number>();
  const places = queues.map(({ items }) => new Map(items.map(({ key }, at) => [key, at])));
  const count = (of: Item<M>, by: number): void => {
    for (const mark of of.holds) waiting.set(mark, (waiting.get(mark) ?? 0) + by);
  };
  const all = new Map(queues.flatMap(({ items }) => items.map((item) => [item.key, item])));
  for (const item of all.values()) count(item, 1);
  const taken = new Set<string>();
  const isNext = ({ key }: Item<M>): boolean => places.every((place, i) => (place.get(key) ?? 0) <= queues[i]!.at);
  const isAnswered = ({ refers, holds }: Item<M>): boolean =>
    refers.every((mark) => (waiting.get(mark) ?? 0) === 0 || holds.includes(mark));
  const lines: unknown[] = [];
  const members: (M | undefined)[] = [];
  for (;;) {
    const heads = queues.flatMap((queue) => {
      while (queue.at < queue.items.length && taken.has(queue.items[queue.at]!.key)) queue.at++;
      return queue.items[queue.at] ?? [];
    });
    if (heads.length === 0) return { lines, members, sources };
    const next = heads.filter(isNext);
    // A part that was joined before without all of its lines may have them in a wrong order: what lines refer to decides then.
    const item =
      earliest(next.filter(isAnswered)) ?? earliest(heads.filter(isAnswered)) ?? earliest(next) ?? earliest(heads)!;
    taken.add(item.key);
    count(item, -1);
    lines.push(item.line);
    // Of equal lines that of a file of this import, where there is one.
    members.push(
      item.member ?? queues.map(({ items }, i) => items[places[i]!.get(item.key) ?? -1]?.member).find(Boolean),
    );
  }
}

type Item<M> = {
  /** The line as canonical JSON, with its number among equal lines of its part. */
  readonly key: string;
  readonly line: unknown;
  readonly member: M | undefined;
  readonly time: string;
  readonly holds: readonly string[];
  readonly refers: readonly string[];
};

function queueOf<M>(part: Part<M>, marks: JoinRules['marks'], timeOf: JoinRules['timeOf']) {
  const numbers = new Map<string, number>();
  let time = '';
  const items = part.lines.map((line, i): Item<M> => {
    const text = canonicalJson(line);
    const number = numbers.get(text) ?? 0;
    numbers.set(text, number + 1);
    time = timeOf(line) ?? time;
    return { key: `${number} ${text}`, line, member: part.members[i], time, ...marks(line) };
  });
  return { items, at: 0 };
}

const earliest = <M>(items: readonly Item<M>[]): Item<M> | undefined =>
  items.reduce<Item<M> | undefined>((first, item) => (!first || item.time < first.time ? item : first), undefined);
