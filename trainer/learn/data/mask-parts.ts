/** A row of training as text, cut where learning begins and ends. */
import type { TokenRow } from './training-rows.ts';

export type MaskPart = { readonly learnt: boolean; readonly tokens: number; readonly text: string };

/** The parts of a row in order, learnt and not in turn. A character whose tokens are cut shows as U+FFFD. */
export function maskParts(
  { promptIds, tokenIds, trained }: Pick<TokenRow, 'promptIds' | 'tokenIds' | 'trained'>,
  decode: (ids: readonly number[]) => string,
): readonly MaskPart[] {
  const ids = [...promptIds, ...tokenIds];
  const learnt = (at: number): boolean => trained[at - promptIds.length] ?? false;
  const starts = ids.flatMap((_, at) => (at === 0 || learnt(at) !== learnt(at - 1) ? [at] : []));
  return starts.map((from, i) => {
    const part = ids.slice(from, starts[i + 1]);
    return { learnt: learnt(from), tokens: part.length, text: decode(part) };
  });
}
