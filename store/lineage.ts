/**
 * Where something comes from and what was made of it, as two trees: episodes, steps, rows of datasets, datasets and checkpoints. A step
 * was spoken by a checkpoint and may stand in a dataset; a checkpoint was trained on datasets and from its parent, and then spoke.
 */
import type { Session } from './db/pool.ts';
import { query, rowsOf, sql } from './db/query.ts';

export type LineageKind = 'episode' | 'step' | 'dataset row' | 'dataset' | 'checkpoint' | 'release';

export type Branches = {
  readonly children: readonly LineageNode[];
  /** Children that are not listed because there are too many. */
  readonly left_out: number;
};

/** One thing in a tree. */
export type LineageNode = Branches & {
  readonly kind: LineageKind;
  readonly id: string;
  /** What it is to the thing above it. */
  readonly relation: string;
  /** How many rows, episodes or steps the relation is about; null where it is not about a number of them. */
  readonly rows: number | null;
  readonly episodes: number | null;
  readonly steps: number | null;
};

export type Lineage = {
  readonly kind: LineageKind;
  readonly id: string;
  /** Of a checkpoint: the episodes that it spoke in and the steps that it said; null for anything else. */
  readonly spoke: { readonly episodes: number; readonly steps: number } | null;
  readonly comes_from: Branches;
  readonly led_to: Branches;
};

type Related = Pick<LineageNode, 'kind' | 'id' | 'relation'> &
  Partial<Pick<LineageNode, 'rows' | 'episodes' | 'steps'>>;
type Relations = Readonly<Record<LineageKind, (db: Session, id: string) => Promise<readonly Related[]>>>;

/** Children of one node. */
const WIDTH = 20;

/**
 * The lineage of everything that has this id; a row of a dataset is `DATASET/SPLIT/ROW`. Empty for an id that nobody recorded.
 * @param depth how many relations are followed each way, 1 or more
 */
export async function lineageOf(db: Session, id: string, depth = 2): Promise<readonly Lineage[]> {
  const found: Lineage[] = [];
  for (const kind of await kindsOf(db, id)) {
    found.push({
      kind,
      id,
      spoke: kind === 'checkpoint' ? await spokenBy(db, id) : null,
      comes_from: await follow(db, SOURCES, { kind, id }, depth),
      led_to: await follow(db, RESULTS, { kind, id }, depth),
    });
  }
  return found;
}

async function follow(
  db: Session,
  relations: Relations,
  of: Pick<LineageNode, 'kind' | 'id'>,
  depth: number,
): Promise<Branches> {
  if (depth === 0) return { children: [], left_out: 0 };
  const all = await relations[of.kind](db, of.id);
  const children: LineageNode[] = [];
  for (const one of all.slice(0, WIDTH)) {
    const branches = await follow(db, relations, one, depth - 1);
    children.push({ rows: null, episodes: null, steps: null, ...one, ...branches });
  }
  return { children, left_out: all.length - children.length };
}

const rowOf = (id: string): { dataset: string; split: string; row: number } | null => {
  const [, dataset, split, row] = /^(.+)\/([^/]+)\/(\d{1,9})$/.exec(id) ?? [];
  return dataset === undefined ? null : { dataset, split: split!, row: Number(row) };
};

/** A step id is its call and candidate; the call of an id that is no step is null. */
const stepOf = (id: string): { call: string; candidate: number } | null => {
  const [, call, candidate] = /^(.+)\/(\d{1,9})$/s.exec(id) ?? [];
  return call === undefined ? null : { call, candidate: Number(candidate) };
};

async function kindsOf(db: Session, id: string): Promise<readonly LineageKind[]> {
  const kinds: LineageKind[] = [];
  const known = async (kind: LineageKind, rows: Promise<readonly unknown[]>) => {
    if ((await rows).length > 0) kinds.push(kind);
  };
  const one = sql<number>`1`.as('one');
  await known('episode', rowsOf(db, query.selectFrom('facts.episodes').select(one).where('episode_id', '=', id)));
  if (stepOf(id) !== null) await known('step', rowsOf(db, stepsNamed(id).select(one).limit(1)));
  const at = rowOf(id);
  if (at !== null) await known('dataset row', rowsOf(db, rowsAt(at).select(one)));
  await known('dataset', rowsOf(db, query.selectFrom('facts.datasets').select(one).where('dataset_id', '=', id)));
  const spoke = query.selectFrom('facts.calls').select(one).where('checkpoint_id', '=', id).limit(1);
  const saved = query.selectFrom('facts.checkpoints').select(one).where('checkpoint_id', '=', id);
  await known('checkpoint', rowsOf(db, saved.union(spoke)));
  return kinds;
}

