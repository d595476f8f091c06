/** Whether log and tables agree, as text for people. */
import type { OutputOf, Printer } from '../operation.ts';
import type { reconcile } from './run.ts';

export function reconciled(found: OutputOf<typeof reconcile>, { table }: Printer): string {
  const { ok, endpoints, topics, log, tables, dead_letters, split_identities, feedback_without_step, orphans } = found;
  return [
    ok ? 'Everything adds up.' : 'Something does not add up:',
    table(
      ['endpoint', 'received', 'acknowledged', 'duplicates', 'rejected', 'balanced'],
      endpoints.map((d) => [d.endpoint, d.received, d.acknowledged, d.duplicates, d.rejected, String(d.balanced)]),
    ),
    ...topics.map(
      (one) =>
        `${one.log} ${one.partition}: ${one.accepted} accepted, ${one.duplicates} duplicates, ${one.dead} dead, ${one.lag ?? '?'} behind`,
    ),
    [
      `log: ${log.events} events, ${log.pruned} pruned, ${log.gaps} partitions with gaps`,
      `tables: ${tables.applied} applied, ${tables.lag} behind`,
      `${dead_letters} dead letters`,
      `${split_identities.length} identities under several keys`,
      `${feedback_without_step} feedback on steps that do not exist`,
      ...Object.entries(orphans).map(([name, rows]) => `${rows} without an event: ${name}`),
    ].join(' · '),
  ].join('\n');
}
