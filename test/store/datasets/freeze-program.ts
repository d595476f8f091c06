/** Freezes a recipe in a process that a test kills: address of the database, folder of the datasets, recipe as JSON. */
import { freeze } from '../../../store/datasets/freeze.ts';
import { openPool } from '../../../store/db/pool.ts';

const [url, directory, recipe] = process.argv.slice(2);
const db = openPool(url!, { max: 2 });
await freeze(db, JSON.parse(recipe!), { directory: directory!, codeVersion: 'test' });
await db.close();
