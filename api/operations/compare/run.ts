/** What the operation compare does. */
import { compare as compareSides } from '../../../store/explore/comparing/compare.ts';
import type { ReadContext } from '../operation.ts';

export async function compare(
  { db, catchUp }: ReadContext,
  { first, second, level }: { readonly first: string; readonly second: string; readonly level: number },
) {
  await catchUp();
  return compareSides(db, first, second, level);
}
