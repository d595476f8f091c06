/**
 * What can be seen, without a model, of each message of an agent in a failed run: where it stands, how long it is beside the
 * rest, whether it guesses, whether what it asked for went wrong, what it brings into the last words. Nothing here knows a framework:
 * who coordinates is seen from who hands over.
 */

import { Type } from 'typebox';
import { nullable } from './shapes.ts';

/** One entry of the transcript, in order. `failed`: the recorded status of a tool's result; null where it is unknown. */
export const TranscriptEntry = Type.Object({
  kind: Type.Union([Type.Literal('agent'), Type.Literal('environment'), Type.Literal('user')]),
  agent: nullable(Type.String()),
  text: Type.String(),
  hands_over: Type.Optional(Type.Boolean()),
  failed: Type.Optional(nullable(Type.Boolean())),
});

export type TranscriptEntry = {
  readonly kind: 'agent' | 'environment' | 'user';
  readonly agent: string | null;
  readonly text: string;
  readonly hands_over?: boolean;
  readonly failed?: boolean | null;
};

export type FailedRun = {
  readonly question: string | null;
  readonly entries: readonly TranscriptEntry[];
};

export const SIGNS = [
  'first',
  'order',
  'coordinates',
  'hands_over',
  'relative_length',
  'code',
  'numbers',
  'guesses',
  'introduces',
  'work_failed',
  'after_failure',
  'after_success',
] as const;
export const REFERENCE_SIGNS = ['names_reference', 'after_reference'] as const;

export type Sign = (typeof SIGNS)[number];
export type ReferenceSign = (typeof REFERENCE_SIGNS)[number];

/** A row for each entry of an agent: its place among the entries and its signs. */
export type Candidate<Name extends string = Sign> = {
  readonly entry: number;
  readonly agent: string;
  readonly signs: Readonly<Record<Name, number>>;
};

const GUESS =
  /\b(assum\w*|hypothetical\w*|simulat\w*|sample|placeholder|mock\w*|example|approximat\w*|estimat\w*|likely|guess\w*|presum\w*|typical\w*)\b/gi;
const FAILURE = /\bexit ?code:? *[1-9]|\btraceback\b|\b\w*(?:error|exception)\b/i;
/** An error comes early in the output of a tool; the rest may be a page about errors. */
const SEARCHED_FOR_FAILURE = 3000;
/** Shorter last words (a bare end signal, a thank you) do not hold the answer. */
const SHORTEST_LAST_WORDS = 40;

const count = (pattern: RegExp, text: string): number => text.match(pattern)?.length ?? 0;
const bit = (value: boolean | undefined): 0 | 1 => (value ? 1 : 0);
const wordsOf = (text: string): Set<string> => new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);

/** The entries of agents with their signs, in order. An entry of an agent without a name is no candidate. */
export function signsOf({ question, entries }: FailedRun): Candidate[] {
  const agentTexts = agentEntries(entries);
  const longest = Math.max(1, ...agentTexts.map(({ text }) => text.length));
  const coordinators = new Set(agentTexts.filter((one) => one.hands_over).map((one) => one.agent));
  const brought = introductions(question, entries, agentTexts);
  return agentTexts.map(({ agent, at, text, hands_over }, k) => {
    const before = entries[at - 1];
    const after = entries[at + 1];
    return {
      entry: at,
      agent,
      signs: {
        first: bit(k === 0),
        order: Math.log1p(k),
        coordinates: bit(coordinators.has(agent)),
        hands_over: bit(hands_over),
        relative_length: text.length / longest,
        code: bit(text.includes('```')),
        numbers: Math.log1p(count(/\d+/g, text)),
        guesses: Math.log1p(count(GUESS, text)),
        introduces: brought.get(at) ?? 0,
        work_failed: bit(after?.kind === 'environment' && hasFailed(after)),
        after_failure: bit(before?.kind === 'environment' && hasFailed(before)),
        after_success: bit(before?.kind === 'environment' && !hasFailed(before)),
      },
    };
  });
}

