import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sha256 } from '../../../ingest/json.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { listDatasets } from '../../../store/datasets/read.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { seed } from './fixture.ts';

let database: TestDatabase;
let folder: string;
const RECIPE = { name: 'all', layout: ['arrow', 'parquet', 'jsonl'], split: { held_out: 0.3 } };
const make = (directory: string) => freeze(database.db, RECIPE, { directory, codeVersion: 'test' });
const bytes = (directory: string) =>
  Object.fromEntries(readdirSync(directory).map((name) => [name, sha256(readFileSync(join(directory, name)))]));

beforeAll(async () => {
  database = await freshDatabase();
  folder = mkdtempSync(join(tmpdir(), 'killed-'));
  await seed(database.db, { tasks: 40, callsOfEpisode: 4 });
});
afterAll(async () => {
  await database.close();
  rmSync(folder, { recursive: true });
});

/** Names of files in drafts. */
const drafted = (directory: string): readonly string[] =>
  readdirSync(directory)
    .filter((name) => name.startsWith('.tmp-'))
    .flatMap((name) => readdirSync(join(directory, name)));

/** Begins a freeze in another process and kills it once a file is there. @returns what its draft holds */
async function killedAt(file: string, directory: string): Promise<readonly string[]> {
  mkdirSync(directory);
  const program = join(import.meta.dirname, 'freeze-program.ts');
  const args = ['--import', 'tsx', program, database.url, directory, JSON.stringify(RECIPE)];
  const child = spawn(process.execPath, args, { stdio: 'inherit' });
  const ended = once(child, 'exit');
  const looking = setInterval(() => {
    if (drafted(directory).includes(file)) child.kill('SIGKILL');
  }, 1);
  await ended;
  clearInterval(looking);
  return drafted(directory);
}

it('a freeze that is killed at any file leaves no dataset, or the whole one, and gives the same bytes when it is started again', async () => {
  const whole = bytes((await make(join(folder, 'whole'))).directory);
  const left: (readonly string[])[] = [];
  for (const file of ['train.arrow', 'train.parquet', 'README.md']) {
    const directory = join(folder, file);
    left.push(await killedAt(file, directory));
    expect((await listDatasets(directory)).map(({ problem }) => problem).filter((problem) => problem)).toEqual([]);
    expect(bytes((await make(directory)).directory)).toEqual(whole);
  }
  expect(left.filter((names) => names.length > 0).length).toBeGreaterThan(0);
}, 300_000);
