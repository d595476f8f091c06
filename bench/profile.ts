/** Where the time of a step goes: the runtime's trace of its operations, summed by kind. Pure. */

/** One event of ONNX Runtime's trace; `dur` is in microseconds. */
export type TraceEvent = {
  readonly cat: string;
  readonly name: string;
  readonly dur?: number;
  readonly args?: { readonly op_name?: string };
};

/** Milliseconds of one of so many steps by operation, largest first; the smallest together as `rest`. */
export function operatorTimes(
  events: readonly TraceEvent[],
  steps: number,
  most = 14,
): Readonly<Record<string, number>> {
  const sums = new Map<string, number>();
  for (const { cat, name, dur = 0, args } of events) {
    if (cat !== 'Node' || !name.endsWith('_kernel_time')) continue;
    const operation = args?.op_name ?? 'unknown';
    sums.set(operation, (sums.get(operation) ?? 0) + dur / 1000 / steps);
  }
  const sorted = [...sums].sort(([, a], [, b]) => b - a);
  const rest = sorted.slice(most).reduce((sum, [, time]) => sum + time, 0);
  return Object.fromEntries([...sorted.slice(0, most), ...(rest > 0 ? [['rest', rest] as const] : [])]);
}
