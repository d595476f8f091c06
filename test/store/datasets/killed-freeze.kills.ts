import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fillSteps } from '../../../bench/stored-steps.ts';
import { sha256 } from '../../../ingest/events/json.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { listDatasets } from '../../../store/datasets/read.ts';
import type { UnfinishedFreeze } from '../../../store/datasets/unfinished.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { compiledProgram } from '../../support/program.ts';
import { rowsTold, seed } from './fixture.ts';

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
