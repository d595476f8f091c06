/**
 * The rows that meet a recipe's conditions, as a table of the transaction, from which rows are taken away. It holds ids and what
 * decides, no text. A row is a step, or all steps of an episode where the unit is a whole one.
 */

import { TroupeError } from '../../errors.ts';
import { escapeText } from '../../ingest/events/text.ts';
import type { Session } from '../db/pool.ts';
import { literalSql, type RawBuilder, rowsOf, type SqlBool, sql, typed } from '../db/query.ts';
import { fieldSql } from '../filter/filter-fields.ts';
import { factsOf } from '../filter/select.ts';
import { type Benchmarks, readBenchmarks } from './benchmarks.ts';
import { isWhole } from './columns.ts';
import { contaminatedRows } from './contaminated.ts';
import { farthestFirst } from './farthest-first.ts';
import { makeBranches } from './make-branches.ts';
import type { FunnelStage } from './manifest.ts';
import { nearDuplicates } from './near-duplicates.ts';
import { makePassRates } from './pass-rates.ts';
import {
  andAll,
  type ChosenColumns,
  chosenOf,
  EPISODES,
  IN_EPISODE,
  joins,
  judgedValues,
  ROW_ID,
  stagesOf,
  tables,
  type UsedMethods,
} from './query.ts';
import type { Recipe } from './recipe.ts';
import { addReplayed } from './replayed-rows.ts';
import { rowTexts } from './row-texts.ts';
import { textSignatures } from './text-signatures.ts';
import { type Cap, CHARACTERS, capText, decontaminateText, hasBand, nearText, type PassRate } from './thinning.ts';

/** Does something take rows away after the conditions, order them by pass rates, join them or add others? Caps of pairs do not: they count pairs. */
export const isThinned = ({
  unit,
  caps,
  near_duplicates: near,
  decontaminate,
  pass_rate: rate,
  replay,
}: Recipe): boolean =>
  unit === 'branch' ||
  rate !== undefined ||
  near !== undefined ||
  decontaminate !== undefined ||
  (caps !== undefined && unit !== 'pair') ||
  replay !== undefined;

export type PickedRows = {
  readonly chosen: ChosenColumns;
  /** What each step took. */
  readonly stages: readonly FunnelStage[];
  readonly warnings: readonly string[];
  /** The recipe with the files and datasets that were read. */
  readonly pinned: Pick<Recipe, 'decontaminate' | 'replay'>;
};

/**
 * Makes the table and takes rows away.
 * @param folders those of the files that `decontaminate` names and of the datasets that `replay` names
 * @throws TroupeError `recipe_invalid` for a file that cannot be compared with
 */
