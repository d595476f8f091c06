import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fillSteps } from '../../../bench/stored-steps.ts';
import { sha256 } from '../../../ingest/events/json.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { changedBetween, type Moment, momentOf } from '../../../store/datasets/moment.ts';
import { listDatasets } from '../../../store/datasets/read.ts';
import { takeUp, type UnfinishedFreeze, unfinishedIn, whyAnew } from '../../../store/datasets/unfinished.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { compiledProgram } from '../../support/program.ts';
import { insert, rowsTold, seed } from './fixture.ts';

let small: TestDatabase;
let large: TestDatabase;
let folder: string;
beforeAll(async () => {
  small = await freshDatabase();
  large = await freshDatabase();
  folder = mkdtempSync(join(tmpdir(), 'killed-'));
  await seed(small.db, { tasks: 40, callsOfEpisode: 4 });
  await fillSteps(large.db, STEPS);
  await large.db.query(
    `update facts.steps set text = repeat((select string_agg(md5(call_id || n), ' ') from generate_series(1, 40) n), 5)`,
  );
  await large.db.query('vacuum analyze facts.steps');
}, 300_000);
afterAll(async () => {
  await small.close();
  await large.close();
  rmSync(folder, { recursive: true });
});

/** Of 6 kB each, so that they are a few batches: one has 32 MiB. */
const STEPS = 10_000;
const SMALL = { name: 'all', layout: ['arrow', 'parquet', 'jsonl'], split: { held_out: 0.3 } };
const LARGE = {
  name: 'large',
  columns: ['episode_id', 'call_id', 'candidate', 'text', 'token_ids', 'logprobs', 'reward'],
  split: { held_out: 0.2 },
  weight: [{ where: 'role = role-1', weight: 2 }],
  layout: ['arrow', 'jsonl'],
};
const make = (of: TestDatabase, recipe: object, directory: string) =>
  freeze(of.db, recipe, { directory, codeVersion: 'test' });
const bytes = (directory: string) =>
  Object.fromEntries(readdirSync(directory).map((name) => [name, sha256(readFileSync(join(directory, name)))]));

const drafts = (directory: string): readonly string[] =>
  readdirSync(directory)
    .filter((name) => name.startsWith('.tmp-'))
    .map((name) => join(directory, name));

/** Begins a freeze in another process and kills it as soon as its draft is as asked. @returns the files of the draft */
async function killed(
  of: TestDatabase,
  recipe: object,
  directory: string,
  is: (draft: string) => boolean,
): Promise<readonly string[]> {
  mkdirSync(directory);
  const program = await compiledProgram(join(import.meta.dirname, 'freeze-program.ts'));
  const args = [program, of.url, directory, JSON.stringify(recipe)];
  const child = spawn(process.execPath, args, { stdio: 'inherit' });
  const ended = once(child, 'exit');
  const looking = setInterval(() => {
    if (drafts(directory).some(is)) child.kill('SIGKILL');
  }, 1);
  await ended;
  clearInterval(looking);
  return drafts(directory).flatMap((draft) => readdirSync(draft));
}
const has = (file: string) => (draft: string) => readdirSync(draft).includes(file);

const stateIn = (draft: string): UnfinishedFreeze | null => {
  try {
    return JSON.parse(readFileSync(join(draft, 'unfinished.json'), 'utf8')) as UnfinishedFreeze;
  } catch {
    return null;
  }
};
/** Has it written a batch of a split, and not the last split? */
const isReading = (draft: string): boolean => {
  const splits = stateIn(draft)?.written.splits ?? [];
  return splits.length > 0 && splits.length < 2;
};

it('a freeze that is killed at any file leaves no dataset, or the whole one, and gives the same bytes when it is started again', async () => {
  const whole = bytes((await make(small, SMALL, join(folder, 'whole'))).directory);
  const left: (readonly string[])[] = [];
  for (const file of ['train.arrow', 'train.parquet', 'README.md']) {
    const directory = join(folder, file);
    left.push(await killed(small, SMALL, directory, has(file)));
    expect((await listDatasets(directory)).map(({ problem }) => problem).filter((problem) => problem)).toEqual([]);
    expect(bytes((await make(small, SMALL, directory)).directory)).toEqual(whole);
  }
  expect(left.filter((names) => names.length > 0).length).toBeGreaterThan(0);
}, 300_000);

