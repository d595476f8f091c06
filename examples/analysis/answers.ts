/**
 * One question (`answers.sql`) asked as the library does, and over HTTP as Arrow; then counted again over the rows of a frozen dataset.
 * `npx tsx examples/analysis/answers.ts [SERVER]` in the checkout, while `npx troupe up` runs; SERVER is http://127.0.0.1:7717 by default.
 * Prints one JSON document: the columns, and the rows by each interface.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Table, tableFromIPC } from 'apache-arrow';
import { openProject } from 'troupe';

const [server = 'http://127.0.0.1:7717'] = process.argv.slice(2);
const question = readFileSync(join(import.meta.dirname, 'answers.sql'), 'utf8');

const project = await openProject();
try {
  const { columns, rows } = await project.sql({ sql: question });
  const frozen = await project.dataset.freeze({ recipe: { name: 'every-step', unit: 'step' } });
  const steps = tableFromIPC(readFileSync(join(frozen.directory, 'train.arrow')));
  const answers = {
    columns: columns.map(({ name }) => name),
    library: rows.map((row) => row.map(plain)),
    http_arrow: rowsOf(await arrowOf(question)),
    dataset_arrow: stepsOfRoles(steps),
  };
  process.stdout.write(`${JSON.stringify(answers)}\n`);
} finally {
  await project.close();
}

/** The rows of a query as an Arrow table. @throws Error with the server's reason */
async function arrowOf(sql: string): Promise<Table> {
  const response = await fetch(`${server}/v1/sql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/vnd.apache.arrow.stream' },
    body: JSON.stringify({ sql }),
  });
  if (!response.ok) throw new Error(`POST /v1/sql returned ${response.status}: ${await response.text()}`);
  return tableFromIPC(await response.arrayBuffer());
}

/** `[role, steps]` for each role of a frozen dataset of steps. */
function stepsOfRoles(steps: Table): unknown[][] {
  const counts = new Map<string | null, number>();
  for (const role of steps.getChild('role')!) counts.set(role, (counts.get(role) ?? 0) + 1);
  return [...counts].sort();
}

function rowsOf(table: Table): unknown[][] {
  return table.toArray().map((row) => table.schema.fields.map(({ name }) => plain(row[name])));
}

/** Counts are 64-bit integers, which JSON does not have. */
function plain(value: unknown): unknown {
  return typeof value === 'bigint' ? Number(value) : value;
}
