/** Jobs as text for people. */
import { countText } from '../../../errors.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type * as run from './run.ts';

/** Ids that a cancelling prints: of a rollout thousands of attempts end with it. */
const CANCELLED_SHOWN = 5;

export const listed = ({ items, total }: OutputOf<typeof run.list>, { table, say }: Printer): string => {
  if (items.length === 0) return 'No jobs yet.';
  if (items.length < total) say(`${items.length} of ${countText(total, 'job')}; --limit N lists more.`);
  return table(
    ['job', 'kind', 'state', 'outcome', 'requested', 'waits for', 'error'],
    items.map((one) => [one.job_id, one.kind, one.state, one.outcome, one.requested_at, one.waits_for, one.error]),
  );
};

export const shown = ({ spec, result, ...job }: OutputOf<typeof run.show>, { table }: Printer): string =>
  [
    table(['what', 'value'], Object.entries(job)),
    ...Object.entries({ spec, result }).map(([name, value]) => `${name}: ${JSON.stringify(value, null, 2)}`),
  ].join('\n');

export const curves = ({ items }: OutputOf<typeof run.metrics>, { table }: Printer): string =>
  items.length === 0
    ? 'It reported no numbers.'
    : table(
        ['number', 'first', 'last', 'steps'],
        items.map(({ name, values, steps }) => [name, values[0], values.at(-1), steps.length]),
      );

export const cancelled = ({ cancelled }: OutputOf<typeof run.cancel>): string => {
  const more = cancelled.length - CANCELLED_SHOWN;
  return `Cancelled: ${cancelled.slice(0, CANCELLED_SHOWN).join(', ')}${more > 0 ? ` and ${countText(more, 'part')} more; --json lists all` : ''}`;
};
