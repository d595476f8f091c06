/** Made-up task texts: words of a made-up language, and near-duplicates with one word changed. Deterministic. */
import { wordAt } from '../../../store/evaluate/consistency/words.ts';

const draw = (seed: number, at: number, below: number): number => (wordAt(seed, at) >>> 0) % below;

const WORDS = Array.from({ length: 2000 }, (_, i) =>
  Array.from({ length: 2 + draw(1, i, 8) }, (_, k) => String.fromCharCode(97 + draw(2, 16 * i + k, 26))).join(''),
);

/** `words` words; texts of different numbers have nothing to do with each other. */
export const aText = (number: number, words = 40): string[] =>
  Array.from({ length: words }, (_, k) => WORDS[draw(1000 + number, k, WORDS.length)]!);

/** The same with `changes` of its words changed, others for each variant. */
export function variant(text: readonly string[], changes: number, number: number): string[] {
  const changed = [...text];
  for (let i = 0; i < changes; i++)
    changed[draw(7 + i, number, text.length)] = WORDS[draw(8 + i, number, WORDS.length)]!;
  return changed;
}
