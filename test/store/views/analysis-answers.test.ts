/** The answers on docs/analysis.md are those of the data they name. Needs TROUPE_DATA. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ask, type SqlAnswer } from '../../../store/explore/sql/sql.ts';
import { type Shell, warmShell } from '../../cli/support/troupe.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

const data = process.env.TROUPE_DATA ?? '';
const page = readFileSync(join(import.meta.dirname, '../../../docs/analysis.md'), 'utf8');

type Example = { readonly project: string; readonly sql: string; readonly names: string[]; readonly rows: string[][] };
const cellsOf = (line: string): string[] =>
  line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
/** Each query that names its data, with the first table that follows it. */
const examples = [...page.matchAll(/```sql (\w+)\n([\s\S]*?)```[^`]*?\n\n(\|[\s\S]*?)\n\n/g)].map(
  ([, project, sql, table]): Example => {
    const [names, , ...rows] = table!.split('\n').map(cellsOf);
    return { project: project!, sql: sql!, names: names!, rows };
  },
);

/** A cell is the value, rounded to the digits that it has, or the beginning of a long text. */
function shows(cell: string, value: unknown): boolean {
  if (value === null || cell === '') return value === null && cell === '';
  if (cell.endsWith('…')) return String(value).startsWith(cell.slice(0, -1));
  if (!/^-?[\d.]+$/.test(cell) || Number.isNaN(Number(value))) return String(value) === cell;
  const digits = cell.split('.')[1]?.length ?? 0;
  return digits === 0 ? Number(value) === Number(cell) : Number(value).toFixed(digits) === cell;
}

describe.skipIf(!data)('docs/analysis.md on published data (TROUPE_DATA names their folder)', () => {
  const projects: Record<string, { database: TestDatabase; at: Shell }> = {};
  beforeAll(async () => {
    for (const [name, files] of [
      ['airline', 'data/tau-bench/gpt-4o-airline.json'],
      ['failures', 'data/who-and-when'],
    ] as const) {
      const database = await freshDatabase();
      const at = warmShell({ DATABASE_URL: database.url });
      projects[name] = { database, at };
      const imported = await at.run(['import', join(data, files), '--quiet']);
      expect(imported.err).not.toContain('rror');
    }
    const [judged] = page.match(/--methods '([^']+)'/g)!;
    const methods = judged.slice("--methods '".length, -1);
    const { code } = await projects.airline!.at.run(['judge', '--methods', `${methods},magrpo_returns`, '--quiet']);
    expect(code).toBe(0);
  }, 600_000);
  afterAll(async () => {
    for (const { at, database } of Object.values(projects)) {
      await at.remove();
      await database.close();
    }
  });

  it('has an answer to twenty questions or more', () => {
    expect(examples.length).toBeGreaterThanOrEqual(20);
    expect(examples.length).toBe([...page.matchAll(/```sql \w/g)].length);
  });

  it.each(examples.map((one) => [one.sql.split('\n')[0]!, one] as const))(
    '%s',
    async (_, { project, sql, names, rows }) => {
      const answer: SqlAnswer = await ask(projects[project]!.database.db, sql, { timeoutMs: 60_000 });
      const columns = answer.columns.map(({ name }) => name);
      expect(columns).toEqual(expect.arrayContaining(names));
      const left = answer.rows.map((row) => names.map((name) => row[columns.indexOf(name)]));
      let from = 0;
      for (const row of rows) {
        const at = left.findIndex((values, i) => i >= from && values.every((value, n) => shows(row[n]!, value)));
        expect(at, `${row.join(' | ')} is not among ${JSON.stringify(left.slice(from, from + 12))}`).not.toBe(-1);
        from = at + 1;
      }
      const shown = answer.rows.slice(0, rows.length);
      const varying = columns.filter((_, i) => new Set(shown.map((row) => JSON.stringify(row[i]))).size > 1);
      expect(names).toEqual(expect.arrayContaining(varying));
    },
    120_000,
  );
});
