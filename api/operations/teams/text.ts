/** Teams as text for people. */
import type { Printer } from '../operation.ts';
import type * as run from './run.ts';

type Output<F extends keyof typeof run> = Awaited<ReturnType<(typeof run)[F]>>;

/** Six digits of a number. */
const rounded = (value: unknown): unknown => (typeof value === 'number' ? Number(value.toPrecision(6)) : value);

export const listed = ({ items }: Output<'list'>, { table }: Printer): string =>
  items.length === 0
    ? 'There are no teams yet; the event team.defined records one.'
    : table(
        Object.keys(items[0]!),
        items.map((row) => Object.values(row).map(rounded)),
      );

const COLUMNS = ['team_id', 'name', 'score', 'roles', 'wiring', 'reason'] as const;
export const alike = ({ teams }: Output<'like'>, { table }: Printer): string =>
  table(
    COLUMNS,
    teams.map((one) => COLUMNS.map((column) => rounded(one[column]))),
  );

export const shown = ({ team_id, definition }: Output<'show'>): string =>
  `${team_id}\n${JSON.stringify(definition, null, 2)}`;