export async function pickRows(
  tx: Session,
  recipe: Recipe,
  used: UsedMethods,
  chosen: ChosenColumns,
  folders: { readonly benchmarks: string | null; readonly datasets: string },
): Promise<PickedRows> {
  const { decontaminate, near_duplicates: near, pass_rate: rate } = recipe;
  const caps = recipe.caps ?? [];
  const benchmarks = decontaminate && (await readBenchmarks(folders.benchmarks, decontaminate));
  const rates = rate && (await makePassRates(tx, rate));
  const table = pickedRows(recipe, used, chosen);
  await tx.query(literalSql(sql`create temp table picked on commit drop as ${table}`));
  // What follows joins tables of known size; listed episodes had asked for lookups alone.
  await tx.query('analyze picked; set local enable_nestloop = on; set local enable_seqscan = on');
  const stages: FunnelStage[] = [];
  const warnings = [...(rates?.warnings ?? []), ...(benchmarks?.warnings ?? [])];
  let of: FunnelStage['of'] = isWhole(recipe.unit) ? 'episodes' : 'steps';
  let before = await countRows(tx);
  const taken = (name: string, { rows, ids }: RemovedRows) => {
    stages.push({ name, of, before, after: before - rows, dropped: ids });
    before -= rows;
  };
  if (rate && hasBand(rate)) {
    taken(`task with a pass rate, ${rates!.pool}`, await remove(tx, sql<SqlBool>`${RATE} is null`));
    taken(bandText(rate), await remove(tx, outside(rate)));
  }
  if (benchmarks) taken(decontaminateText(decontaminate!), await removeContaminated(tx, benchmarks));
  if (near) {
    const { dropped, empty } = await nearDuplicates(rowTexts(tx), near);
    taken(nearText(near), await removeNear(tx, dropped));
    if (empty > 0) warnings.push(`${empty} rows have no text, so they were not compared with others.`);
  }
  if (recipe.unit === 'branch') {
    const after = await makeBranches(tx, caps.map(worthColumn));
    stages.push({ name: 'branches of conversations', of: 'branches', before: null, after, dropped: [] });
    [of, before] = ['branches', after];
  }
  for (const [i, cap] of (recipe.unit === 'pair' ? [] : caps).entries()) {
    if (cap.take !== 'diverse') taken(capText(cap), await remove(tx, beyond(cap, worthColumn(cap, i))));
    else {
      const { places, empty } = await alikePlaces(tx, cap, `caps[${i}]`);
      taken(capText(cap), await remove(tx, atPlaces(places)));
      if (empty > 0) warnings.push(`${empty} rows have no text, so ${capText(cap)} takes them last.`);
    }
  }
  if (recipe.order === 'easy_first' || recipe.order === 'hard_first') {
    const { rows, tasks } = await countUnrated(tx);
    const name = `${recipe.order}: by the pass rate of the task, ${rates!.pool}; rows without one come last: ${rows} (tasks: ${tasks})`;
    stages.push({ name, of, before, after: before, dropped: [] });
  }
  const replayed = recipe.replay && (await addReplayed(tx, recipe, { folder: folders.datasets, own: before, of }));
  stages.push(...(replayed?.stages ?? []));
  warnings.push(...(replayed?.warnings ?? []));
  const pinned = {
    ...(benchmarks ? { decontaminate: { ...decontaminate!, files: benchmarks.files } } : {}),
    ...(replayed ? { replay: replayed.pinned } : {}),
  };
  return { chosen: await chosenAmong(tx), stages, warnings, pinned };
}

function pickedRows(recipe: Recipe, used: UsedMethods, chosen: ChosenColumns) {
  const whole = isWhole(recipe.unit);
  const { reward, advantage } = judgedValues(used);
  const worth = `coalesce(${advantage}, ${reward})`;
  const ofRow = (value: string) => (whole ? `avg(${value}) over (partition by e.episode_id)` : value);
  const inOrder = [...EPISODES[recipe.order], ...IN_EPISODE].join(', ');
  const place = whole
    ? `dense_rank() over (order by ${EPISODES[recipe.order].join(', ')})`
    : `row_number() over (order by ${inOrder})`;
  return joins({ ...recipe, unit: 'step', columns: [] }, used, chosen, 'values')
    .where(andAll(stagesOf(recipe, used).map(({ sql: met }) => met)))
    .select(['e.episode_id', 's.call_id', 's.candidate'])
    .select([
      sql.raw(place).as('place'),
      sql.raw(`row_number() over (order by ${inOrder})`).as('step'),
      sql.raw(fieldSql('agent_id')).as('agent_id'),
      sql.raw(whole ? 'e.episode_id' : ROW_ID).as('id'),
      sql.raw(CAP_KEYS.task('e')).as('task'),
      sql.raw(CAP_KEYS.group('e')).as('group'),
      sql.raw(fieldSql('role')).as('role'),
      sql.raw(ofRow(worth)).as('worth'),
      sql<string | null>`null::text`.as('replay'),
      ...(recipe.unit === 'branch'
        ? [sql<boolean>`true`.as('last'), sql<number | null>`null::integer`.as('messages')]
        : []),
      ...(recipe.caps ?? []).flatMap((cap, i) =>
        cap.by === undefined ? [] : [sql.raw(ofRow(`(${factsOf(cap.by).sql})::float8`)).as(worthColumn(cap, i))],
      ),
    ]);
}

