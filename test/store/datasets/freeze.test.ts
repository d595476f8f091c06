import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Event } from '../../../ingest/events/events.ts';
import { sha256 } from '../../../ingest/events/json.ts';
import { fromLz4 } from '../../../ingest/log/lz4.ts';
import { keepBodies } from '../../../ingest/log/postgres.ts';
import { contextOf, EMPTY_CONTEXT } from '../../../ingest/log/split.ts';
import { arrowStream, nestedStreams } from '../../../store/datasets/arrow.ts';
import { datasetDiff } from '../../../store/datasets/diff.ts';
import { type FreezeResult, freeze } from '../../../store/datasets/freeze.ts';
import { parquetOf } from '../../../store/datasets/parquet.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import type { Shapes } from '../../../store/datasets/shape.ts';
import type { Db } from '../../../store/db/pool.ts';
import { bytesIn } from '../../support/bytes.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { insert, rowsTold, seed } from './fixture.ts';

let folder: string;
let database: TestDatabase;
let db: Db;
let homes = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'datasets-'));
  database = await freshDatabase();
  db = database.db;
  await seed(db);
});
afterAll(async () => {
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

const home = () => join(folder, `home-${homes++}`);
const make = (recipe: object, directory = home(), from = db): Promise<FreezeResult> =>
  freeze(from, { name: 'test', ...recipe }, { directory, codeVersion: 'test' });

const plain = (value: unknown): unknown => {
  if (typeof value === 'bigint') return Number(value);
  if (ArrayBuffer.isView(value)) return Array.from(value as unknown as ArrayLike<number>);
  return value;
};
const rowsOf = async (frozen: FreezeResult, split?: string) =>
  [...(await openDataset(frozen.directory)).rows(split)].map((row) =>
    Object.fromEntries(Object.entries(row).map(([k, v]) => [k, plain(v)])),
  );
const idsOf = async (frozen: FreezeResult, split?: string) =>
  (await rowsOf(frozen, split)).map((row) => `${row.episode_id} ${row.step_id}`);

const bytesOf = async (directory: string): Promise<Record<string, string>> => {
  const names = (await readdir(directory)).sort();
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, sha256(await readFile(join(directory, name)))] as const)),
  );
};

