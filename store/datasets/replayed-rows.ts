/** Rows of frozen datasets are added to the rows that a recipe finds. Their lineage names the dataset. */
import { TroupeError } from '../../errors.ts';
import { escapeText } from '../../ingest/events/text.ts';
import type { Session } from '../db/pool.ts';
import { type RawBuilder, rowsOf, type SqlBool, sql, typed } from '../db/query.ts';
import { isWhole } from './columns.ts';
import { lineageLines } from './lineage-lines.ts';
import type { FunnelStage } from './manifest.ts';
import { ROW_ID, splitCondition, tables } from './query.ts';
import { findDataset, openDataset } from './read.ts';
import type { Recipe } from './recipe.ts';
import { type Replay, sumOf } from './replay.ts';

/**
 * Adds rows to the table `picked`: of each dataset so many rows of its train part that they are the share asked for of all rows in the
 * train part here. No row is taken twice, and none whose task is in another part here.
 * @param folder that of the datasets
 * @param own rows in `picked`
 * @throws TroupeError `not_found`, `dataset_damaged`, and `recipe_invalid` for a dataset of other rows
 */
export async function addReplayed(
  tx: Session,
  recipe: Recipe,
  { folder, own, of }: { readonly folder: string; readonly own: number; readonly of: FunnelStage['of'] },
): Promise<{
  readonly stages: readonly FunnelStage[];
  readonly warnings: readonly string[];
  /** The datasets by id. */
  readonly pinned: readonly Replay[];
}> {
  const asked = recipe.replay!;
  const train = await countTrain(tx, recipe);
  const stages: FunnelStage[] = [];
  const warnings: string[] = [];
  const pinned: Replay[] = [];
  let before = own;
  for (const replay of asked) {
    const { manifest, directory } = await openDataset(await findDataset(folder, replay.dataset));
    const { dataset_id, name, recipe: theirs } = manifest;
    if (theirs.unit === 'pair' || theirs.unit === 'branch' || isWhole(theirs.unit) !== isWhole(recipe.unit)) {
      throw new TroupeError(
        'recipe_invalid',
        `replay names ${name}, whose rows are of unit ${theirs.unit}; those of this recipe are of unit ${recipe.unit}.`,
        { field: 'replay', expected: `a dataset of unit ${recipe.unit}`, got: theirs.unit },
      );
    }
    await readKeys(tx, directory, manifest);
    const wanted = Math.round((train * replay.share) / (1 - sumOf(asked)));
    const { added, fitting } = await choose(tx, recipe, replay, dataset_id, wanted);
    if (added < wanted) {
      warnings.push(
        `replay of ${name} adds ${added} rows, not ${wanted}: of its ${manifest.rows.train ?? 0} rows in train ${fitting} are recorded, not there already, and of a task that is in train here.`,
      );
    }
    const share = `${Number((replay.share * 100).toPrecision(4))} %`;
    stages.push({
      name: `replay of ${name} (${dataset_id}), ${share} of train`,
      of,
      before,
      after: before + added,
      dropped: [],
    });
    before += added;
    pinned.push({ ...replay, dataset: dataset_id });
  }
  return { stages, warnings, pinned };
}

const inTrain = ({ split }: Recipe): RawBuilder<SqlBool> =>
  split === null ? sql<SqlBool>`true` : splitCondition(split, 'train');

async function countTrain(tx: Session, recipe: Recipe): Promise<number> {
  const [counted] = await rowsOf(
    tx,
    tables
      .selectFrom('picked as p')
      .innerJoin('facts.episodes as e', 'e.episode_id', 'p.episode_id')
      .select(sql<number>`count(distinct p.place)::float8`.as('rows'))
      .where(inTrain(recipe)),
  );
  return counted!.rows;
}

const AT_ONCE = 10_000;

/** The ids of the dataset's rows in train, as the table `replay_keys`. */
async function readKeys(tx: Session, directory: string, manifest: Parameters<typeof lineageLines>[1]): Promise<void> {
  await tx.query(`drop table if exists replay_keys;
    create temp table replay_keys (episode_id text, call_id text, candidate integer) on commit drop`);
  let episodes: string[] = [];
  let calls: (string | null)[] = [];
  let candidates: (number | null)[] = [];
  const write = async () => {
    const keys = sql`unnest(${typed(episodes, 'text[]')}, ${typed(calls, 'text[]')}, ${typed(candidates, 'integer[]')})`;
    const all = tables.selectFrom(keys.as('k')).selectAll();
    await rowsOf(tx, tables.insertInto('replay_keys').columns(['episode_id', 'call_id', 'candidate']).expression(all));
    [episodes, calls, candidates] = [[], [], []];
  };
  for await (const { split, episode_id, call_id, candidate } of lineageLines(directory, manifest)) {
    if (split !== 'train') continue;
    episodes.push(episode_id);
    calls.push(call_id);
    candidates.push(candidate);
    if (episodes.length === AT_ONCE) await write();
  }
  if (episodes.length > 0) await write();
  await tx.query('analyze replay_keys');
}

/** The rows that can be taken, in the order of chance; those of whole episodes have all its steps. */
async function choose(
  tx: Session,
  recipe: Recipe,
  { seed }: Replay,
  datasetId: string,
  wanted: number,
): Promise<{ readonly added: number; readonly fitting: number }> {
  const whole = isWhole(recipe.unit);
  const steps = tables
    .selectFrom('facts.steps as s')
    .innerJoin('facts.calls as c', (join) =>
      join.onRef('c.episode_id', '=', 's.episode_id').onRef('c.call_id', '=', 's.call_id'),
    )
    .innerJoin('facts.episodes as e', 'e.episode_id', 's.episode_id')
    .where(sql<SqlBool>`c.copied is not true`)
    .where(inTrain(recipe));
  const known = whole
    ? steps
        .where(sql<SqlBool>`e.episode_id in (select k.episode_id from replay_keys k)`)
        .where(sql<SqlBool>`not exists (select 1 from picked p where p.episode_id = e.episode_id)`)
    : steps
        .innerJoin('replay_keys as k', (join) =>
          join
            .onRef('k.episode_id', '=', 's.episode_id')
            .onRef('k.call_id', '=', 's.call_id')
            .onRef('k.candidate', '=', 's.candidate'),
        )
        .where(
          sql<SqlBool>`not exists (select 1 from picked p where p.episode_id = s.episode_id and p.call_id = s.call_id and p.candidate = s.candidate)`,
        );
  const id = sql.raw<string>(whole ? 'e.episode_id' : ROW_ID);
  const chance = sql`md5(${sql.lit(escapeText(`${seed}/`))} || ${id}), ${id}`;
  const numbered = known.select([
    's.episode_id',
    's.call_id',
    's.candidate',
    id.as('id'),
    sql<number>`dense_rank() over (order by ${chance})`.as('number'),
  ]);
  const first = sql`(select coalesce(max(place), 0) from picked)`;
  const taken = tables
    .selectFrom('found')
    .select(['episode_id', 'call_id', 'candidate', 'id', sql`${first} + number`.as('place')])
    .select(sql.lit(datasetId).as('replay'))
    .where('number', '<=', wanted);
  const [counted] = await rowsOf(
    tx,
    tables
      .with('found', () => numbered)
      .with('added', (q) =>
        q
          .insertInto('picked')
          .columns(['episode_id', 'call_id', 'candidate', 'id', 'place', 'replay'])
          .expression(taken),
      )
      .selectFrom('found')
      .select(sql<number>`coalesce(max(number), 0)::float8`.as('fitting')),
  );
  const { fitting } = counted!;
  return { added: Math.min(fitting, wanted), fitting };
}
