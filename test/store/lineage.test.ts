/** The way from an episode to a checkpoint and back, over a story written by hand: old weights generate, a dataset is frozen, new weights are trained. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lineageTree } from '../../api/operations/lineage/text.ts';
import { LINEAGE_LIMIT, type Lineage, type LineageNode, lineageOf } from '../../store/explore/lineage.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { at, event } from './support/events.ts';
import { attempt, record } from './views/attempts.ts';

let fresh: TestDatabase;
beforeAll(async () => {
  fresh = await freshDatabase();
  const says = [{ by: 'a', checkpoint: 'old', candidates: 2 }];
  await record(
    fresh.db,
    attempt('e1', { says }),
    attempt('e2', { says }),
    attempt('e3', { says: [{ by: 'a', checkpoint: 'new' }] }),
    attempt('e4', {}),
    attempt('e5', { says: [{ by: 'a' }, { by: 'a' }, { by: 'a' }, { by: 'a' }] }),
    [
      event('artifact.attached', {
        artifact_id: 'lessons',
        role: 'dataset',
        rows: {
          train: [
            ['e1', 'c0', [0, 1]],
            ['e2', 'c0', [0]],
          ],
          test: [['e2', 'c0', [1]]],
        },
      }),
      event('artifact.attached', {
        artifact_id: 'talks',
        role: 'dataset',
        rows: {
          train: [['e5', 'c3', [0]]],
          'train.earlier-1': [['e5', 'c2', [0], 0]],
          'train.earlier-2': [['e5', 'c1', [0], 0]],
        },
      }),
      event('artifact.attached', {
        artifact_id: 'pairs',
        role: 'dataset',
        rows: { train: [['e5', 'c3', [0]]], 'train.rejected': [['e5', 'c2', [0]]] },
      }),
      event('checkpoint.saved', { checkpoint_id: 'old', policy: 'p' }),
      event('checkpoint.saved', { checkpoint_id: 'new', parent_id: 'old', policy: 'p', dataset_ids: ['lessons'] }),
      event('policy.released', { release_id: 'r1', policies: { p: 'new' } }),
      ...Object.entries({ first: 'below', second: 'first' }).map(([checkpoint_id, parent_id]) =>
        event('checkpoint.saved', {
          checkpoint_id,
          parent_id,
          policy: 'q',
          config: { adapter: { base: 'below', r: 2 } },
        }),
      ),
    ],
  );
});
afterAll(() => fresh.close());

/** Without what is null, so that a story is short to tell. */
const shown = (one: LineageNode): unknown => {
  const { children, left_out: _, cut: __, ...rest } = one;
  const known = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null));
  return children.length === 0 ? known : { ...known, children: children.map(shown) };
};
const both = async (id: string, depth?: number) => {
  const [found, ...others] = await lineageOf(fresh.db, id, depth);
  expect(others).toEqual([]);
  return {
    kind: found!.kind,
    from: found!.comes_from.children.map(shown),
    to: found!.led_to.children.map(shown),
  };
};

