/**
 * Locality-sensitive hashing by bands (Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, chapter 3): a signature is cut into
 * bands of so many rows, and two signatures meet where one band is wholly the same. Two that agree in each row with probability p
 * meet with probability 1 − (1 − p^rows)^bands.
 */

export type Bands = { readonly bands: number; readonly rows: number };

/** The probability that two signatures which agree in each row with probability `agreement` meet in some band. */
export const meeting = (agreement: number, { bands, rows }: Bands): number => 1 - (1 - agreement ** rows) ** bands;

/**
 * The most selective bands, that is the ones of most rows, in which signatures at the threshold still meet with probability
 * `recall`; bands of one row where even those do not.
 */
export function bandsFor(agreement: number, hashes: number, recall: number): Bands {
  for (let rows = hashes; rows > 1; rows--) {
    const bands = { bands: Math.floor(hashes / rows), rows };
    if (meeting(agreement, bands) >= recall) return bands;
  }
  return { bands: hashes, rows: 1 };
}
