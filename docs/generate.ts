/** Writes the pages that are made from the code. A test fails while a page and the code say different things. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ImportReport, importFiles } from '../ingest/files/import.ts';
import { openDatabase } from '../store/db/database.ts';
import { sampleFolders } from '../test/golden/recorded.ts';
import { memoryLog } from '../test/ingest/support/memory-log.ts';
import { clientRoutes, commandsPage } from './operations-page.ts';
import { errorsPage, eventsPage, fieldsPage, methodsPage, viewPages } from './pages.ts';
import { tablesPage } from './tables-page.ts';

const write = (name: string, text: string): void => writeFileSync(join(import.meta.dirname, name), text);

write('events.md', eventsPage());
write('errors.md', errorsPage());
write('tables.md', tablesPage());
write('methods.md', methodsPage());
write('commands.md', await commandsPage());
write('../api/client/routes.ts', await clientRoutes());

const mappings = new Map<string, NonNullable<ImportReport['mapping']>>();
for (const [name, folder] of sampleFolders()) {
  const { mapping = [] } = await importFiles([folder], { ...memoryLog(), dryRun: true });
  mappings.set(name, mapping);
}
write('fields.md', fieldsPage(mappings));

const home = mkdtempSync(join(tmpdir(), 'troupe-docs-'));
try {
  const { db, close } = await openDatabase({ home, applicationName: 'troupe docs' });
  try {
    const { sql, reports } = await viewPages(db);
    write('sql.md', sql);
    write('reports.md', reports);
  } finally {
    await close();
  }
} finally {
  rmSync(home, { recursive: true, force: true });
}
