/** What a pass came to, for people. */
import type { OutputOf, Printer } from '../operation.ts';
import type { overEpisodes } from './run.ts';

export function passed(output: OutputOf<typeof overEpisodes>, { table }: Printer): string {
  const { refused, warnings: _, ...facts } = output;
  if ('rows' in facts) return JSON.stringify(output);
  const why = Object.entries(refused.reasons);
  return [
    table(['what', 'value'], Object.entries({ ...facts, refused: refused.steps })),
    ...(why.length > 0 ? [table(['refused because', 'steps'], why)] : []),
  ].join('\n');
}
