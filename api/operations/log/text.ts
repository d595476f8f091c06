/** Logs as text for people. */
import type { OutputOf, Printer } from '../operation.ts';
import type { adopted, list } from './run.ts';

type Adoption = OutputOf<typeof adopted>;

export const listed = ({ items }: OutputOf<typeof list>, { table }: Printer): string =>
  table(
    ['log', 'cluster', 'partitions', 'read', 'first read', 'replaced'],
    items.map((one) => [one.log, one.cluster, one.partitions, one.read, one.first_read, one.replaced_at]),
  );

/** Null where the topic is the one that was read. */
export function adoptQuestion({ log, why, cluster, partitions, offsets }: Adoption): string | null {
  if (why === null) return null;
  const found =
    partitions === 0
      ? 'There is no such topic now; it is made'
      : `Now it has ${partitions} partitions with ${offsets} offsets, in cluster ${cluster ?? 'unknown'}`;
  return `${log} is not the log that was read: ${why}. ${found}. Its beginning is where reading goes on.`;
}

export function adoptedText(adoption: Adoption): string {
  const { adopted, log, replaced, cluster } = adoption;
  if (adopted) return `Adopted as ${log}: it is read from its beginning. What ${replaced} gave stays in the tables.`;
  return (
    adoptQuestion(adoption) ??
    `${log} in cluster ${cluster ?? 'unknown'} is the log that was read: there is nothing to adopt.`
  );
}
