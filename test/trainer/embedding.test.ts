import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { similarByVectors } from '../../store/evaluate/consistency/similar-vectors.ts';
import { TASK_EMBEDDING, taskVectors } from '../../store/evaluate/consistency/task-embeddings.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { meanOfTokens, openEmbedder } from '../../trainer/sample/embedding/embedding.ts';
import {
  embeddingDraft,
  embeddingId,
  recordEmbeddings,
  storedTasks,
  unembedded,
} from '../../trainer/sample/embedding/task-embeddings.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { type Shell, warmShell } from '../cli/support/troupe.ts';
import { event } from '../store/support/events.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { type TinyEmbedder, tinyEmbedder, WORDS } from './tiny-embedder.ts';

const folder = mkdtempSync(join(tmpdir(), 'troupe-embedding-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function written(name: string, files: TinyEmbedder): string {
  const dir = join(folder, name);
  for (const [path, content] of Object.entries(files.files)) {
    mkdirSync(join(dir, path, '..'), { recursive: true });
    writeFileSync(join(dir, path), content);
  }
  return dir;
}

/** The mean of the table's rows over these ids, of length 1: plain arithmetic. */
function expected({ table, size }: TinyEmbedder, ids: readonly number[]): number[] {
  const mean = Array.from(
    { length: size },
    (_, i) => ids.reduce((sum, id) => sum + table[id * size + i]!, 0) / ids.length,
  );
  const norm = Math.sqrt(mean.reduce((sum, x) => sum + x * x, 0));
  return mean.map((x) => x / norm);
}

const near = (found: Float32Array | null, wanted: readonly number[]) => {
  expect(found).toHaveLength(wanted.length);
  for (const [i, x] of wanted.entries()) expect(found![i]).toBeCloseTo(x, 5);
};
const textOf = (ids: readonly number[]) => ids.map((id) => WORDS[id - 4]!).join(' ');

describe('An embedding model', () => {
  const tiny = tinyEmbedder();

  it('gives the mean of the vectors of a text’s tokens, padding left out, of length 1, in the order of the texts', async () => {
    const model = await openEmbedder(written('tokens', tiny));
    const random = randomStream(5);
    const draw = (below: number) => Math.floor(random.uniform() * below);
    const rows = Array.from({ length: 75 }, () => Array.from({ length: 1 + draw(9) }, () => 4 + draw(WORDS.length)));
    const done: number[] = [];
    const found = await model.embed(rows.map(textOf), (so) => done.push(so));
    for (const [i, ids] of rows.entries()) near(found[i]!.vector, expected(tiny, [tiny.begin, ...ids, tiny.end]));
    expect(found.every(({ cut, reason }) => !cut && reason === null)).toBe(true);
    expect(done).toEqual([32, 64, 75]);
    await model.close();
  });

  it('cuts a text that is too long before the token that ends it, and says so', async () => {
    const model = await openEmbedder(written('short', tinyEmbedder({ maxTokens: 8 })));
    const ids = Array.from({ length: 20 }, (_, i) => 4 + (i % WORDS.length));
    const [found, fits] = await model.embed([textOf(ids), textOf(ids.slice(0, 6))]);
    expect([model.maxTokens, found!.cut, fits!.cut]).toEqual([8, true, false]);
    near(found!.vector, expected(tiny, [tiny.begin, ...ids.slice(0, 6), tiny.end]));
    expect([...found!.vector!]).toEqual([...fits!.vector!]);
    await model.close();
  });

  it.each([
    ['with token types and 32-bit ids', { tokenTypes: true, ids: 'int32' as const }],
    ['in a folder onnx', { path: 'onnx/model.onnx' }],
    ['that pools itself', { sentence: true }],
  ])('%s is read too', async (name, options) => {
    const other = tinyEmbedder(options);
    const model = await openEmbedder(written(name, other));
    const rows = [
      [4, 5, 6],
      [7, 8, 4],
    ];
    const found = await model.embed(rows.map(textOf));
    for (const [i, ids] of rows.entries()) near(found[i]!.vector, expected(other, [tiny.begin, ...ids, tiny.end]));
    await model.close();
  });

  it('gives no vector where there is none: a text whose tokens cancel, a number that is none', async () => {
    const table = Float32Array.from(tiny.table);
    for (let i = 0; i < tiny.size; i++) {
      for (const id of [tiny.begin, tiny.end, 4]) table[id * tiny.size + i] = 0;
      table[5 * tiny.size + i] = Number.NaN;
    }
    const model = await openEmbedder(written('odd', tinyEmbedder({ table })));
    const found = await model.embed([textOf([4, 4]), textOf([5]), textOf([6])]);
    expect(found.map(({ reason }) => reason)).toEqual(['zero_vector', 'not_finite', null]);
    await model.close();
  });

  it('has one id wherever it lies, and another with other weights, tokens or settings', async () => {
    const idOf = async (name: string, files: TinyEmbedder) => {
      const model = await openEmbedder(written(name, files));
      await model.close();
      return model.id;
    };
    const table = Float32Array.from(tiny.table, (x) => x / 2);
    const ids = [await idOf('id-1', tiny), await idOf('id-2', tinyEmbedder({ table }))];
    ids.push(await idOf('id-3', tinyEmbedder({ maxTokens: 9 })));
    expect(new Set(ids).size).toBe(3);
    expect(await idOf('id-4', tiny)).toBe(ids[0]);
  });

  it('is refused where it is none, with what is missing', async () => {
    await expect(openEmbedder(join(folder, 'nowhere'))).rejects.toMatchObject({ code: 'not_found' });
    const bare = tinyEmbedder();
    const { 'tokenizer.json': _, ...rest } = bare.files;
    await expect(openEmbedder(written('bare', { ...bare, files: rest }))).rejects.toThrow(/tokenizer.json/);
    const damaged = { ...bare, files: { ...bare.files, 'model.onnx': bare.files['model.onnx']!.slice(0, 99) } };
    await expect(openEmbedder(written('damaged', damaged))).rejects.toMatchObject({ code: 'checkpoint_damaged' });
    await expect(openEmbedder(written('output', tinyEmbedder({ output: 'logits' })))).rejects.toThrow(
      /not \["logits"\]/,
    );
    const first = tinyEmbedder({ pooling: { pooling_mode_cls_token: true, pooling_mode_mean_tokens: false } });
    await expect(openEmbedder(written('first', first))).rejects.toThrow(/otherwise than by their mean/);
  });

  it('takes the mean where the mask is 1, whatever stands elsewhere', () => {
    const states = Float32Array.of(1, 2, 3, 4, Number.NaN, 9, 5, 6, 7, 7, 8, 8);
    expect(meanOfTokens(states, [1, 1, 0, 1, 0, 0], 2, 2).map((row) => [...row])).toEqual([
      [2, 3],
      [5, 6],
    ]);
  });
});

describe('Embeddings of recorded tasks', () => {
  let database: TestDatabase;
  let at: Shell;
  let model: string;
  const texts = ['what is one', 'what is one', 'two plus three', null, '  '];
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    model = written('recorded', tinyEmbedder());
    const log = postgresLog(database.db);
    await log.append(
      texts.flatMap((query, i) => [
        event('task.defined', { task_id: `task-${i}`, ...(query === null ? {} : { query }) }),
        event('episode.started', { episode_id: `episode-${i}`, task_id: `task-${i}` }),
      ]),
    );
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });
  const embed = async (...more: string[]) => {
    const ended = await at.run(['passes', 'embed', '--model', model, '--json', ...more]);
    return { code: ended.code, ...JSON.parse(ended.out) };
  };

  it('are recorded once, those of a filter first, with a reason for each task that has no text; the judge reads them', async () => {
    const some = await embed('--where', '{"field":"task_id","op":"in","value":["task-0","task-3"]}');
    expect(some).toMatchObject({ code: 3, tasks: 2, recorded: 1, known: 0, refused: { reasons: { no_text: 1 } } });
    const rest = await embed();
    expect(rest).toMatchObject({ code: 3, tasks: 5, recorded: 2, known: 1, cut: 0 });
    expect(rest.refused).toMatchObject({ tasks: 2, reasons: { no_text: 1, empty_text: 1 } });
    expect(await embed()).toMatchObject({ recorded: 0, known: 3 });

    const { db } = database;
    const rows = await db.transaction(async (tx) => {
      await tx.query('set local search_path = facts, pg_catalog');
      const of = (await taskVectors(tx, ['task-0', 'task-1', 'task-2', 'task-3'])).get(some.model_id)!;
      return [0, 1, 2, 3].map((i) => ({ id: `task-${i}`, vector: of.get(`task-${i}`) ?? null }));
    });
    const placed = similarByVectors(rows, { threshold: 0.999 });
    expect(Object.fromEntries(placed)).toEqual({
      'task-0': { cluster: 'task-0', reason: null },
      'task-1': { cluster: 'task-0', reason: null },
      'task-2': { cluster: 'task-2', reason: null },
      'task-3': { cluster: 'task-3', reason: 'no_vector' },
    });
    const opened = await openEmbedder(model);
    const [embedded] = await opened.embed([texts[2]!]);
    await opened.close();
    // Nine digits name a 32-bit float exactly.
    expect(rows[2]!.vector!.map(Math.fround)).toEqual([...embedded!.vector!]);
  });

  it('of one task whose text changed, the last counts, and only vectors of the model that is asked for', async () => {
    const { db } = database;
    const log = postgresLog(db);
    const draft = (text: string, by: string, time: string, x: number) =>
      embeddingDraft({ task_id: 'task-9', text }, Float32Array.of(x, 0), by, time);
    const drafts = [
      draft('new', 'm-1', '2026-10-02T00:00:00.000Z', 2),
      draft('old', 'm-1', '2026-10-01T00:00:00.000Z', 1),
      draft('new', 'm-2', '2026-10-03T00:00:00.000Z', 3),
    ];
    expect(await recordEmbeddings(log, drafts)).toBe(3);
    expect(await recordEmbeddings(log, drafts)).toBe(0);
    await projectAll(db);
    const vectors = await db.transaction(async (tx) => {
      await tx.query('set local search_path = facts, pg_catalog');
      return taskVectors(tx, ['task-9']);
    });
    expect(vectors).toEqual(
      new Map([
        ['m-1', new Map([['task-9', [2, 0]]])],
        ['m-2', new Map([['task-9', [3, 0]]])],
      ]),
    );
    const task = { task_id: 'task-9', text: 'new' };
    expect(await unembedded(db, [task, { ...task, text: 'newer' }], 'm-1')).toEqual([{ ...task, text: 'newer' }]);
    expect(new Set(['m-1', 'm-2'].map((by) => embeddingId(task, by))).size).toBe(2);
    expect(drafts[0]!.data).toMatchObject({
      name: TASK_EMBEDDING,
      target: { kind: 'task', id: 'task-9' },
      by: 'model',
    });
  });

  it('are asked for in pages, in the order of ids', async () => {
    const first = await storedTasks(database.db, null, null, 2);
    const second = await storedTasks(database.db, null, 'task-1', 2);
    expect([...first, ...second].map(({ task_id }) => task_id)).toEqual(['task-0', 'task-1', 'task-2', 'task-3']);
  });
});
