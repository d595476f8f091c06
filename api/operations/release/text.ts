/** Releases as text for people. */
import type { OutputOf, Printer } from '../operation.ts';
import type * as run from './run.ts';

const mapText = (map: Readonly<Record<string, string>>): string =>
  Object.entries(map)
    .map(([name, id]) => `${name} → ${id}`)
    .join(', ');

export const released = ({ policies }: OutputOf<typeof run.release>): string => `Released: ${mapText(policies)}`;

export const rolledBack = ({ back_to, policies, teams }: OutputOf<typeof run.rollback>): string =>
  `Back to release ${back_to}: ${mapText({ ...policies, ...teams })}`;

export const listed = ({ items }: OutputOf<typeof run.list>, { table }: Printer): string =>
  items.length === 0
    ? 'No releases yet.'
    : table(
        ['release', 'released', 'policies', 'by', 'reason'],
        items.map((one) => [
          ...[one.release_id, one.released_at, mapText({ ...one.policies, ...one.teams }), one.by, one.reason],
        ]),
      );