/** The column that a cap takes the best by. */
const worthColumn = ({ by }: Cap, i: number): string => (by === undefined ? 'worth' : `worth_${i}`);

/** What rows are counted by; an episode without a task or group counts by itself. */
export const CAP_KEYS = {
  task: (alias: string) => `coalesce('t/' || ${alias}.task_id, 'e/' || ${alias}.episode_id)`,
  group: (alias: string) => `coalesce('g/' || ${alias}.group_id, 'e/' || ${alias}.episode_id)`,
  role: (alias: string) => `${alias}.role`,
  all: () => `''`,
} as const;

/** The order in which a cap takes rows, ids last, so that it is total. */
export const capOrder = ({ take, seed }: Cap, worth: string, id: string): string => {
  const chance = `md5(${literalSql(sql`${sql.lit(escapeText(`${seed}/`))}`)} || ${id})`;
  return [...(take === 'best' ? [`${worth} desc nulls last`] : []), chance, id].join(', ');
};

/** What a cap counts by, of the table. */
const kindOf = ({ of }: Cap) => (of === 'all' ? sql<string>`''`.as('kind') : sql<string>`${sql.ref(of)}`.as('kind'));

/** Rows that come after the first `rows` of their kind. */
function beyond(cap: Cap, worth: string): RawBuilder<SqlBool> {
  const order = sql.raw(capOrder(cap, worth, 'id'));
  const rows = tables
    .selectFrom('picked')
    .select(['place', 'id', kindOf(cap), worth])
    .distinct();
  const numbered = tables
    .selectFrom(rows.as('r'))
    .select(['place', sql<number>`row_number() over (partition by kind order by ${order})`.as('number')]);
  const late = tables.selectFrom(numbered.as('n')).select('place').where('number', '>', cap.rows);
  return sql<SqlBool>`picked.place in (${late})`;
}

/** Comparisons of two signatures, of which a hundred million take 14 s of processor time. */
const MOST_COMPARISONS = 2e8;

/** The places of the rows of each kind that are more alike than the first `rows`. */
async function alikePlaces(
  tx: Session,
  cap: Cap,
  at: string,
): Promise<{ readonly places: readonly number[]; readonly empty: number }> {
  const kinds = new Map<string | null, { readonly all: number[]; readonly withText: number[] }>();
  const kindAt = new Map<number, { readonly all: number[]; readonly withText: number[] }>();
  const rows = tables
    .selectFrom('picked')
    .select([sql<number>`place::float8`.as('place'), kindOf(cap)])
    .distinct()
    .orderBy('place');
  for (const { place, kind } of await rowsOf(tx, rows)) {
    const of = kinds.get(kind) ?? { all: [], withText: [] };
    kinds.set(kind, of);
    of.all.push(place as number);
    kindAt.set(place as number, of);
  }
  const full = [...kinds.values()].filter(({ all }) => all.length > cap.rows);
  const comparisons = full.reduce((sum, { all }) => sum + all.length * cap.rows, 0);
  if (comparisons > MOST_COMPARISONS) {
    throw new TroupeError(
      'recipe_invalid',
      `${at} would compare ${comparisons} pairs of texts to take those least alike; ${MOST_COMPARISONS} are compared at most.`,
      {
        field: at,
        expected: `rows to take times rows there are up to ${MOST_COMPARISONS}`,
        got: String(comparisons),
        hint: 'Ask for fewer rows, or put a cap with take: random before it.',
      },
    );
  }
  const { places, words, empty } = await textSignatures(rowTexts(tx), CHARACTERS);
  for (const [i, place] of places.entries()) kindAt.get(place)!.withText.push(i);
  const gone = full.flatMap(({ all, withText }) => {
    const chosen = farthestFirst(words, Int32Array.from(withText), cap.rows).map((i) => places[i]!);
    const kept = new Set(chosen);
    const compared = new Set(withText.map((i) => places[i]!));
    for (const place of all) if (kept.size < cap.rows && !compared.has(place)) kept.add(place);
    return all.filter((place) => !kept.has(place));
  });
  return { places: gone, empty };
}

