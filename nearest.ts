/** Finds what somebody who mistyped a name most likely meant. */

/** The candidate with the fewest edits from `name`, or null when none is near enough (a third of its letters, at least 2). */
export function nearest(name: string, candidates: readonly string[]): string | null {
  const wanted = name.toLowerCase().replaceAll('-', '_');
  let best: string | null = null;
  let fewest = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    const edits = distance(wanted, candidate);
    if (edits < fewest && edits <= Math.max(2, Math.floor(candidate.length / 3))) {
      best = candidate;
      fewest = edits;
    }
  }
  return best;
}

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}