const rowsAt = ({ dataset, split, row }: NonNullable<ReturnType<typeof rowOf>>) =>
  query
    .selectFrom('facts.dataset_rows')
    .where('dataset_id', '=', dataset)
    .where('split', '=', split)
    .where('row', '=', row);

/**
 * A step by its id alone is looked for in the primary key, which begins with the episode: at 300,000 steps `lineageOf` takes 160 to 630 ms
 * on a busy machine, with an index on `call_id` of both tables 6 to 100. Two more relations in every project are not worth that.
 */
const stepsNamed = (id: string) => {
  const { call, candidate } = stepOf(id) ?? { call: null, candidate: null };
  return query
    .selectFrom('facts.steps as s')
    .innerJoin('facts.calls as c', (on) =>
      on.onRef('c.episode_id', '=', 's.episode_id').onRef('c.call_id', '=', 's.call_id'),
    )
    .where('s.call_id', '=', call)
    .where('s.candidate', '=', candidate);
};

const count = <T extends string>(of: ReturnType<typeof sql<number>>, name: T) => sql<number>`${of}::integer`.as(name);

async function spokenBy(db: Session, checkpoint: string): Promise<{ episodes: number; steps: number }> {
  const [row] = await rowsOf(
    db,
    query
      .selectFrom('facts.calls as c')
      .innerJoin('facts.steps as s', (on) =>
        on.onRef('c.episode_id', '=', 's.episode_id').onRef('c.call_id', '=', 's.call_id'),
      )
      .select([count(sql`count(distinct c.episode_id)`, 'episodes'), count(sql`count(*)`, 'steps')])
      .where('c.checkpoint_id', '=', checkpoint),
  );
  return row!;
}

const nothing = async (): Promise<readonly Related[]> => [];

/** What spoke in an episode, by its calls. */
const speakersOf = async (db: Session, episode: string): Promise<readonly Related[]> => {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.calls as c')
      .innerJoin('facts.steps as s', (on) =>
        on.onRef('c.episode_id', '=', 's.episode_id').onRef('c.call_id', '=', 's.call_id'),
      )
      .select(['c.checkpoint_id', count(sql`count(*)`, 'steps')])
      .where('c.episode_id', '=', episode)
      .where('c.checkpoint_id', 'is not', null)
      .groupBy('c.checkpoint_id')
      .orderBy('steps', 'desc')
      .orderBy('c.checkpoint_id'),
  );
  return rows.map(({ checkpoint_id, steps }) => ({
    kind: 'checkpoint',
    id: checkpoint_id!,
    relation: 'spoke in it',
    steps,
  }));
};

const SOURCES: Relations = {
  episode: speakersOf,
  async step(db, id) {
    const rows = await rowsOf(db, stepsNamed(id).select(['s.episode_id', 'c.checkpoint_id']).orderBy('s.episode_id'));
    return rows.flatMap(({ episode_id, checkpoint_id }): Related[] => [
      { kind: 'episode', id: episode_id, relation: 'is its episode' },
      ...(checkpoint_id === null ? [] : [{ kind: 'checkpoint', id: checkpoint_id, relation: 'said it' } as const]),
    ]);
  },
  async 'dataset row'(db, id) {
    const [row] = await rowsOf(db, rowsAt(rowOf(id)!).select(['episode_id', 'call_id', 'candidate']));
    if (row === undefined) return [];
    return row.call_id === null
      ? [{ kind: 'episode', id: row.episode_id, relation: 'is the row' }]
      : [{ kind: 'step', id: `${row.call_id}/${row.candidate}`, relation: 'is the row' }];
  },
  async dataset(db, id) {
    const rows = await rowsOf(
      db,
      query
        .selectFrom('facts.dataset_rows as r')
        .innerJoin('facts.calls as c', (on) =>
          on.onRef('c.episode_id', '=', 'r.episode_id').onRef('c.call_id', '=', 'r.call_id'),
        )
        .select(['c.checkpoint_id', count(sql`count(*)`, 'rows'), count(sql`count(distinct r.episode_id)`, 'episodes')])
        .where('r.dataset_id', '=', id)
        .where('c.checkpoint_id', 'is not', null)
        .groupBy('c.checkpoint_id')
        .orderBy('rows', 'desc')
        .orderBy('c.checkpoint_id'),
    );
    return rows.map(({ checkpoint_id, rows, episodes }) => ({
      kind: 'checkpoint',
      id: checkpoint_id!,
      relation: 'said its rows',
      rows,
      episodes,
    }));
  },
  async checkpoint(db, id) {
    const parents = await rowsOf(
      db,
      query
        .selectFrom('facts.checkpoints')
        .select('parent_id')
        .where('checkpoint_id', '=', id)
        .where('parent_id', 'is not', null),
    );
    const datasets = await rowsOf(
      db,
      query
        .selectFrom('facts.checkpoints as c')
        .innerJoin(
          sql<{ dataset_id: string }>`json_array_elements_text(c.dataset_ids)`.as<'d'>(sql`d (dataset_id)`),
          (on) => on.onTrue(),
        )
        .leftJoin('facts.dataset_rows as r', 'r.dataset_id', 'd.dataset_id')
        .select([
          'd.dataset_id',
          count(sql`count(r.row)`, 'rows'),
          count(sql`count(distinct r.episode_id)`, 'episodes'),
        ])
        .where('c.checkpoint_id', '=', id)
        .groupBy('d.dataset_id')
        .orderBy('d.dataset_id'),
    );
    return [
      ...parents.map(({ parent_id }) => ({ kind: 'checkpoint', id: parent_id!, relation: 'is its parent' }) as const),
      ...datasets.map(({ dataset_id, rows, episodes }) => ({
        kind: 'dataset' as const,
        id: dataset_id,
        relation: 'trained it',
        rows,
        episodes,
      })),
    ];
  },
  release: nothing,
};