const RATE = sql<
  number | null
>`(select r.rate from task_rates r where r.task_id = substr(picked.task, 3) and picked.task like 't/%')`;

const bandText = ({ least, most }: PassRate): string => `pass rate of the task from ${least} to ${most}`;

const outside = ({ least, most }: PassRate): RawBuilder<SqlBool> =>
  sql<SqlBool>`${RATE} not between ${sql.lit(least)} and ${sql.lit(most)}`;

/** The rows whose task has no known outcome, and the tasks; an episode without a task stands for one. */
async function countUnrated(tx: Session): Promise<{ readonly rows: number; readonly tasks: number }> {
  const [counted] = await rowsOf(
    tx,
    tables
      .selectFrom('picked')
      .select([
        sql<number>`count(distinct place)::float8`.as('rows'),
        sql<number>`count(distinct task)::float8`.as('tasks'),
      ])
      .where(sql<SqlBool>`${RATE} is null`),
  );
  return counted!;
}

/** How many rows were taken, and the first three by id, with the reason where it differs from row to row. */
type RemovedRows = { readonly rows: number; readonly ids: readonly string[] };

async function remove(tx: Session, which: RawBuilder<SqlBool>): Promise<RemovedRows> {
  const [gone] = await rowsOf(
    tx,
    tables
      .with('gone', (q) => q.deleteFrom('picked').where(which).returning('id'))
      .selectFrom('gone')
      .select([
        sql<number>`count(distinct id)::float8`.as('rows'),
        sql<string[] | null>`(array_agg(distinct id order by id))[1:3]`.as('ids'),
      ]),
  );
  return { rows: gone!.rows, ids: gone!.ids ?? [] };
}

const atPlaces = (places: readonly number[]): RawBuilder<SqlBool> =>
  sql<SqlBool>`picked.place = any(${typed(places, 'bigint[]')})`;

/** Takes rows by their places; `why` is asked for the reasons of the examples. */
async function removePlaces(
  tx: Session,
  places: readonly number[],
  why: (place: number) => string | Promise<string>,
): Promise<RemovedRows> {
  const first = await rowsOf(
    tx,
    tables
      .selectFrom('picked')
      .select(['id', sql<number>`place::float8`.as('place')])
      .distinct()
      .where(atPlaces(places))
      .orderBy('id')
      .limit(3),
  );
  const ids: string[] = [];
  for (const { id, place } of first) ids.push(`${id} (${await why(place as number)})`);
  return { rows: (await remove(tx, atPlaces(places))).rows, ids };
}

async function removeNear(tx: Session, dropped: ReadonlyMap<number, number>): Promise<RemovedRows> {
  const idOf = async (place: number) => {
    const [row] = await rowsOf(
      tx,
      tables
        .selectFrom('picked')
        .select('id')
        .where(atPlaces([place]))
        .limit(1),
    );
    return String(row!.id);
  };
  return removePlaces(tx, [...dropped.keys()], async (place) => `like ${await idOf(dropped.get(place)!)}`);
}

async function removeContaminated(tx: Session, benchmarks: Benchmarks): Promise<RemovedRows> {
  const found = await contaminatedRows(tx, benchmarks);
  return removePlaces(tx, [...found.keys()], (place) => found.get(place)!);
}

const countRows = async (tx: Session): Promise<number> => {
  const [counted] = await rowsOf(
    tx,
    tables.selectFrom('picked').select(sql<number>`count(distinct place)::float8`.as('rows')),
  );
  return counted!.rows;
};

/** The episodes of the rows that are left. */
async function chosenAmong(tx: Session): Promise<ChosenColumns> {
  const [found] = await rowsOf(
    tx,
    tables.selectFrom('picked').select(sql<string[] | null>`array_agg(distinct episode_id)`.as('ids')),
  );
  return { ...chosenOf(found!.ids ?? [], null), all: true, picked: true };
}
