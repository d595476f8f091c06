/** `npm run schema`: writes store/db/schema.ts from a database with every migration applied. A test fails while the two differ. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDatabase } from '../store/db/database.ts';
import { schemaText } from '../store/db/schema-text.ts';

const home = mkdtempSync(join(tmpdir(), 'troupe-schema-'));
try {
  const { db, close } = await openDatabase({ home, applicationName: 'troupe schema' });
  try {
    writeFileSync(join(import.meta.dirname, '../store/db/schema.ts'), await schemaText(db));
  } finally {
    await close();
  }
} finally {
  rmSync(home, { recursive: true, force: true });
}
