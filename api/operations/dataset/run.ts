/** What operations on datasets do. */
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import type { Manifest } from '../../../store/datasets/manifest.ts';
import { openNamed } from '../../../store/datasets/read.ts';
import { anyOf, firstOf, query, rowsOf, sql } from '../../../store/db/query.ts';
import { checkpointAt } from '../checkpoint-places.ts';
import { columns, type FilteredPage, filteredList } from '../filtered-list.ts';
import type { ChangeContext, OutputOf, ReadContext } from '../operation.ts';

const DATASETS = {
  rows: 'traj.datasets',
  fields: { ...columns('text', 'dataset_id', 'name', 'sha256', 'uri'), ...columns('time', 'frozen_at') },
  id: 'dataset_id',
};

const datasets = query
  .selectFrom('traj.datasets')
  .select([sql<string>`dataset_id`.as('dataset_id'), 'name', 'sha256', 'uri', 'frozen_at'])
  .select(sql<Manifest['rows'] | null>`manifest -> 'rows'`.as('rows'));

export async function list({ db, home }: ReadContext, asked: FilteredPage) {
  const [{ listDatasets }, { unfinishedIn }] = await Promise.all([
    import('../../../store/datasets/read.ts'),
    import('../../../store/datasets/unfinished.ts'),
  ]);
  const page = await filteredList<OutputOf<typeof datasets.executeTakeFirstOrThrow>>(db, datasets, DATASETS, asked);
  const folders = new Map((await listDatasets(home.datasets)).map((one) => [basename(one.directory), one]));
  const ids = query
    .selectFrom('traj.datasets')
    .select('dataset_id')
    .where('dataset_id', '=', anyOf([...folders.keys()]));
  const known = new Set((await rowsOf(db, ids)).map(({ dataset_id }) => dataset_id));
  const unfinished = (await unfinishedIn(home.datasets)).map(({ directory, state: { name, written } }) => ({
    ...{ directory, name, problem: 'unfinished' },
    rows: Object.fromEntries(written.splits.map(({ split, rows }) => [split, rows])),
  }));
  const others = [...folders.values()].flatMap(({ directory, manifest, problem }) =>
    known.has(basename(directory))
      ? []
      : [{ directory, name: manifest?.name ?? null, rows: manifest?.rows ?? null, problem }],
  );
  const items = page.items.map((one) => {
    const folder = folders.get(one.dataset_id);
    return { ...one, problem: folder === undefined ? 'its files are not in this home' : folder.problem };
  });
  return { ...page, items, others: [...others, ...unfinished] };
}

export async function show({ db, home }: ReadContext, { dataset }: { readonly dataset: string }) {
  try {
    const { directory, manifest } = await openNamed(home.datasets, dataset);
    const card = await readFile(join(directory, 'README.md'), 'utf8').catch((cause: NodeJS.ErrnoException) => {
      if (cause.code === 'ENOENT') return null;
      throw cause;
    });
    return { ...manifest, directory, card };
  } catch (error) {
    if (!(error instanceof TroupeError) || error.code !== 'not_found') throw error;
    const recorded = query.selectFrom('traj.datasets').select('manifest').where('dataset_id', '=', dataset);
    const found = (await firstOf(db, recorded))?.manifest;
    if (!found) throw error;
    return { ...(found as unknown as Manifest), directory: null, card: null };
  }
}

export async function freeze(
  { db, log, home, now, catchUp, patiently, version }: ChangeContext,
  { recipe, allow_empty: allowEmpty }: { readonly recipe: object; readonly allow_empty: boolean },
) {
  await catchUp();
  const { freeze: freezeRows } = await import('../../../store/datasets/freeze.ts');
  const { datasets: directory, benchmarks } = home;
  const options = { directory, benchmarks, codeVersion: version, log, at: now().toISOString(), allowEmpty };
  const { manifest, ...frozen } = await patiently(() => freezeRows(db, recipe, options));
  await catchUp();
  return { ...manifest, ...frozen };
}

export async function recipes(_: ReadContext, { name }: { readonly name?: string }) {
  const { readyRecipe, readyRecipes } = await import('../../../store/datasets/ready.ts');
  return { recipes: name === undefined ? readyRecipes() : [readyRecipe(name)] };
}

