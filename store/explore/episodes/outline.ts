/**
 * What happened in an episode, in order and without its texts: sizes and digests decide what a page of it holds. A call repeats the
 * context of the call before, so each thing knows which messages of its context are new; all of it costs what is new, not its square.
 * Pure.
 */

/** One thing that happened: a call with its candidates, a message between members, a tool call with its result, or a decision. */
export type Thing = {
  readonly kind: 'message' | 'call' | 'tool_call' | 'decision';
  /** The id of the message, call, tool call or decision. */
  readonly id: string;
  readonly seq: number | null;
  /** ISO 8601 in UTC, as the server writes it. */
  readonly at: string | null;
  readonly bytes: number;
  /** Digests of the texts that came to be in it. */
  readonly texts: readonly string[];
  /** Of a call: the last message of its context, as {@link Link.hash}. */
  readonly context: string | null;
};

/** One message of a context, after `previous`; or a text that messages name, or a piece of one. */
export type Link = {
  readonly hash: string;
  readonly previous: string | null;
  /** Of the message as it is stored: equal for equal messages, whatever stood before them. */
  readonly digest: string;
  readonly bytes: number;
  /** Texts that the message names. */
  readonly names: readonly string[];
};

/** A thing with the messages that its context has and no context before it had; in order. */
export type OutlineItem = Thing & {
  readonly prompt: readonly string[];
  /** Messages of the whole context. */
  readonly promptMessages: number;
};

const RANKS = { message: 0, call: 1, tool_call: 2, decision: 3 } as const;

/** Where everything of an episode has a native order, by that; else by time, and what has no time comes last, in order of kind. */
export function inOrder(things: readonly Thing[]): readonly Thing[] {
  const numbered = things.every(({ seq }) => seq !== null);
  return things.toSorted(
    (a, b) =>
      (numbered ? a.seq! - b.seq! : compareTimes(a.at, b.at)) ||
      RANKS[a.kind] - RANKS[b.kind] ||
      (a.id < b.id ? -1 : 1),
  );
}

const compareTimes = (a: string | null, b: string | null): number =>
  a === b ? 0 : a === null ? 1 : b === null ? -1 : withoutZone(a) < withoutZone(b) ? -1 : 1;

/** Fractions have as many digits as they need, so a time ends where a longer one goes on. */
const withoutZone = (time: string): string => (time.endsWith('Z') ? time.slice(0, -1) : time);

/** The things in order, each with what is new in its context. A message that occurs twice in one context is new twice. */
export function outline(things: readonly Thing[], links: ReadonlyMap<string, Link>): readonly OutlineItem[] {
  const lengths = new Map<string, number>();
  const known = new Map<string, number>();
  return inOrder(things).map((thing) => {
    const fresh: Link[] = [];
    let hash = thing.context;
    while (hash !== null && !lengths.has(hash)) {
      const link = links.get(hash);
      if (!link) break;
      fresh.push(link);
      hash = link.previous;
    }
    let length = hash === null ? 0 : (lengths.get(hash) ?? 0);
    const again = fresh.length > 0 && hash === null ? new Map<string, number>() : null;
    const prompt: Link[] = [];
    for (const link of fresh.reverse()) {
      lengths.set(link.hash, ++length);
      // A context that begins anew may repeat what earlier ones had: so many of a message as they had are not new.
      const before = (again?.get(link.digest) ?? 0) + 1;
      again?.set(link.digest, before);
      if (again !== null && before <= (known.get(link.digest) ?? 0)) continue;
      known.set(link.digest, (known.get(link.digest) ?? 0) + 1);
      prompt.push(link);
    }
    return {
      ...thing,
      bytes: thing.bytes + prompt.reduce((sum, link) => sum + link.bytes + textBytes(link, links), 0),
      prompt: prompt.map((link) => link.hash),
      promptMessages: length,
    };
  });
}

function textBytes({ names }: Link, links: ReadonlyMap<string, Link>): number {
  let bytes = 0;
  for (const name of names)
    for (let piece = links.get(name); piece; piece = piece.previous === null ? undefined : links.get(piece.previous))
      bytes += piece.bytes;
  return bytes;
}