/** The same with the reference: whether an entry names it, and whether it was named before and is no longer. */
export function signsWithReference(run: FailedRun, reference: string): Candidate<Sign | ReferenceSign>[] {
  const named = run.entries.map((entry) => names(entry.text, reference));
  const first = run.entries.findIndex((entry, i) => entry.kind !== 'user' && named[i]);
  return signsOf(run).map(({ entry, agent, signs }) => ({
    entry,
    agent,
    signs: {
      ...signs,
      names_reference: bit(named[entry]),
      after_reference: bit(first >= 0 && first < entry && !named[entry]),
    },
  }));
}

function agentEntries(entries: readonly TranscriptEntry[]) {
  return entries.flatMap(({ kind, agent, text, hands_over }, at) =>
    kind === 'agent' && agent !== null ? [{ agent, text, hands_over, at }] : [],
  );
}

const hasFailed = ({ failed, text }: TranscriptEntry): boolean =>
  failed ?? FAILURE.test(text.slice(0, SEARCHED_FOR_FAILURE));

/** Share of the words in the last words, without those of the question, that each entry was the first to use. */
function introductions(
  question: string | null,
  entries: readonly TranscriptEntry[],
  agentTexts: readonly { readonly at: number; readonly text: string }[],
): ReadonlyMap<number, number> {
  const last = agentTexts.findLast(({ text }) => text.length > SHORTEST_LAST_WORDS) ?? agentTexts.at(-1);
  if (last === undefined) return new Map();
  const asked = wordsOf(question ?? '');
  const distinctive = [...wordsOf(last.text)].filter(
    (word) => !asked.has(word) && (/\d/.test(word) || word.length > 3),
  );
  const missing = new Set(distinctive);
  const brought = new Map<number, number>();
  for (const [at, { text }] of entries.entries()) {
    if (at > last.at) break;
    const words = wordsOf(text);
    const found = [...missing].filter((word) => words.has(word));
    for (const word of found) missing.delete(word);
    if (found.length > 0) brought.set(at, found.length / distinctive.length);
  }
  return brought;
}

/** A number is named where it stands alone; other answers anywhere in the text, whatever the case. */
function names(text: string, reference: string): boolean {
  const wanted = reference.trim().toLowerCase();
  if (wanted === '') return false;
  const lower = text.toLowerCase();
  if (!/^[\d.,]+$/.test(wanted)) return lower.includes(wanted);
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, at + 1)) {
    const beside = (lower[at - 1] ?? ' ') + (lower[at + wanted.length] ?? ' ');
    if (!/[\d]/.test(beside) && !/[.,]/.test(beside[0]!)) return true;
  }
  return false;
}

export type Suspect = {
  readonly agent: string;
  /** Its place among the entries, from 0. */
  readonly entry: number;
  /** The agent's share of the probability; all shares sum to 1. */
  readonly value: number;
  /** The entry's own. */
  readonly entry_value: number;
};

/**
 * Softmax over entries; an agent has the sum of its entries. The surest agent comes first, then the one with the earliest entry.
 * NaN where a score is not finite, which whoever runs a method refuses.
 */
export function rankBlame(
  candidates: readonly { readonly agent: string; readonly entry: number }[],
  scores: readonly number[],
): Suspect[] {
  const shares = softmax(scores);
  const agents = new Map<string, { value: number; entry: number; entry_value: number }>();
  for (const [k, { agent, entry }] of candidates.entries()) {
    const share = shares[k]!;
    const known = agents.get(agent);
    if (known === undefined) agents.set(agent, { value: share, entry, entry_value: share });
    else {
      known.value += share;
      if (share > known.entry_value) Object.assign(known, { entry, entry_value: share });
    }
  }
  return [...agents].map(([agent, found]) => ({ agent, ...found })).sort((a, b) => b.value - a.value);
}

export function softmax(scores: readonly number[]): number[] {
  const top = Math.max(...scores);
  const weights = scores.map((score) => Math.exp(score - top));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}
