/** Adds all items to a list. `list.push(...items)` hands each over on the stack, and ends in a RangeError from some 120,000 on. */
export function pushAll<T>(list: T[], items: Iterable<T>): void {
  for (const item of items) list.push(item);
}
