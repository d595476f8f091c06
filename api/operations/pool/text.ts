/** The pool as text for people. */
import type { OutputOf, Printer } from '../operation.ts';
import type { pool } from './run.ts';

export function chosen({ clusters, triplets, left_out }: OutputOf<typeof pool>, { table, say }: Printer): string {
  const left = Object.entries(left_out).map(([reason, ids]) => `${ids.length} ${reason}`);
  say(`${triplets.length} triplets${left.length === 0 ? '' : `; episodes left out: ${left.join(', ')}`}`);
  return table(
    ['cluster', 'queries', 'teams', 'team', 'total', 'kept', 'reason'],
    clusters.map(({ cluster, queries, competing, team, total, kept, reason }) => [
      ...[cluster, queries.length, competing.length, team, total === null ? null : Number(total.toPrecision(6))],
      ...[kept.length, reason],
    ]),
  );
}