/** Datasets with rows of these episodes, or of this step of them. */
async function datasetsWith(
  db: Session,
  rows: (is: ReturnType<typeof datasetRows>) => ReturnType<typeof datasetRows>,
): Promise<readonly Related[]> {
  const found = await rowsOf(
    db,
    rows(datasetRows())
      .select(['r.dataset_id', count(sql`count(*)`, 'rows'), count(sql`count(distinct r.episode_id)`, 'episodes')])
      .groupBy('r.dataset_id')
      .orderBy(sql`(select frozen_at from facts.datasets d where d.dataset_id = r.dataset_id)`)
      .orderBy('r.dataset_id'),
  );
  return found.map(({ dataset_id, rows, episodes }) => ({
    kind: 'dataset',
    id: dataset_id,
    relation: 'holds rows of it',
    rows,
    episodes,
  }));
}

const datasetRows = () => query.selectFrom('facts.dataset_rows as r');

const RESULTS: Relations = {
  episode: (db, id) => datasetsWith(db, (rows) => rows.where('r.episode_id', '=', id)),
  async step(db, id) {
    const episodes = await rowsOf(db, stepsNamed(id).select('s.episode_id'));
    const { call, candidate } = stepOf(id)!;
    const rows = await rowsOf(
      db,
      datasetRows()
        .select(['r.dataset_id', 'r.split', 'r.row'])
        .where(
          'r.episode_id',
          'in',
          episodes.map(({ episode_id }) => episode_id),
        )
        .where('r.call_id', '=', call)
        .where('r.candidate', '=', candidate)
        .orderBy('r.dataset_id')
        .orderBy('r.split')
        .orderBy('r.row'),
    );
    return rows.map(({ dataset_id, split, row }) => ({
      kind: 'dataset row',
      id: `${dataset_id}/${split}/${row}`,
      relation: 'holds it',
    }));
  },
  'dataset row': async (_, id) => [{ kind: 'dataset', id: rowOf(id)!.dataset, relation: 'has the row' }],
  async dataset(db, id) {
    const rows = await rowsOf(
      db,
      query
        .selectFrom('facts.checkpoints as c')
        .innerJoin(
          sql<{ dataset_id: string }>`json_array_elements_text(c.dataset_ids)`.as<'d'>(sql`d (dataset_id)`),
          (on) => on.onTrue(),
        )
        .select('c.checkpoint_id')
        .where('d.dataset_id', '=', id)
        .orderBy('c.saved_at')
        .orderBy('c.checkpoint_id'),
    );
    return rows.map(({ checkpoint_id }) => ({ kind: 'checkpoint', id: checkpoint_id, relation: 'was trained on it' }));
  },
  async checkpoint(db, id) {
    const children = await rowsOf(
      db,
      query
        .selectFrom('facts.checkpoints')
        .select('checkpoint_id')
        .where('parent_id', '=', id)
        .orderBy('saved_at')
        .orderBy('checkpoint_id'),
    );
    const releases = await rowsOf(
      db,
      query
        .selectFrom('traj.releases')
        .select(['release_id', 'policy'])
        .where('checkpoint_id', '=', id)
        .orderBy('released_at')
        .orderBy('release_id'),
    );
    const spoken = await datasetsWith(db, (rows) =>
      rows.where(
        sql<boolean>`exists (select from facts.calls c where c.episode_id = r.episode_id and c.call_id = r.call_id and c.checkpoint_id = ${id})`,
      ),
    );
    return [
      ...releases.map(({ release_id, policy }) => ({
        kind: 'release' as const,
        id: release_id!,
        relation: `gave it to ${policy}`,
      })),
      ...children.map(({ checkpoint_id }) => ({
        kind: 'checkpoint' as const,
        id: checkpoint_id,
        relation: 'was trained from it',
      })),
      ...spoken,
    ];
  },
  release: nothing,
};
