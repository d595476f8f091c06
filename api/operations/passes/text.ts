/** What was embedded, for people. */
import type { OutputOf, Printer } from '../operation.ts';
import type { embed } from './run.ts';

export const embedded = ({ refused, warnings, ...facts }: OutputOf<typeof embed>, { table }: Printer): string =>
  [
    table(['what', 'value'], Object.entries({ ...facts, refused: refused.tasks })),
    ...(refused.tasks > 0 ? [table(['refused because', 'tasks'], Object.entries(refused.reasons))] : []),
  ].join('\n');