describe('a freeze that is killed while it reads', () => {
  let whole: Record<string, string>;
  let announced: unknown;
  let stopped = '';
  const again = async (name: string, change?: (draft: string) => void) => {
    const directory = join(folder, name);
    cpSync(stopped, directory, { recursive: true });
    change?.(drafts(directory)[0]!);
    return make(large, LARGE, directory);
  };
  beforeAll(async () => {
    const frozen = await make(large, LARGE, join(folder, 'large'));
    whole = bytes(frozen.directory);
    announced = await rowsTold(frozen);
    for (let turn = 0; stopped === '' || !drafts(stopped).some(isReading); turn++) {
      expect(turn).toBeLessThan(10);
      stopped = join(folder, `stopped-${turn}`);
      await killed(large, LARGE, stopped, isReading);
    }
  }, 600_000);

  it('goes on behind the rows that are written, with the same bytes, and what it announces is the same', async () => {
    const before = stateIn(drafts(stopped)[0]!)!;
    const [{ rows: written, file }] = before.written.splits as [(typeof before.written.splits)[number]];
    expect(written).toBeGreaterThan(0);
    expect(written).toBeLessThan(STEPS * 0.8);
    const directory = join(folder, 'goes-on');
    cpSync(stopped, directory, { recursive: true });
    const [draft] = drafts(directory) as [string];
    // What was written behind the last batch is not used.
    writeFileSync(join(draft, 'train.arrow'), 'torn', { flag: 'a' });
    const inode = statSync(join(draft, 'train.arrow')).ino;
    expect(file.bytes).toBeGreaterThan(1_000_000);
    const frozen = await make(large, LARGE, directory);
    expect(frozen.warnings.join()).toContain(
      `had written ${written} rows, and nothing that they come from has changed since: it was gone on with.`,
    );
    expect(statSync(join(frozen.directory, 'train.arrow')).ino).toBe(inode);
    expect(bytes(frozen.directory)).toEqual(whole);
    expect(await rowsTold(frozen)).toEqual(announced);
    expect(readdirSync(directory)).toEqual([frozen.manifest.dataset_id]);
  }, 300_000);

  it('begins anew where a file is not as it was written, and says so', async () => {
    const frozen = await again('torn', (draft) => {
      const content = readFileSync(join(draft, 'train.arrow'));
      content[100]! ^= 1;
      writeFileSync(join(draft, 'train.arrow'), content);
    });
    expect(frozen.warnings.join()).toMatch(/This one began anew: its files are not as they were written/);
    expect(bytes(frozen.directory)).toEqual(whole);
  }, 300_000);

  it('begins anew where a step changed since, and says which table, so that no rows of two moments come together', async () => {
    await large.db.query(`update facts.steps set text = 'changed' where episode_id = 'episode-0000000'`);
    const frozen = await again('changed-step');
    expect(frozen.warnings.join()).toMatch(/began anew: .* these tables changed since: facts.steps/);
    const now = await make(large, LARGE, join(folder, 'large-now'));
    expect(bytes(frozen.directory)).toEqual(bytes(now.directory));
    expect(bytes(now.directory)['train.arrow']).not.toBe(whole['train.arrow']);
  }, 300_000);
});

it('a moment is another one after a row came, went or changed, also a judgement, and the same after a dataset was announced', async () => {
  const { db } = small;
  const moment = () => db.transaction((tx) => momentOf(tx, 1000)) as Promise<Moment>;
  let before = await moment();
  expect(await moment()).toEqual(before);
  const changed = async (text: string) => {
    await db.query(text);
    const now = await moment();
    const tables = changedBetween(before, now);
    before = now;
    return tables;
  };
  expect(await changed(`update facts.episodes set reward = reward where episode_id = 'ep-0-0'`)).toEqual([
    'facts.episodes',
  ]);
  const judgement = `method_key = (select min(method_key) from facts.credits)`;
  expect(await changed(`delete from facts.credits where ${judgement}`)).toEqual(['facts.credits']);
  await insert(db, 'datasets', [{ dataset_id: 'd', version: 'v' }]);
  await insert(db, 'artifacts', [{ key: 'x/d', artifact_id: 'd', role: 'dataset', version: 'v' }]);
  expect(await moment()).toEqual(before);
});

it('says why a freeze begins anew: another version, other files of the recipe, few of the rows that are recorded', () => {
  const frame = { asked: 'a', pinned: 'p', codeVersion: '1', moment: { 'facts.steps': '1 1' } };
  expect(whyAnew(frame, frame)).toBeNull();
  expect(whyAnew(frame, { ...frame, codeVersion: '2' })).toBe('it was of Troupe 1 and this one is 2');
  expect(whyAnew(frame, { ...frame, pinned: 'q' })).toMatch(/files or datasets that the recipe names are others/);
  expect(whyAnew(frame, { ...frame, moment: null })).toMatch(/^few of the recorded rows are frozen/);
});

it('a draft is taken only from a process that is dead, on this machine, for the same recipe, and by one', async () => {
  const parent = join(folder, 'drafts');
  const written = { splits: [], lineage: { bytes: 0, sha256: sha256('') }, weights: {} };
  const state = { asked: 'recipe', written, host: hostname(), pid: 2 ** 22 + 1 };
  const begin = (more: object = {}) => {
    const draft = join(parent, '.tmp-1-other');
    rmSync(parent, { recursive: true, force: true });
    mkdirSync(draft, { recursive: true });
    writeFileSync(join(draft, 'unfinished.json'), JSON.stringify({ ...state, ...more }));
  };
  begin();
  expect(await takeUp(parent, 'another')).toBeNull();
  begin({ pid: process.ppid });
  expect(await takeUp(parent, 'recipe')).toBeNull();
  begin({ host: 'elsewhere' });
  expect(await takeUp(parent, 'recipe')).toBeNull();
  begin({ written: undefined });
  expect(await unfinishedIn(parent)).toEqual([]);
  begin();
  expect(await takeUp(parent, 'recipe')).toMatchObject({ state: { asked: 'recipe' } });
  expect(await takeUp(parent, 'recipe')).toBeNull();
});
