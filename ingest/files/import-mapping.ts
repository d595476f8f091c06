/** The report of a dry run on native fields: where they go, and which stay without a place. */
import type { Draft } from '../events/events.ts';
import { canonicalJson, isRecord } from '../events/json.ts';
import type { Format } from '../formats/kit/format.ts';

/** Counts the fields of an event that have no place of their own. */
export function countUnmapped(into: Map<string, number>, format: Format, { name, data }: Draft): void {
  const unmapped = (data as { unmapped?: unknown }).unmapped;
  if (!isRecord(unmapped)) return;
  for (const field of fieldsOf(unmapped)) {
    const key = canonicalJson([format.name, `${name}.unmapped.${field}`]);
    into.set(key, (into.get(key) ?? 0) + 1);
  }
}

/** Names of the members, and of the members of objects among them. */
const fieldsOf = (record: Record<string, unknown>): string[] =>
  Object.entries(record).flatMap(([key, member]) =>
    isRecord(member) && Object.keys(member).length > 0 ? Object.keys(member).map((inner) => `${key}.${inner}`) : [key],
  );

/** Where each native field goes, format by format. */
export const mappingOf = (formats: ReadonlySet<Format>) =>
  [...formats].flatMap(({ name, mapping }) => mapping.map(([native, ours]) => ({ format: name, native, ours })));

/** The counted fields, the most frequent first. */
export const unmappedOf = (counted: ReadonlyMap<string, number>) =>
  [...counted]
    .map(([key, events]) => {
      const [format, field] = JSON.parse(key) as [string, string];
      return { format, field, events };
    })
    .sort((a, b) => b.events - a.events || (a.field < b.field ? -1 : 1));
