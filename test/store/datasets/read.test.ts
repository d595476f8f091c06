import { appendFile, cp, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sha256 } from '../../../ingest/events/json.ts';
import { arrowOfRows } from '../../../store/datasets/arrow.ts';
import { exportDataset, layoutNamed } from '../../../store/datasets/export.ts';
import { type FreezeResult, freeze } from '../../../store/datasets/freeze.ts';
import { datasetId } from '../../../store/datasets/manifest.ts';
import { listIn } from '../../../store/datasets/nested-columns.ts';
import { findDataset, listDatasets, openDataset } from '../../../store/datasets/read.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { seed } from './fixture.ts';

const CANDIDATE = { name: 'candidate', kind: 'int4' } as const;
const CONTENT = { name: 'content', kind: 'text' } as const;

describe('a dataset on disk', () => {
  let folder: string;
  let database: TestDatabase;
  let whole: FreezeResult;
  let homes = 0;
  const home = () => join(folder, `home-${homes++}`);
  const make = (recipe: object, directory = home()) =>
    freeze(database.db, { name: 'test', ...recipe }, { directory, codeVersion: 'test' });

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'datasets-'));
    database = await freshDatabase();
    await seed(database.db);
    whole = await make({ layout: ['jsonl'] });
  });
  afterAll(async () => {
    await database.close();
    await rm(folder, { recursive: true, force: true });
  });

  const flip = async (path: string) => {
    const bytes = await readFile(path);
    bytes[bytes.length >> 1]! ^= 1;
    await writeFile(path, bytes);
  };
  const changeRecipe = async (path: string) => {
    const manifest = JSON.parse(await readFile(path, 'utf8'));
    await writeFile(path, JSON.stringify({ ...manifest, recipe: { ...manifest.recipe, limit: 1 } }));
  };

  it.each([
    ['a file is cut short', 'train.arrow', (path: string) => truncate(path, 100)],
    ['a file is empty', 'rows.jsonl.gz', (path: string) => truncate(path, 0)],
    ['a bit is flipped', 'train.arrow', flip],
    ['a file is missing', 'train.jsonl', (path: string) => rm(path)],
    ['a file grew', 'train.jsonl', (path: string) => appendFile(path, '{}')],
    ['a file is there that the manifest does not name', 'more.arrow', (path: string) => writeFile(path, 'x')],
    ['the manifest is no JSON', 'manifest.json', (path: string) => truncate(path, 50)],
    ['the manifest has another recipe', 'manifest.json', changeRecipe],
  ])('P35: is refused, and the file named, when %s', async (_, file, change) => {
    const copy = join(home(), whole.manifest.dataset_id);
    await cp(whole.directory, copy, { recursive: true });
    await openDataset(copy);
    await change(join(copy, file));
    await expect(openDataset(copy)).rejects.toMatchObject({ code: 'dataset_damaged', detail: { field: file } });
  });

  it('names the steps and events of its rows as JSON lines, also where an older release wrote them without gzip', async () => {
    const older = join(home(), whole.manifest.dataset_id);
    await cp(whole.directory, older, { recursive: true });
    const name = 'rows.jsonl.gz';
    const text = gunzipSync(await readFile(join(older, name)));
    await rm(join(older, name));
    await writeFile(join(older, 'rows.jsonl'), text);
    const files = whole.manifest.files.map((file) =>
      file.name === name ? { name: 'rows.jsonl', bytes: text.length, sha256: sha256(text) } : file,
    );
    await writeFile(join(older, 'manifest.json'), JSON.stringify({ ...whole.manifest, files }));
    const lineage = (await openDataset(whole.directory)).lineage();
    expect(lineage.map((line) => `${JSON.stringify(line)}\n`).join('')).toBe(text.toString());
    expect((await openDataset(older)).lineage()).toEqual(lineage);
    expect(lineage.length).toBeGreaterThan(30);
  });

  it('is damaged where its lineage holds far more than a lineage can, and that is not unpacked', async () => {
    const bomb = join(home(), whole.manifest.dataset_id);
    await cp(whole.directory, bomb, { recursive: true });
    const name = 'rows.jsonl.gz';
    const packed = gzipSync(Buffer.alloc(64 * 1024 * 1024, '\n'));
    await writeFile(join(bomb, name), packed);
    const files = whole.manifest.files.map((file) =>
      file.name === name ? { name, bytes: packed.length, sha256: sha256(packed) } : file,
    );
    await writeFile(join(bomb, 'manifest.json'), JSON.stringify({ ...whole.manifest, files }));
    const dataset = await openDataset(bomb);
    expect(() => dataset.lineage()).toThrow(expect.objectContaining({ code: 'dataset_damaged' }));
  });

  it('of an older release, whose messages are JSON text, is read and exported', async () => {
    const prompt = [{ role: 'user', content: [{ type: 'text', content: 'Add 1 and 2.' }] }];
    const texts = { episode_id: 'e', call_id: 'c', text: 'Three.', prompt: JSON.stringify(prompt) };
    const columns = [...Object.keys(texts).map((name) => ({ name, kind: 'text' as const })), CANDIDATE, CONTENT];
    const arrow = await arrowOfRows(columns, [{ ...texts, candidate: 0, content: null }]);
    const { recipe: known } = whole.manifest;
    const recipe = { ...known, columns: columns.map(({ name }) => name) };
    const older = join(home(), 'older');
    await mkdir(older, { recursive: true });
    await writeFile(join(older, 'train.arrow'), arrow);
    const files = [{ name: 'train.arrow', bytes: arrow.length, sha256: sha256(arrow) }];
    const facts = { format: 'troupe-dataset/1', dataset_id: datasetId('0', recipe), content_sha256: '0' } as const;
    const manifest = { ...whole.manifest, ...facts, recipe, columns, rows: { train: 1 }, files };
    await writeFile(join(older, 'manifest.json'), JSON.stringify(manifest));
    const dataset = await openDataset(older);
    expect(listIn([...dataset.rows()][0]!.prompt)).toEqual(prompt);
    const out = join(home(), 'out');
    await exportDataset(dataset, layoutNamed('openai-sft'), out);
    expect(JSON.parse(await readFile(join(out, 'train.jsonl'), 'utf8')).messages).toEqual([
      { role: 'user', content: 'Add 1 and 2.' },
      { role: 'assistant', content: 'Three.' },
    ]);
  });

  it('P35: is not seen while it is written, and nothing stays of a freeze that failed', async () => {
    const directory = home();
    let done = false;
    let looks = 0;
    const watching = (async () => {
      while (!done) {
        for (const { directory: at, problem } of await listDatasets(directory)) {
          expect(problem).toBeNull();
          await openDataset(at);
        }
        looks++;
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    const frozen = await make({ layout: ['parquet', 'jsonl'] }, directory);
    await expect(make({ credit: 'nobody' }, directory)).rejects.toMatchObject({ code: 'method_unknown' });
    done = true;
    await watching;
    expect(looks).toBeGreaterThan(3);
    expect(await readdir(directory)).toEqual([frozen.manifest.dataset_id]);
  });

  it('is found by id, by the beginning of its id, and by its name', async () => {
    const directory = home();
    const a = await make({ name: 'alpha', limit: 1 }, directory);
    const b = await make({ name: 'beta', limit: 1 }, directory);
    expect((await listDatasets(directory)).map(({ manifest }) => manifest?.name)).toEqual(['alpha', 'beta']);
    expect(await findDataset(directory, 'beta')).toBe(b.directory);
    expect(await findDataset(directory, a.manifest.dataset_id)).toBe(a.directory);
    expect(await findDataset(directory, a.manifest.dataset_id.slice(0, 8))).toBe(a.directory);
    await expect(findDataset(directory, 'gamma')).rejects.toMatchObject({ code: 'not_found' });
    await expect(openDataset(join(directory, 'nowhere'))).rejects.toMatchObject({ code: 'not_found' });
  });

  it('is refused instead of reused when a second freeze finds it damaged', async () => {
    const directory = home();
    const first = await make({}, directory);
    await flip(join(first.directory, 'train.arrow'));
    await expect(make({}, directory)).rejects.toMatchObject({ code: 'dataset_damaged' });
    expect(await readdir(directory)).toEqual([first.manifest.dataset_id]);
  });

  it('says so when its folder cannot be made', async () => {
    const blocked = join(folder, 'blocked');
    await writeFile(blocked, '');
    await expect(make({}, blocked)).rejects.toMatchObject({ code: 'home_unwritable' });
  });
});