describe('freezing steps', () => {
  it('gives one row a step with every column, null where nothing is known', async () => {
    const frozen = await make({ credit: 'group_mean', where: { field: 'episode_id', op: '=', value: 'ep-1-0' } });
    const rows = await rowsOf(frozen);
    expect(rows).toHaveLength(6);
    expect(rows[3]).toEqual({
      task_id: 'task-1',
      episode_id: 'ep-1-0',
      group_id: 'group-1',
      call_id: 'call-1',
      candidate: 1,
      step_id: 'call-1/1',
      agent: 'CRITIC',
      role: 'critic',
      turn: 1,
      checkpoint_id: 'ck-1',
      prompt_token_ids: [1, 2, 4],
      token_ids: [1, 0, 1, 1],
      logprobs: [-0.5, -0.5, -1.5, 0],
      loss_mask: [1, 1, 0, 1],
      cut: false,
      text: 'answer 1.0.1.1',
      content: null,
      prompt: [
        { role: 'system', content: 'You "solve"\nwell' },
        { role: 'user', content: [{ type: 'text', text: 'Q1' }], name: 'asker' },
      ],
      system: null,
      tools: null,
      ground_truth: null,
      reward: 1,
      advantage: 1.25,
      reason: 'zero_variance',
    });
    expect(rows[0]!.loss_mask).toBeNull();
    expect(await rowsTold(frozen)).toEqual({ train: [0, 1, 2].map((c) => ['ep-1-0', `call-${c}`, [0, 1]]) });
  });

  it('keeps an unknown reward and an unknown advantage apart from zero', async () => {
    const where = { field: 'episode_id', op: '=', value: 'ep-1-1' };
    const rows = await rowsOf(await make({ where }));
    expect(new Set(rows.map((row) => row.reward))).toEqual(new Set([null]));
    expect(new Set(rows.map((row) => row.advantage))).toEqual(new Set([null]));
    const judged = await rowsOf(await make({ reward: 'cure', where }));
    expect(judged.map((row) => row.reward)).toEqual([null, null, 0, 1, 0, 1]);
  });

  it('gives back a message with members of its own and one whose content has parts beside them', async () => {
    const fresh = await freshDatabase();
    await insert(fresh.db, 'episodes', [{ episode_id: 'e', started_version: '|s' }]);
    const first = { role: 'assistant', content: null, tool_calls: [{ id: 'x', 'odd "key"': 1.5 }] };
    const context = contextOf('e/e', [
      { role: 'assistant', tool_calls: [{ id: 'x', 'odd "key"': 1.5 }] },
      { role: 'tool', content: 'plain', tool_call_id: 'x' },
      { role: 'user', content: [{ type: 'text', content: 'a' }], mood: 'calm' },
      { role: 'user', content: null },
      first,
    ]);
    await keepBodies(fresh.db, context.bodies);
    await insert(fresh.db, 'calls', [
      { episode_id: 'e', call_id: 'a', context: context.hash },
      { episode_id: 'e', call_id: 'b', context: EMPTY_CONTEXT },
      { episode_id: 'e', call_id: 'c', context: null },
    ]);
    const steps = ['a', 'b', 'c'].map((call_id) => ({ episode_id: 'e', call_id, candidate: 0, version: '|v' }));
    await insert(fresh.db, 'steps', steps);
    const rows = await rowsOf(await make({}, home(), fresh.db));
    expect(rows.map((row) => row.prompt)).toEqual([
      [
        first,
        { role: 'tool', content: 'plain', tool_call_id: 'x' },
        { role: 'user', content: [{ type: 'text', text: 'a' }], mood: 'calm' },
        { role: 'user', content: null },
        first,
      ],
      [],
      null,
    ]);
    await fresh.close();
  });

  it('takes only steps that the filter, the roles and the verdicts let through, and says how many each removed', async () => {
    const frozen = await make({
      where: {
        and: [
          { field: 'tags.arm', op: '=', value: 'b' },
          { field: 'chosen', op: '=', value: true },
        ],
      },
      roles: ['solver'],
      verdicts: [{ method: 'is_solved' }],
    });
    const { funnel, methods } = frozen.manifest;
    expect(funnel.map(({ of, before, after }) => [of, before, after])).toEqual([
      ['episodes', 6, 3],
      ['steps', 18, 18],
      ['steps', 18, 18],
      ['steps', 18, 18],
      ['steps', 18, 9],
      ['steps', 9, 6],
      ['steps', 6, 4],
    ]);
    expect(funnel[0]!.dropped).toEqual(['ep-0-0', 'ep-1-0', 'ep-2-0']);
    expect(funnel[4]!.dropped).toEqual(['ep-0-1 call-0/1', 'ep-0-1 call-1/1', 'ep-0-1 call-2/1']);
    expect(funnel[6]!.dropped).toEqual(['ep-0-1 call-0/0', 'ep-0-1 call-2/0']);
    expect(await idsOf(frozen)).toEqual(['ep-1-1 call-0/0', 'ep-1-1 call-2/0', 'ep-2-1 call-0/0', 'ep-2-1 call-2/0']);
    expect(methods.verdicts[0]).toMatchObject({ method: 'is_solved', version: 1, params: { at_least: 1 } });
  });

  it('lets a verdict on a step go before the one on its episode', async () => {
    const fresh = await freshDatabase();
    await seed(fresh.db, { tasks: 1, episodesOfTask: 1, callsOfEpisode: 1 });
    const verdict = { episode_id: 'ep-0-0', step_id: 'call-0/1', method_key: 'verdict-1', keep: false, reason: null };
    await insert(fresh.db, 'verdicts', [verdict]);
    const ids = async (keep: boolean) =>
      idsOf(await make({ verdicts: [{ method: 'is_solved', keep }] }, home(), fresh.db));
    expect(await ids(true)).toEqual(['ep-0-0 call-0/0']);
    expect(await ids(false)).toEqual(['ep-0-0 call-0/1']);
    await fresh.close();
  });

  it('never takes a context that was copied from elsewhere', async () => {
    const fresh = await freshDatabase();
    await seed(fresh.db, { tasks: 1, episodesOfTask: 1, callsOfEpisode: 2, candidates: 1 });
    await fresh.db.query(`update facts.calls set copied = true where call_id = 'call-1'`);
    expect(await idsOf(await make({}, home(), fresh.db))).toEqual(['ep-0-0 call-0/0']);
    await fresh.close();
  });

  it('gives the same rows whether episodes are listed by id, found by tag, by checkpoint or by their task', async () => {
    const of = async (where: object) => idsOf(await make({ where }));
    const byIds = await of({ field: 'episode_id', op: 'in', value: ['ep-1-1', 'ep-1-0', 'nobody'] });
    expect(byIds).toHaveLength(12);
    expect(await of({ field: 'checkpoint_id', op: '=', value: 'ck-1' })).toEqual(byIds);
    expect(await of({ field: 'tags.iteration', op: '=', value: 1 })).toEqual(byIds);
    expect(await of({ field: 'task.difficulty', op: '=', value: 'hard' })).toEqual(byIds);
    const all = await idsOf(await make({}));
    expect(all).toHaveLength(36);
    expect(await of({ not: { field: 'tags.arm', op: '=', value: 'nothing' } })).toEqual(all);
  });

  it('refuses a recipe that finds no row, names the condition that left none, and freezes it where that is allowed', async () => {
    const recipe = { name: 'test', where: 'reward >= 1 and role = critc', layout: ['parquet', 'jsonl'] };
    const directory = home();
    await expect(freeze(db, recipe, { directory, codeVersion: 'test' })).rejects.toMatchObject({
      code: 'dataset_empty',
      message:
        'test would have no row: "where role = \'critc\'" leaves none of the 18 steps; before it "episodes where reward >= 1" took 3 of 6 episodes. Nothing has role = "critc". Did you mean critic?',
    });
    expect(await readdir(directory)).toEqual([]);
    const frozen = await freeze(db, recipe, { directory, codeVersion: 'test', allowEmpty: true });
    expect(frozen.manifest.rows).toEqual({ train: 0 });
    expect(await rowsOf(frozen)).toEqual([]);
  });
});

