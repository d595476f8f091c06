/** The table of teams in docs/ingest.md, from the list that the proof checks: `yes` is compared with what happened, `no` is the client's. */
import { ASPECTS, TEAMS, type Team } from './team-list.ts';

const cells = ({ name, by, lacks = {}, subAgent = false }: Team): string[] => [
  name,
  by,
  ...ASPECTS.map((aspect) => (lacks[aspect] !== undefined ? 'no' : aspect === 'parent' && !subAgent ? 'none' : 'yes')),
];

/** Lines of Markdown: the table, then what each client does not send. */
export function teamTable(): string {
  const rows = [['framework', 'recorded by', ...ASPECTS], ...TEAMS.map(cells)];
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  const line = (row: readonly string[], fill = ' ') =>
    `| ${row.map((cell, i) => cell.padEnd(widths[i]!, fill)).join(' | ')} |`;
  const missing = TEAMS.flatMap(({ name, by, lacks = {} }) =>
    [...new Set(Object.values(lacks))].map((reason) => {
      const aspects = ASPECTS.filter((aspect) => lacks[aspect] === reason);
      return `- ${name}, ${by}: no ${aspects.join(', ')}: ${reason}.`;
    }),
  );
  return [
    line(rows[0]!),
    line(
      rows[0]!.map(() => ''),
      '-',
    ),
    ...rows.slice(1).map((row) => line(row)),
    '',
    ...missing,
  ].join('\n');
}
