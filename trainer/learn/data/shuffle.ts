/** Orders drawn from a seeded stream: Fisher and Yates, in place. */
import type { RandomStream } from '../../tensor/random.ts';

export function shuffle<T>(items: T[], { uniform }: RandomStream): T[] {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(uniform() * (i + 1));
    [items[i], items[j]] = [items[j]!, items[i]!];
  }
  return items;
}

/** Draws items without end: each is drawn once before any is drawn again. */
export function endless<T>(items: readonly T[], random: RandomStream): () => T {
  let left: T[] = [];
  return () => {
    if (left.length === 0) left = shuffle([...items], random);
    return left.pop()!;
  };
}