describe('orders, units, splits and limits', () => {
  it('M1: puts all steps of a problem together, in generation order', async () => {
    const fresh = await freshDatabase();
    await seed(fresh.db, { tasks: 2, callsOfEpisode: 2, candidates: 1 });
    await fresh.db.query(`update facts.episodes set started_at = '2026-01-01' where episode_id = 'ep-1-1'`);
    await fresh.db.query(`update facts.calls set requested_seq = 100 - requested_seq where episode_id = 'ep-0-0'`);
    const stepsOf = (id: string) => {
      const calls = [`${id} call-0/0`, `${id} call-1/0`];
      return id === 'ep-0-0' ? calls.reverse() : calls;
    };
    const m1 = await idsOf(await make({ order: 'm1' }, home(), fresh.db));
    expect(m1).toEqual(['ep-0-0', 'ep-0-1', 'ep-1-0', 'ep-1-1'].flatMap(stepsOf));
    const recorded = await idsOf(await make({ order: 'recorded' }, home(), fresh.db));
    expect(recorded).toEqual(['ep-1-1', 'ep-0-0', 'ep-0-1', 'ep-1-0'].flatMap(stepsOf));
    await fresh.close();
  });

  it('numbers groups in order and keeps the rows of a group together; a limit counts groups', async () => {
    const rows = await rowsOf(await make({ unit: 'group', limit: 2, credit: 'group_mean' }));
    expect(rows.map((row) => row.group_index)).toEqual([...Array(12).fill(0), ...Array(12).fill(1)]);
    expect(new Set(rows.slice(0, 12).map((row) => row.group_id))).toEqual(new Set(['group-0']));
  });

  it('takes the candidates of one call as a group where the episode has none', async () => {
    const fresh = await freshDatabase();
    await seed(fresh.db, { tasks: 1, episodesOfTask: 1 });
    await fresh.db.query('update facts.episodes set group_id = null');
    const rows = await rowsOf(await make({ unit: 'group' }, home(), fresh.db));
    expect(rows.map((row) => [row.group_index, row.call_id])).toEqual([0, 0, 1, 1, 2, 2].map((i) => [i, `call-${i}`]));
    await fresh.close();
  });

  it('gives one row an episode with its steps and messages', async () => {
    const where = { field: 'outcome', op: '=', value: 'success' };
    const frozen = await make({ unit: 'episode', credit: 'group_mean', roles: ['solver'], where });
    const rows = await rowsOf(frozen);
    expect(rows.map((row) => row.episode_id)).toEqual(['ep-0-0', 'ep-1-1', 'ep-2-0']);
    const steps = rows[1]!.steps as readonly Record<string, unknown>[];
    const messages = rows[1]!.messages as Readonly<Record<string, unknown>>;
    const names = steps.map((step) => step.step_id);
    expect(names).toEqual(['call-0/0', 'call-0/1', 'call-2/0', 'call-2/1']);
    expect(steps[2]).toMatchObject({
      token_ids: [1, 1, 2, 0],
      logprobs: [-0.5, -0.25, -1.5, 0],
      advantage: 1,
      reason: null,
      reward: null,
      chosen: true,
    });
    expect((steps[0]!.input as string[]).map((hash) => messages[hash])).toEqual([
      { role: 'system', content: 'You "solve"\nwell' },
      { role: 'user', content: [{ type: 'text', text: 'Q1' }], name: 'asker' },
    ]);
    expect((await rowsTold(frozen)).train![1]).toEqual(['ep-1-1', null, [null]]);
    expect((await make({ unit: 'episode', limit: 2 })).manifest.rows).toEqual({ train: 2 });
  });

  it('never lets a task stand in both splits, and puts about the asked share aside', async () => {
    const fresh = await freshDatabase();
    await seed(fresh.db, { tasks: 40, episodesOfTask: 2, callsOfEpisode: 1, candidates: 1 });
    const frozen = await make({ split: { held_out: 0.3, seed: 5 } }, home(), fresh.db);
    const tasks = async (split: string) => new Set((await rowsOf(frozen, split)).map((row) => row.task_id as string));
    const [train, heldOut] = [await tasks('train'), await tasks('held_out')];
    expect([...train].filter((task) => heldOut.has(task))).toEqual([]);
    expect(train.size + heldOut.size).toBe(40);
    // The rule, written down once more: the first 32 bits of a hash of seed and task, below the share.
    const aside = (task: string) => Number.parseInt(sha256(`5/t/${task}`).slice(0, 8), 16) < Math.round(0.3 * 2 ** 32);
    expect([...heldOut].every(aside) && ![...train].some(aside)).toBe(true);
    expect(heldOut.size).toBeGreaterThan(4);
    const all = await make({ split: { held_out: 1 } }, home(), fresh.db);
    expect(all.manifest.rows).toEqual({ train: 0, held_out: 80 });
    await fresh.close();
  });

  it('cuts at the limit before the split, and says so in the funnel', async () => {
    const all = await idsOf(await make({}));
    const frozen = await make({ limit: 7, split: { held_out: 0.5 } });
    const { train, held_out } = frozen.manifest.rows;
    expect(train! + held_out!).toBe(7);
    expect((await idsOf(frozen)).sort()).toEqual(all.slice(0, 7).sort());
    expect(frozen.manifest.funnel.at(-1)).toMatchObject({ name: 'limit 7', before: 36, after: 7 });
  });

  it('takes the columns that were asked for, in that order', async () => {
    const rows = await rowsOf(await make({ columns: ['advantage', 'step_id'], credit: 'group_mean', limit: 1 }));
    expect(Object.entries(rows[0]!)).toEqual([
      ['advantage', 0],
      ['step_id', 'call-0/0'],
    ]);
  });
});

