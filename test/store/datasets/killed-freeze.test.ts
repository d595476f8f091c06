import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sha256 } from '../../../ingest/json.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { listDatasets } from '../../../store/datasets/read.ts';
import { takeUp, unfinishedIn } from '../../../store/datasets/unfinished.ts';
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

it('a freeze that is killed once all rows are written goes on from their files while nothing was recorded since', async () => {
  const whole = bytes((await make(join(folder, 'whole'))).directory);
  let left: readonly string[] = [];
  let directory = '';
  for (let turn = 0; !left.includes('unfinished.json'); turn++) {
    expect(turn).toBeLessThan(10);
    directory = join(folder, `turn-${turn}`);
    left = await killedAt('train.parquet', directory);
  }
  const [{ directory: draft, state }] = (await unfinishedIn(directory)) as [
    Awaited<ReturnType<typeof unfinishedIn>>[number],
  ];
  expect(state.manifest.rows.train).toBeGreaterThan(0);
  const inode = (path: string) => statSync(join(path, 'train.arrow')).ino;
  const written = inode(draft);
  // What had been recorded at an earlier time is not in these files.
  const earlier = { asOf: { at: '2026-01-01T00:00:00Z', positions: [] }, allowEmpty: true };
  const other = await freeze(database.db, RECIPE, { directory, codeVersion: 'test', ...earlier });
  expect(other.warnings.join()).not.toMatch(/was stopped/);
  rmSync(other.directory, { recursive: true });
  const frozen = await make(directory);
  expect(frozen.warnings.join()).toMatch(/was stopped had written all rows/);
  expect(inode(frozen.directory)).toBe(written);
  expect(bytes(frozen.directory)).toEqual(whole);
  expect(frozen.rows()).toEqual((await make(join(folder, 'whole'))).rows());
  expect(await unfinishedIn(directory)).toEqual([]);
}, 300_000);

it('a freeze does not go on from rows of another moment, nor from files that are not as they were written', async () => {
  const wanted = { asked: 'recipe', positions: { log: { 0: 1 } }, codeVersion: 'test' };
  const files = [{ name: 'rows.jsonl.gz', sha256: sha256(gzipSync('')), bytes: gzipSync('').length }];
  const manifest = {
    files,
    positions: wanted.positions,
    code_version: 'test',
    rows: { train: 0 },
    recipe: { unit: 'step' },
  };
  const state = { asked: 'recipe', manifest, warnings: [], host: hostname(), pid: 2 ** 22 + 1 };
  const parent = join(folder, 'drafts');
  const begin = (more: object = {}) => {
    const draft = join(parent, '.tmp-1-other');
    rmSync(parent, { recursive: true, force: true });
    mkdirSync(draft, { recursive: true });
    writeFileSync(join(draft, 'rows.jsonl.gz'), gzipSync(''));
    writeFileSync(join(draft, 'unfinished.json'), JSON.stringify({ ...state, ...more }));
    return draft;
  };
  begin();
  expect(await takeUp(parent, { ...wanted, positions: { log: { 0: 2 } } })).toBeNull();
  expect(await takeUp(parent, { ...wanted, asked: 'another' })).toBeNull();
  expect(await takeUp(parent, { ...wanted, codeVersion: 'another' })).toBeNull();
  begin({ pid: process.ppid });
  expect(await takeUp(parent, wanted)).toBeNull();
  begin({ host: 'elsewhere' });
  expect(await takeUp(parent, wanted)).toBeNull();
  writeFileSync(join(begin(), 'rows.jsonl.gz'), 'changed');
  expect(await takeUp(parent, wanted)).toBeNull();
  begin();
  expect(await takeUp(parent, wanted)).toMatchObject({ manifest: { files } });
  expect(await takeUp(parent, wanted)).toBeNull();
});