describe('lineage', () => {
  it('of a row names all its answers, and of an answer every row that it is in', async () => {
    const step = (id: string, relation: string) => ({ kind: 'step', id, relation });
    expect((await both('talks/train/0', 1)).from).toEqual([
      step('c3/0', 'is its last answer'),
      step('c2/0', 'is its earlier answer'),
      step('c1/0', 'is its earlier answer'),
    ]);
    expect((await both('pairs/train/0', 1)).from).toEqual([
      step('c3/0', 'is its preferred answer'),
      step('c2/0', 'is its rejected answer'),
    ]);
    const row = (id: string, relation: string) => ({ kind: 'dataset row', id, relation });
    expect((await both('c1/0', 1)).to).toEqual([row('talks/train/0', 'holds it as earlier answer')]);
    expect((await both('c2/0', 1)).to).toEqual([
      row('pairs/train/0', 'holds it as rejected answer'),
      row('talks/train/0', 'holds it as earlier answer'),
    ]);
    expect((await both('c3/0', 1)).to).toEqual([row('pairs/train/0', 'holds it'), row('talks/train/0', 'holds it')]);
  });

  it('of a dataset names the episodes of rows of which nobody recorded what generated them', async () => {
    expect((await both('talks', 1)).from).toEqual([{ kind: 'episode', id: 'e5', relation: 'has rows in it', rows: 1 }]);
    expect((await both('lessons', 1)).from).toMatchObject([{ kind: 'checkpoint', id: 'old' }]);
  });

  it('of an episode goes back to the weights that generated it and on to the datasets and the checkpoints made of them', async () => {
    expect(await both('e1')).toEqual({
      kind: 'episode',
      from: [{ kind: 'checkpoint', id: 'old', relation: 'generated steps of it', steps: 2 }],
      to: [
        {
          kind: 'dataset',
          id: 'lessons',
          relation: 'holds rows of it',
          rows: 2,
          episodes: 1,
          children: [{ kind: 'checkpoint', id: 'new', relation: 'was trained on it' }],
        },
      ],
    });
  });

  it('of an adapter names the weights that it lies over beside those that it was trained from', async () => {
    const checkpoint = (id: string, relation: string) => ({ kind: 'checkpoint', id, relation });
    expect((await both('first', 1)).from).toEqual([checkpoint('below', 'is its parent and the base of its adapter')]);
    expect(await both('second', 1)).toEqual({
      kind: 'checkpoint',
      from: [checkpoint('first', 'is its parent'), checkpoint('below', 'is the base of its adapter')],
      to: [],
    });
    expect((await both('first', 2)).to).toEqual([checkpoint('second', 'was trained from it')]);
    const { rows } = await fresh.db.query(
      `select relation, other_checkpoint_id from traj.lineage where checkpoint_id = 'second' order by 1`,
    );
    expect(rows).toEqual([
      { relation: 'adapter over', other_checkpoint_id: 'below' },
      { relation: 'child of', other_checkpoint_id: 'first' },
    ]);
  });

  it('tells rows that trained a checkpoint from those that were held out, or were for validation or test', async () => {
    const row = (n: number) => ['e6', 'c0', [n]] as const;
    const rows = { train: [row(0)], held_out: [row(0), row(0)], validation: [row(0)], test: [row(0), row(0), row(0)] };
    await record(fresh.db, attempt('e6', { says: [{ by: 'a' }] }), [
      event('artifact.attached', { artifact_id: 'parted', role: 'dataset', manifest: {}, rows }, { time: at(90) }),
      event('checkpoint.saved', { checkpoint_id: 'by-parts', policy: 'f', dataset_ids: ['parted'] }),
    ]);
    const shownOf = (relation: string, count: number) => ({
      kind: 'dataset',
      id: 'parted',
      relation,
      rows: count,
      episodes: 1,
    });
    expect((await both('by-parts', 1)).from).toEqual([
      shownOf('trained it', 1),
      shownOf('had rows held out from its training', 2),
      shownOf('had rows for its test', 3),
      shownOf('had rows for its validation', 1),
    ]);
    expect((await both('e6', 1)).to).toContainEqual(shownOf('holds rows of it, held out', 2));
    const { rows: counted } = await fresh.db.query(
      `select relation, count(*)::integer as rows from traj.lineage where checkpoint_id = 'by-parts' group by 1 order by 1`,
    );
    expect(counted).toEqual([
      { relation: 'held out', rows: 2 },
      { relation: 'test', rows: 3 },
      { relation: 'trained on', rows: 1 },
      { relation: 'validation', rows: 1 },
    ]);
  });

  it('of a checkpoint that a file trained knows no number of rows', async () => {
    const saved = { checkpoint_id: 'by-file', policy: 'f', dataset_ids: ['0f11e0'] };
    await record(fresh.db, [event('checkpoint.saved', saved)]);
    expect((await both('by-file', 1)).from).toEqual([
      { kind: 'dataset', id: '0f11e0', relation: 'trained it: a file, or frozen elsewhere' },
    ]);
  });

  it('of a checkpoint goes back to its parent and datasets, and on to its releases and the episodes it took part in', async () => {
    expect(await both('new')).toEqual({
      kind: 'checkpoint',
      from: [
        { kind: 'checkpoint', id: 'old', relation: 'is its parent' },
        {
          kind: 'dataset',
          id: 'lessons',
          relation: 'trained it',
          rows: 3,
          episodes: 2,
          children: [{ kind: 'checkpoint', id: 'old', relation: 'generated its rows', rows: 4, episodes: 2 }],
        },
        { kind: 'dataset', id: 'lessons', relation: 'had rows for its test', rows: 1, episodes: 1 },
      ],
      to: [{ kind: 'release', id: 'r1', relation: 'gave it to p' }],
    });
    expect((await both('old', 1)).to).toEqual([
      { kind: 'checkpoint', id: 'new', relation: 'was trained from it' },
      { kind: 'dataset', id: 'lessons', relation: 'holds rows of it', rows: 3, episodes: 2 },
      { kind: 'dataset', id: 'lessons', relation: 'holds rows of it for test', rows: 1, episodes: 1 },
    ]);
    expect((await lineageOf(fresh.db, 'old'))[0]!.spoke).toEqual({ episodes: 2, steps: 4 });
  });

  it('of a dataset goes back to the weights that generated its rows and on to what was trained on it', async () => {
    expect(await both('lessons', 1)).toEqual({
      kind: 'dataset',
      from: [{ kind: 'checkpoint', id: 'old', relation: 'generated its rows', rows: 4, episodes: 2 }],
      to: [{ kind: 'checkpoint', id: 'new', relation: 'was trained on it' }],
    });
  });

  it('of a row of a dataset goes back to its step, and rows count within their split', async () => {
    expect(await both('lessons/train/2')).toMatchObject({
      kind: 'dataset row',
      from: [{ kind: 'step', id: 'c0/0', relation: 'is the row' }],
      to: [{ kind: 'dataset', id: 'lessons', children: [{ id: 'new' }] }],
    });
    expect(await lineageOf(fresh.db, 'lessons/train/3')).toEqual([]);
  });

  it('of a row reads a few rows of the table, however long its split is', async () => {
    const LONG = 20_000;
    const add = (split: string) =>
      fresh.db.query(`insert into facts.dataset_rows (dataset_id, split, row, episode_id, call_id, candidates)
        select 'long', '${split}', 2 * i, 'e1', 'c0', array[0, 1] from generate_series(0, ${LONG}) i`);
    for (const split of ['test', 'train', 'train.rejected']) await add(split);
    await fresh.db.query('analyze facts.dataset_rows');
    await fresh.db.transaction(async (tx) => {
      const [found] = await lineageOf(tx, `long/train/${LONG + 1}`, 1);
      expect(found!.comes_from.children).toMatchObject([
        { id: 'c0/1', relation: 'is its preferred answer' },
        { id: 'c0/1', relation: 'is its rejected answer' },
      ]);
      const { rows } = await tx.query<{ read: number }>(
        `select (seq_tup_read + idx_tup_fetch)::integer as read from pg_stat_xact_user_tables where relid = 'facts.dataset_rows'::regclass`,
      );
      // Of 60,003; how many depends on the sample that ANALYZE took.
      expect(rows[0]!.read).toBeLessThan(1000);
    });
    await fresh.db.query(`delete from facts.dataset_rows where dataset_id = 'long'`);
  });

  it('of a step names its episode, its weights and the rows that hold it, in each episode that has a step of that id', async () => {
    const { from, to } = await both('c0/1');
    expect(from).toEqual([
      { kind: 'episode', id: 'e1', relation: 'is its episode', children: [expect.anything()] },
      { kind: 'checkpoint', id: 'old', relation: 'generated it' },
      { kind: 'episode', id: 'e2', relation: 'is its episode', children: [expect.anything()] },
      { kind: 'checkpoint', id: 'old', relation: 'generated it' },
    ]);
    expect(to).toMatchObject([
      { kind: 'dataset row', id: 'lessons/test/0', children: [{ kind: 'dataset', id: 'lessons' }] },
      { kind: 'dataset row', id: 'lessons/train/1', children: [{ kind: 'dataset', id: 'lessons' }] },
    ]);
  });

  it('of an episode that nobody trained on is empty both ways, and of an unknown id there is none', async () => {
    expect(await both('e4')).toEqual({ kind: 'episode', from: [], to: [] });
    expect(await lineageOf(fresh.db, 'nobody')).toEqual([]);
  });

  it('lists 20 children of a thing and says how many it left out', async () => {
    await record(fresh.db, [
      ...Array.from({ length: 23 }, (_, i) =>
        event('checkpoint.saved', { checkpoint_id: `many-${i}`, parent_id: 'many', policy: 'p' }),
      ),
      event('checkpoint.saved', { checkpoint_id: 'many', policy: 'p' }),
    ]);
    const [found] = await lineageOf(fresh.db, 'many');
    expect([found!.led_to.children.length, found!.led_to.left_out]).toEqual([20, 3]);
    expect(lineageTree(found!).split('\n').at(-1)).toBe('   └─ … and 3 more');
  });

  it('lists no more than a tree may have however deep it is asked, the nearest first, and says what was not followed', async () => {
    const child = (parent_id: string, i: number) =>
      event('checkpoint.saved', { checkpoint_id: `${parent_id}.${i}`, parent_id, policy: 'p' });
    const below = (parents: readonly string[], each: number) =>
      parents.flatMap((parent) => Array.from({ length: each }, (_, i) => child(parent, i)));
    const ids = (events: readonly { data: Readonly<Record<string, unknown>> }[]) =>
      events.map(({ data }) => String(data.checkpoint_id));
    const first = below(['wide'], 20);
    const second = below(ids(first), 20);
    const third = below(ids(second), 1);
    await record(fresh.db, [
      event('checkpoint.saved', { checkpoint_id: 'wide', policy: 'p' }),
      ...first,
      ...second,
      ...third,
    ]);

    const [found] = (await lineageOf(fresh.db, 'wide', 10)) as [Lineage];
    const all = (nodes: readonly LineageNode[]): readonly LineageNode[] =>
      nodes.flatMap((node) => [node, ...all(node.children)]);
    const nodes = all(found.led_to.children);
    expect(nodes).toHaveLength(LINEAGE_LIMIT);
    // 20 and 400 are nearer than the 400 below, of which there is room for 80.
    const [followed, cut] = [nodes.slice(0, 4), nodes.filter((node) => node.cut === 'limit')];
    expect(followed.map(({ id }) => id)).toEqual(['wide.0', 'wide.0.0', 'wide.0.0.0', 'wide.0.1']);
    expect(cut).toHaveLength(400 - 80 + 80);
    const drawn = lineageTree(found).split('\n');
    expect(drawn.filter((line) => line.endsWith('└─ … not followed: a tree lists 500 things'))).toHaveLength(400);
  });

  it('follows a thing once and says where it stands a second time', async () => {
    await record(fresh.db, [
      event('checkpoint.saved', { checkpoint_id: 'end', parent_id: 'middle', policy: 'p', dataset_ids: ['spoken'] }),
      event('checkpoint.saved', { checkpoint_id: 'middle', parent_id: 'begin', policy: 'p' }),
      event('checkpoint.saved', { checkpoint_id: 'begin', policy: 'p' }),
      event('artifact.attached', {
        artifact_id: 'spoken',
        role: 'dataset',
        rows: { train: [['by-middle', 'c0', [0]]] },
      }),
    ]);
    await record(fresh.db, attempt('by-middle', { says: [{ by: 'a', checkpoint: 'middle' }] }));
    const [found] = (await lineageOf(fresh.db, 'end', 10)) as [Lineage];
    expect(lineageTree(found).split('\n').slice(1, 7)).toEqual([
      '├─ comes from',
      '│  ├─ checkpoint middle is its parent',
      '│  │  └─ checkpoint begin is its parent',
      '│  └─ dataset spoken trained it (1 row, 1 episode)',
      '│     └─ checkpoint middle generated its rows (1 row, 1 episode)',
      '│        └─ … as at its other place in this tree',
    ]);
  });

  it('is drawn as a tree each way', async () => {
    const [found] = (await lineageOf(fresh.db, 'e1')) as [Lineage];
    expect(lineageTree(found)).toBe(
      [
        'episode e1',
        '├─ comes from',
        '│  └─ checkpoint old generated steps of it (2 steps)',
        '└─ led to',
        '   └─ dataset lessons holds rows of it (2 rows, 1 episode)',
        '      └─ checkpoint new was trained on it',
      ].join('\n'),
    );
  });
});
