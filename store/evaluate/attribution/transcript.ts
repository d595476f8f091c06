/** A conversation as a judge model reads it, cut to a number of tokens by one rule. Pure. */
import { hashId } from '../../../ingest/events/json.ts';
import { numberOf } from './cases.ts';
import type { CaseEntry } from './entries.ts';

export type TranscriptLine = { readonly number: number; readonly speaker: string; readonly text: string };

/** A shorter entry carries no information; a conversation of so many entries stays too long. */
const SHORTEST_LINE = 80;
/** Share of what is kept that stands at the beginning: a mistake is made there and reported at the end. */
const HEAD = 2 / 3;

/**
 * Cut where it is longer than `tokens`: the longest entries are shortened, all to one length, the greatest that fits; of each the first
 * two thirds and the last third stay.
 */
export function transcriptOf(
  entries: readonly CaseEntry[],
  tokens: number,
): {
  /** One for each entry, in order. */
  readonly lines: readonly TranscriptLine[];
  readonly cut: { readonly rule: 'longest_first'; readonly entries: number; readonly characters: number } | null;
} {
  const total = (limit: number) => entries.reduce((sum, { text }) => sum + Math.min(limit, text.length), 0);
  const room = tokens * 4;
  let [low, high] = [SHORTEST_LINE, Math.max(SHORTEST_LINE, ...entries.map(({ text }) => text.length))];
  if (total(high) <= room) low = high;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (total(middle) <= room) low = middle;
    else high = middle - 1;
  }
  const long = entries.filter(({ text }) => text.length > low);
  return {
    lines: entries.map((entry, at) => ({
      number: numberOf(entries, at),
      speaker: entry.kind === 'agent' ? (entry.agent ?? 'agent') : entry.kind === 'user' ? 'user' : 'environment',
      text: shortened(entry.text, low),
    })),
    cut:
      long.length === 0
        ? null
        : {
            rule: 'longest_first',
            entries: long.length,
            characters: long.reduce((sum, { text }) => sum + text.length - low, 0),
          },
  };
}

function shortened(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const head = Math.floor(limit * HEAD);
  return `${text.slice(0, head)} […${text.length - limit} characters left out…] ${text.slice(text.length - (limit - head))}`;
}

export const written = (lines: readonly TranscriptLine[]): string =>
  lines.map(({ number, speaker, text }) => `[${number}] ${speaker}:\n${text}`).join('\n\n');

/** Equal for conversations that a judge model would read alike. */
export const contentHash = (question: string | null, reference: string | null, entries: readonly CaseEntry[]): string =>
  hashId(
    question,
    reference,
    entries.map(({ kind, agent, text }) => [kind, agent, text]),
  );
