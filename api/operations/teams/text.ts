/** Teams as text for people. */
import type { OutputOf, Printer } from '../operation.ts';
import type * as run from './run.ts';

/** Six digits of a number. */
const rounded = (value: unknown): unknown => (typeof value === 'number' ? Number(value.toPrecision(6)) : value);

export const listed = ({ items }: OutputOf<typeof run.list>, { table }: Printer): string =>
  items.length === 0
    ? 'There are no teams yet; the event team.defined records one.'
    : table(
        Object.keys(items[0]!),
        items.map((row) => Object.values(row).map(rounded)),
      );

const COLUMNS = ['team_id', 'name', 'score', 'roles', 'wiring', 'reason'] as const;
export const alike = ({ teams }: OutputOf<typeof run.like>, { table }: Printer): string =>
  table(
    COLUMNS,
    teams.map((one) => COLUMNS.map((column) => rounded(one[column]))),
  );

export const shown = ({ team_id, definition }: OutputOf<typeof run.show>): string =>
  `${team_id}\n${JSON.stringify(definition, null, 2)}`;
