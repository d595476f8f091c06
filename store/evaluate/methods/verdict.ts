/** The result of a filter for one item. */
export type Verdict = {
  readonly id: string | number;
  readonly keep: boolean;
  /** A stable word for why it was dropped; null when it was kept. */
  readonly reason: string | null;
};

/** Drops the item for the reason, or keeps it when there is none. */
export function verdict(id: string | number, reason: string | null): Verdict {
  return { id, keep: reason === null, reason };
}
