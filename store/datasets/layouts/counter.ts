/** Counts of named things, in the order in which they were first seen. */
export type Count = { readonly what: string; readonly count: number };

export type Counter = {
  readonly add: (what: string, count?: number) => void;
  readonly list: () => readonly Count[];
};

export function counter(): Counter {
  const counts = new Map<string, number>();
  return {
    add: (what, count = 1) => {
      if (count > 0) counts.set(what, (counts.get(what) ?? 0) + count);
    },
    list: () => [...counts].map(([what, count]) => ({ what, count })),
  };
}