describe('what is frozen', () => {
  const RECIPE = {
    credit: 'group_mean',
    reward: 'cure',
    verdicts: [{ method: 'is_solved', params: { at_least: 1 } }],
    split: { held_out: 0.4, seed: 1 },
    layout: ['parquet', 'jsonl'],
  };

  it('P20: is the same, byte for byte, in another home and time zone and for any order of arrival', async () => {
    const first = await make(RECIPE);
    const other = await freshDatabase();
    await seed(other.db, {}, (rows) => [...rows].reverse());
    const name = (await other.db.query<{ name: string }>('select current_database() as name')).rows[0]!.name;
    await other.db.query(`alter database ${name} set timezone = 'Pacific/Apia'`);
    const second = await make(RECIPE, home(), other.db);
    await other.close();
    expect(await bytesOf(second.directory)).toEqual(await bytesOf(first.directory));
    expect(second.manifest.dataset_id).toBe(first.manifest.dataset_id);
    const files = ['arrow', 'jsonl', 'parquet'];
    expect(Object.keys(await bytesOf(first.directory))).toEqual([
      'README.md',
      ...files.map((layout) => `held_out.${layout}`),
      'manifest.json',
      'rows.jsonl.gz',
      ...files.map((layout) => `train.${layout}`),
    ]);
  });

  it('P20: changes its hash with one changed cell, in exactly the row of that cell', async () => {
    const fresh = await freshDatabase();
    await seed(fresh.db);
    const before = await make({ credit: 'group_mean' }, home(), fresh.db);
    await fresh.db.query(
      `update facts.credits set value = value + 1e-12 where episode_id = 'ep-2-0' and step_id = 'call-1/0'`,
    );
    const after = await make({ credit: 'group_mean' }, home(), fresh.db);
    await fresh.close();
    expect(after.manifest.content_sha256).not.toBe(before.manifest.content_sha256);
    expect(datasetDiff(await openDataset(before.directory), await openDataset(after.directory))).toEqual({
      added: [],
      removed: [],
      changed: [{ episode_id: 'ep-2-0', step_id: 'call-1/0', split: 'train' }],
      moved: [],
      same: 35,
      reordered: false,
      recipe: [],
    });
  });

  it('names rows that came, went and moved, and the fields of the recipe that differ', async () => {
    const of = (...value: readonly string[]) => ({
      where: { field: 'episode_id', op: 'in', value },
      columns: ['text'],
      roles: ['critic'],
    });
    const before = await make(of('ep-0-0', 'ep-1-0'));
    const after = await make({ ...of('ep-1-0', 'ep-2-0'), split: { held_out: 1 } });
    const diff = datasetDiff(await openDataset(before.directory), await openDataset(after.directory));
    const keys = (list: readonly { readonly episode_id: string }[]) => [...new Set(list.map((key) => key.episode_id))];
    expect([keys(diff.added), keys(diff.removed), keys(diff.moved)]).toEqual([['ep-2-0'], ['ep-0-0'], ['ep-1-0']]);
    expect([diff.changed, diff.recipe]).toEqual([[], ['split', 'where']]);
  });

  it('is found again by a second freeze of the same recipe, which writes nothing, however far the log went on', async () => {
    const directory = home();
    const first = await make(RECIPE, directory);
    const bytes = await bytesOf(first.directory);
    const positions = { 'facts/embedded': { 0: 999 } };
    const again = await freeze(db, { name: 'test', ...RECIPE }, { directory, codeVersion: 'later', positions });
    expect([first.fresh, again.fresh]).toEqual([true, false]);
    expect([again.directory, again.manifest]).toEqual([first.directory, first.manifest]);
    expect(await bytesOf(first.directory)).toEqual(bytes);
    expect(await readdir(directory)).toEqual([first.manifest.dataset_id]);
  });

  it('is one directory when several freeze it at once', async () => {
    const directory = home();
    const all = await Promise.all([1, 2, 3, 4].map(() => make(RECIPE, directory)));
    expect(all.filter((frozen) => frozen.fresh)).toHaveLength(1);
    expect(await readdir(directory)).toEqual([all[0]!.manifest.dataset_id]);
    await openDataset(all[0]!.directory);
  });

  it('has columns compressed with LZ4, each after its length without compression, as other readers need it', async () => {
    const bytes = await readFile(join((await make({})).directory, 'train.arrow'));
    const mark = Buffer.from([0x04, 0x22, 0x4d, 0x18]);
    let frames = 0;
    for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 4), frames++)
      expect(fromLz4(bytes.subarray(at)).length).toBe(Number(bytes.readBigInt64LE(at - 8)));
    expect(frames).toBeGreaterThan(5);
  });

  it('says in its manifest where it is from: positions, methods, hashes, and for each row its step and events', async () => {
    const frozen = await make(RECIPE);
    const { manifest } = frozen;
    expect(manifest.positions['facts/embedded']).toMatchObject({ 0: 0, 15: 150 });
    const { credit, reward } = manifest.methods;
    expect([credit?.method_key, reward?.method_key]).toEqual(['credit-1', 'reward-1']);
    expect(manifest.recipe).toMatchObject({ unit: 'step', order: 'recorded', split: { held_out: 0.4, seed: '1' } });
    expect(manifest.recipe.layout).toEqual(['arrow', 'parquet', 'jsonl']);
    for (const file of manifest.files) {
      const body = await readFile(join(frozen.directory, file.name));
      expect([sha256(body), body.length]).toEqual([file.sha256, file.bytes]);
    }
    const lineage = (await openDataset(frozen.directory)).lineage();
    const steps = lineage.map((line) => `${line.episode_id} ${line.step_id}`);
    expect(steps).toEqual(await idsOf(frozen));
    const [line] = lineage;
    const call = `${line!.episode_id}-${line!.call_id!.slice(-1)}`;
    expect(line!.events).toEqual([`asked-${call}`, `told-${call}`]);
  });

  it('is announced to the log with its manifest and rows', async () => {
    const appended: Event[] = [];
    const append = async (events: readonly Event[]) => {
      appended.push(...events);
      return events.map(() => 'accepted' as const);
    };
    const log = { name: 'list', append, close: async () => {} };
    const options = { directory: home(), codeVersion: 'test', log, at: '2026-04-01T00:00:00Z' };
    const { manifest, directory } = await freeze(db, { name: 'announced', limit: 3 }, options);
    const [event] = appended as [Event<'artifact.attached'>];
    expect([event.key, event.data.artifact_id]).toEqual([`x/${manifest.dataset_id}`, manifest.dataset_id]);
    expect(Date.parse(event.time!)).toBe(Date.parse('2026-04-01T00:00:00Z'));
    expect(event.data.rows).toEqual({
      train: [
        ['ep-0-0', 'call-0', [0, 1]],
        ['ep-0-0', 'call-1', [0]],
      ],
    });
    expect(event.data.sha256).toBe(sha256(await readFile(join(directory, 'manifest.json'))));
    expect(event.id).toBe(`dataset/${manifest.dataset_id}`);
    expect(appended).toHaveLength(1);
  });

  it('holds the same rows as Parquet, as another reader reads them, and as JSON Lines', async () => {
    const frozen = await make({ credit: 'group_mean', layout: ['parquet', 'jsonl'] });
    const rows = await rowsOf(frozen);
    const bufferOf = (bytes: Uint8Array) => new Uint8Array(bytes).buffer;
    const arrow = await readFile(join(frozen.directory, 'train.arrow'));
    // The reader knows no zstd: the rows are compared in another compression, the codec in the frozen file.
    const file = bufferOf(await bytesIn(parquetOf([arrowStream(arrow)], { codec: 'snappy' })));
    // It gives undefined for a list that is null.
    const read = (await parquetReadObjects({ file })).map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value ?? null])),
    );
    const missing = { reasoning_content: null, tool_call_id: null };
    const messageOf = (role: string, name: string | null, content: string, others: string | null) =>
      expect.objectContaining({ ...missing, role, name, content, others });
    const task = ({ task_id }: (typeof rows)[number]) => String(task_id).replace('task-', '');
    const asked = (row: (typeof rows)[number]) => [
      messageOf('system', null, 'You "solve"\nwell', null),
      messageOf('user', 'asker', `Q${task(row)}`, `{"content":[{"type":"text","text":"Q${task(row)}"}]}`),
    ];
    expect(read).toEqual(rows.map((row) => ({ ...row, prompt: asked(row) })));
    const metadata = parquetMetadata(bufferOf(await readFile(join(frozen.directory, 'train.parquet'))));
    const codec = metadata.row_groups[0]!.columns[0]!.meta_data!.codec;
    expect([Number(metadata.num_rows), codec]).toEqual([36, 'ZSTD']);
    const lines = (await readFile(join(frozen.directory, 'train.jsonl'), 'utf8')).trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual(rows);
  });
});

