/**
 * The added tokens of a tokenizer.json: texts that are found before anything else is done to a text, and have an id each. As in
 * huggingface/tokenizers (tokenizers/src/tokenizer/added_vocabulary.rs).
 */
import type { Normalizer } from './normalizers.ts';

export type AddedToken = {
  readonly id: number;
  readonly content: string;
  /** Counts only where no letter or digit touches it. */
  readonly single_word?: boolean;
  /** Takes the white space before it, or after it. */
  readonly lstrip?: boolean;
  readonly rstrip?: boolean;
  /** Is looked for in the normalized text, not in the text as it stands. */
  readonly normalized?: boolean;
  readonly special?: boolean;
};

/** A part of a text: an added token, or normalized text; `first`: the text begins with it. */
export type Section = { readonly id: number } | { readonly text: string; readonly first: boolean };

const WORD = String.raw`[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]`;
const ENDING = new RegExp(`${WORD}$`, 'u');
const BEGINNING = new RegExp(`^${WORD}`, 'u');
const SPACE = /\p{White_Space}/u;
// A character has at most two units.
const endsWithWord = (text: string, end: number): boolean => ENDING.test(text.slice(Math.max(0, end - 2), end));
const startsWithWord = (text: string, start: number): boolean => BEGINNING.test(text.slice(start, start + 2));

/** Cuts texts at the added tokens: first at those looked for as they stand, then at those of the normalized text. */
export function addedTokenCutter(added: readonly AddedToken[], normalize: Normalizer): (text: string) => Section[] {
  const isNormalized = ({ normalized, special = false }: AddedToken): boolean => normalized ?? !special;
  const plain = finder(added.filter((token) => !isNormalized(token)));
  const later = finder(
    added.filter(isNormalized).map((token) => ({ ...token, content: normalize(token.content) || token.content })),
  );
  return (text) =>
    plain(text, true).flatMap((section) =>
      'id' in section ? [section] : later(normalize(section.text), section.first),
    );
}

/** Finds the longest of the tokens at each place, from the left. */
function finder(tokens: readonly AddedToken[]): (text: string, first: boolean) => Section[] {
  const whole = (text: string, first: boolean): Section[] => (text === '' ? [] : [{ text, first }]);
  if (tokens.length === 0) return whole;
  const byContent = new Map(tokens.map((token) => [token.content, token]));
  const longestFirst = [...byContent.keys()].sort((a, b) => b.length - a.length);
  const pattern = new RegExp(longestFirst.map((one) => one.replace(/[$()*+.?[\\\]^{|}/]/g, '\\$&')).join('|'), 'gu');
  return (text, first) => {
    const sections: Section[] = [];
    let from = 0;
    for (const found of text.matchAll(pattern)) {
      const token = byContent.get(found[0]) as AddedToken;
      let [start, end] = [found.index, found.index + found[0].length];
      if (start < from) continue;
      if (token.single_word && (endsWithWord(text, start) || startsWithWord(text, end))) continue;
      if (token.lstrip) while (start > from && SPACE.test(text.charAt(start - 1))) start--;
      if (token.rstrip) while (end < text.length && SPACE.test(text.charAt(end))) end++;
      sections.push(...whole(text.slice(from, start), first && from === 0), { id: token.id });
      from = end;
    }
    return [...sections, ...whole(text.slice(from), first && from === 0)];
  };
}