export async function diff(
  { home }: ReadContext,
  { first, second }: { readonly first: string; readonly second: string },
) {
  const { datasetDiff } = await import('../../../store/datasets/diff.ts');
  return datasetDiff(await openNamed(home.datasets, first), await openNamed(home.datasets, second));
}

export async function outdated(
  { db, home, catchUp, patiently, version }: ChangeContext,
  { dataset }: { readonly dataset: string },
) {
  await catchUp();
  const { outdated: freshness } = await import('../../../store/datasets/outdated.ts');
  const opened = await openNamed(home.datasets, dataset);
  const options = { folder: home.run, benchmarks: home.benchmarks, codeVersion: version };
  return { name: opened.manifest.name, ...(await patiently(() => freshness(db, opened, options))) };
}

export async function exported(
  { home }: ReadContext,
  { dataset, layout: name, out }: { readonly dataset: string; readonly layout: string; readonly out?: string },
) {
  if (out === undefined) throw new TroupeError('usage', 'Missing --out DIR, the folder to write.', { field: 'out' });
  const { exportDataset, layoutNamed } = await import('../../../store/datasets/export.ts');
  const opened = await openNamed(home.datasets, dataset);
  const {
    dataset_id,
    layout,
    rows,
    left_out,
    not_held,
    name: called,
  } = (await exportDataset(opened, layoutNamed(name), out)).manifest;
  const made_of = Object.values(opened.manifest.rows).reduce((sum, count) => sum + count, 0);
  return { dataset_id, name: called, layout, rows, made_of, left_out, not_held };
}

export async function mask(
  { home }: ReadContext,
  asked: { readonly dataset: string; readonly model: string; readonly split: string; readonly rows: number },
) {
  const { split } = asked;
  const [dataset, { openModel }] = await Promise.all([
    openNamed(home.datasets, asked.dataset),
    import('../../../trainer/model/model-directory.ts'),
  ]);
  const model = await openModel(checkpointAt(home, asked.model));
  const [{ maskParts }, { supervisedRow }, { branchRow }, { preferenceRows }] = await Promise.all([
    import('../../../trainer/learn/data/mask-parts.ts'),
    import('../../../trainer/learn/data/training-rows.ts'),
    import('../../../trainer/learn/data/branch-rows.ts'),
    import('../../../trainer/learn/data/preference-rows.ts'),
  ]);
  const { unit } = dataset.manifest.recipe;
  if (unit === 'episode' || unit === 'triplet') {
    throw new TroupeError(
      'usage',
      `A dataset of unit ${unit} has no rows that a model learns; export it in a layout.`,
      {
        expected: 'a dataset of steps, groups, branches or pairs',
        got: unit,
      },
    );
  }
  const parts = (one: Parameters<typeof maskParts>[0]) => maskParts(one, (ids) => model.tokenizer.decode(ids));
  const partsOf = (row: Readonly<Record<string, unknown>>): Readonly<Record<string, ReturnType<typeof maskParts>>> => {
    if (unit === 'branch') return { answers: parts(branchRow(row as never, model)) };
    if (unit !== 'pair') return { answer: parts(supervisedRow(row as never, model)) };
    const [pair] = preferenceRows({ rows: () => [row] }, model);
    const { promptIds, chosen, rejected } = pair!;
    return { chosen: parts({ promptIds, ...chosen }), rejected: parts({ promptIds, ...rejected }) };
  };
  const rows = [];
  let at = 0;
  for (const row of dataset.rows(split)) {
    const { episode_id, step_id = null } = row;
    const about = { row: at++, episode_id, step_id };
    try {
      rows.push({ ...about, parts: partsOf(row), refused: null });
    } catch (error) {
      if (!(error instanceof TroupeError)) throw error;
      rows.push({ ...about, parts: {}, refused: error.message });
    }
    if (at === asked.rows) break;
  }
  const answer_form = model.template?.answerForm ?? null;
  return { dataset_id: dataset.manifest.dataset_id, model: model.id, split, answer_form, rows };
}
