/** Policies as text for people. */
import { pendingText } from '../../../store/loop/comparison/watch.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type { list } from './run.ts';

export function listed({ items, teams, watch, rolled_back }: OutputOf<typeof list>, { table }: Printer): string {
  const lines = Object.entries(teams).map(([team, id]) => `Team ${team}: ${id}`);
  if (watch !== null)
    lines.push(
      `Watch of release ${watch.release_id}: ${watch.outcome.replace('_', ' ')}. ${watch.reason} ${pendingText(watch)}`.trimEnd(),
    );
  if (rolled_back !== null) lines.push(`Rolled back: ${rolled_back}`);
  if (items.length === 0 && Object.keys(teams).length === 0)
    return ['No policies yet: nothing was trained, added or released.', ...lines].join('\n');
  const rows = items.map(({ policy, released, newest }) => [policy, released, newest]);
  return [table(['policy', 'released', 'newest checkpoint'], rows), ...lines].join('\n');
}
