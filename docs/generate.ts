/** Writes the pages that are made from the code. A test fails while a page and the code say different things. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDatabase } from '../store/db/database.ts';
import { clientRoutes, commandsPage } from './operations-page.ts';
import { errorsPage, eventsPage, methodsPage, sqlPage } from './pages.ts';

const write = (name: string, text: string): void => writeFileSync(join(import.meta.dirname, name), text);

write('events.md', eventsPage());
write('errors.md', errorsPage());
write('methods.md', methodsPage());
write('commands.md', await commandsPage());
write('../api/client/routes.ts', await clientRoutes());

const home = mkdtempSync(join(tmpdir(), 'troupe-docs-'));
try {
  const { db, close } = await openDatabase({ home, applicationName: 'troupe docs' });
  try {
    write('sql.md', await sqlPage(db));
  } finally {
    await close();
  }
} finally {
  rmSync(home, { recursive: true, force: true });
}
