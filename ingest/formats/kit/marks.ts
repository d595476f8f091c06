/** Ids by which the lines of a run refer to each other, for {@link Joins}. */
import { isIdentifier } from '../../events/text.ts';
import type { Marks } from './format.ts';

/** Values that are identifiers count, others are left out. */
export const marksOf = (holds: readonly unknown[], refers: readonly unknown[]): Marks => ({
  holds: holds.filter(isIdentifier),
  refers: refers.filter(isIdentifier),
});