it('Parquet that nobody reads to its end closes what it reads from', async () => {
  let closed = false;
  function* streams() {
    try {
      for (let i = 0; i < 40; i++)
        yield* nestedStreams(
          { words: 'text' },
          Array.from({ length: 4096 }, (_, n) => ({ words: sha256(`${i}/${n}`) })),
        );
    } finally {
      closed = true;
    }
  }
  const file = parquetOf(streams());
  await file.next();
  expect(closed).toBe(false);
  await file.return();
  expect(closed).toBe(true);
});

it('Parquet stores a text that repeats once, also where all texts together are longer than a page', async () => {
  const texts = Array.from({ length: 60 }, (_, i) =>
    Array.from({ length: 600 }, (_, n) => sha256(`${i}/${n}`)).join(''),
  );
  const lengthOf = async (rows: readonly { readonly words: string }[]) =>
    (await bytesIn(parquetOf(nestedStreams({ words: 'text' }, rows)))).length;
  const once = texts.map((words) => ({ words }));
  expect(await lengthOf(Array.from({ length: 8 }, () => once).flat())).toBeLessThan(1.1 * (await lengthOf(once)));
});

it('Parquet has dictionaries of what recurs, stores what differs from row to row, and has statistics of sorted columns', async () => {
  const rows = Array.from({ length: 100 }, (_, i) => {
    const drawn = sha256(`${i}`);
    const each = { id: `step-${i}`, episode: `episode-${i >> 4}`, kind: `kind ${i % 3}`, at: i, reward: i % 2 };
    return { ...each, text: 'a long text. '.repeat(i), drawn: [i / 7, i / 9], words: [drawn] };
  });
  const flat = { id: 'text', episode: 'text', kind: 'text', at: 'int', reward: 'number', text: 'text' } as const;
  const columnsOf = async (more: Shapes) => {
    const shapes = { ...flat, drawn: { list: 'number' }, ...more } as const;
    const { buffer } = new Uint8Array(await bytesIn(parquetOf(nestedStreams(shapes, rows))));
    return parquetMetadata(buffer).row_groups[0]!.columns.map(({ meta_data }) => [
      meta_data!.path_in_schema[0],
      meta_data!.encodings.filter((encoding) => encoding !== 'RLE').join(' '),
      meta_data!.statistics?.min_value === undefined ? 'none' : 'statistics',
    ]);
  };
  const dictionary = 'PLAIN RLE_DICTIONARY';
  const expected = [
    ['id', 'DELTA_BYTE_ARRAY', 'statistics'],
    ['episode', 'DELTA_BYTE_ARRAY', 'statistics'],
    ['kind', dictionary, 'none'],
    ['at', 'DELTA_BINARY_PACKED', 'statistics'],
    ['reward', dictionary, 'none'],
    ['text', 'DELTA_BYTE_ARRAY', 'none'],
  ];
  expect(await columnsOf({})).toEqual([...expected, ['drawn', 'PLAIN', 'none']]);
  const [drawn, words] = (await columnsOf({ words: { list: 'text' } })).slice(-2);
  expect([drawn, words]).toEqual([
    ['drawn', dictionary, 'none'],
    ['words', dictionary, 'none'],
  ]);
});

