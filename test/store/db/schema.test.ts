/** The types of the tables are those of a migrated database. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { schemaText } from '../../../store/db/schema-text.ts';
import { freshDatabase } from '../../support/database.ts';

it('store/db/schema.ts is what a migrated database gives (if not: npm run schema)', async () => {
  const { db, close } = await freshDatabase();
  try {
    const file = readFileSync(join(import.meta.dirname, '../../../store/db/schema.ts'), 'utf8');
    expect(file === (await schemaText(db)), 'store/db/schema.ts is behind the migrations: run `npm run schema`').toBe(
      true,
    );
  } finally {
    await close();
  }
});
