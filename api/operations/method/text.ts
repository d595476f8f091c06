/** Methods as text for people. */
import { countText } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type { list } from './list.ts';
import type { run, show } from './run.ts';
import { judgeReadsText, methodFields, parameterRows } from './words.ts';

const OVER = {
  episode: 'each episode',
  group: 'each group',
  report: 'each execution report',
  replay: 'each tree of steps',
  groups: 'whole groups, many at once',
  set: 'everything that is judged, at once',
} as const;

export const listed = ({ items }: OutputOf<typeof list>, { table }: Printer): string =>
  table(
    ['method', 'kind', 'for', 'result'],
    items.map((one) => [one.name, one.kind, one.teams, one.summary]),
    Number.POSITIVE_INFINITY,
  );

export function shown(method: OutputOf<typeof show>, { table }: Printer): string {
  const { name, kind, version, summary, teams, source, reads, over, example } = method;
  const parameters = parameterRows(method);
  return [
    `${name} (${kind}, version ${version})`,
    summary,
    `For: ${teams === 'any' ? 'any team' : teams}`,
    `Source: ${source}`,
    `Judge reads: ${judgeReadsText(reads)}`,
    ...(over === null ? [] : [`Judge runs it over: ${OVER[over as keyof typeof OVER]}`]),
    '\nParameters',
    parameters.length === 0 ? 'none' : table(['parameter', 'default', 'takes'], parameters),
    '\nInput',
    table(['field', 'takes', ''], methodFields(method)),
    ...(example === undefined
      ? []
      : [
          '\nExample',
          `printf %s '${JSON.stringify(example.input).replaceAll("'", `'\\''`)}' | troupe method run ${name}`,
          jsonText(example.output),
        ]),
  ].join('\n');
}

export const ran = ({ output }: OutputOf<typeof run>): string => jsonText(output);

/** Beside the answers, which may stand on standard output. */
export function ranLines(
  {
    lines,
    refused,
    first_refused,
  }: { readonly lines: number; readonly refused: number; readonly first_refused: number | null },
  { say }: Pick<Printer, 'say'>,
): string {
  if (refused > 0) say(`${refused} of ${countText(lines, 'line')} refused, the first is line ${first_refused}.`);
  return '';
}

/** JSON that keeps the sign of -0, which `JSON.stringify` drops. */
export function jsonText(value: unknown): string {
  if (Object.is(value, -0)) return '-0';
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`;
  if (!isRecord(value)) return JSON.stringify(value) ?? 'null';
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${jsonText(member)}`).join(',')}}`;
}