it('Parquet is read by another reader as it was, whatever the encoding of a column', async () => {
  const some = [null, '', 'ä日', 'ä日本', 'a'];
  const rows = Array.from({ length: 100 }, (_, i) => ({
    sorted: i % 7 === 0 ? null : `step-${i}`,
    drawn: some[Number.parseInt(sha256(`${i}`).slice(0, 4), 16) % 5],
    at: i % 11 === 0 ? null : [-(2 ** 31), 2 ** 31 - 1, 0, i][i % 4],
    same: 7,
    none: null,
  }));
  const shapes = { sorted: 'text', drawn: 'text', at: 'int', same: 'int', none: 'text' } as const;
  const { buffer } = new Uint8Array(await bytesIn(parquetOf(nestedStreams(shapes, rows), { codec: 'snappy' })));
  const read = await parquetReadObjects({ file: buffer });
  expect(read.map((row) => ({ ...row, none: row.none ?? null }))).toEqual(rows);
});

describe('the methods of a recipe', () => {
  it('are the latest version by name, or what version, parameters or key say, and never a guess', async () => {
    const fresh = await freshDatabase();
    await seed(fresh.db, { tasks: 1, episodesOfTask: 1, callsOfEpisode: 1 });
    await insert(fresh.db, 'judged_methods', [
      { method_key: 'c2', method: 'group_mean', version: 2, kind: 'credit', params: { scale: 'std' } },
      { method_key: 'c3', method: 'group_mean', version: 2, kind: 'credit', params: { scale: 'none' } },
    ]);
    const key = async (credit: unknown) =>
      (await make({ credit }, home(), fresh.db)).manifest.methods.credit?.method_key;
    expect(await key({ method: 'group_mean', version: 1 })).toBe('credit-1');
    expect(await key({ method: 'group_mean', params: { scale: 'none' } })).toBe('c3');
    expect(await key({ method_key: 'c2' })).toBe('c2');
    await expect(key('group_mean')).rejects.toMatchObject({ code: 'recipe_invalid', detail: { field: 'credit' } });
    await expect(key({ method: 'group_mean', version: 9 })).rejects.toMatchObject({ code: 'not_found' });
    await expect(key('group_men')).rejects.toThrow('Did you mean group_mean?');
    await fresh.close();
  });
});
