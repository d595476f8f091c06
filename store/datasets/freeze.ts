/**
 * Freezing: a recipe becomes an immutable directory. One repeatable-read transaction reads the positions, the methods, the funnel and
 * the rows, so all of them are of one moment; nothing of the clock or of arrival gets into the files.
 */
import { stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { canonicalJson } from '../../ingest/events/json.ts';
import type { EventLog } from '../../ingest/log/log.ts';
import { appendOwn } from '../../ingest/log/own-event.ts';
import type { Db, Session } from '../db/pool.ts';
import { query, rowsOf, sql } from '../db/query.ts';
import { pinMethods, unknownValues } from '../filter/filter-check.ts';
import { comparisonsOf, type Filter } from '../filter/select.ts';
import { announcements } from './announced.ts';
import { readArrowFile, streamsIn } from './arrow.ts';
import { type AsOf, labelled, unchangedSince } from './as-of.ts';
import { frozenCard } from './card.ts';
import { chooseMethod, judgedMethods } from './chosen-methods.ts';
import { isWhole, type Unit } from './columns.ts';
import { jsonLines } from './jsonl.ts';
import { datasetId, type FunnelStage, type Manifest, manifestText, type Positions, whyEmpty } from './manifest.ts';
import { momentOf } from './moment.ts';
import { pairCountQuery, worthQuery } from './pair-query.ts';
import { parquetOf } from './parquet.ts';
import { isThinned, type PickedRows, pickRows } from './picked.ts';
import { mixture, type Provenance, readAnswers, readErased, readOrigins } from './provenance.ts';
import {
  draftAt,
  draftPath,
  type FileFacts,
  type FileSink,
  type LocalDraft,
  sweepDrafts,
  writeError,
} from './publish.ts';
import {
  type ChosenColumns,
  chosenOf,
  columnsOf,
  droppedQuery,
  episodeCondition,
  episodesQuery,
  funnelQuery,
  LISTED_SETTINGS,
  sharesOf,
  stagesOf,
  type UsedMethods,
  WHOLE_SETTINGS,
} from './query.ts';
import { openDataset } from './read.ts';
import { type Pairs, parseRecipe, type Recipe, recipeText } from './recipe.ts';
import { type OpenFile, type RowFiles, reopenRows, writeRows } from './row-files.ts';
import { type Cap, capText } from './thinning.ts';
import {
  forgetUnfinished,
  keepUnfinished,
  leaveUnfinished,
  type ResumedFreeze,
  takeUp,
  type WrittenFile,
  whyAnew,
} from './unfinished.ts';
import { type Weight, weightFilters, weightText } from './weights.ts';

export type FreezeOptions = {
  /** Folder that holds all datasets; the new one becomes `<directory>/<dataset_id>`. */
  readonly directory: string;
  readonly codeVersion: string;
  /** Where the dataset is announced (artifact.attached); without it the caller does so with `announcements`. */
  readonly log?: EventLog;
  /** The positions for the manifest, where the caller knows better than `troupe.positions`. */
  readonly positions?: Positions;
  /** Only episodes that were recorded whole by then, and its positions in the manifest. */
  readonly asOf?: AsOf;
  /** Folder of the files that recipes decontaminate against; without it such a recipe is refused. */
  readonly benchmarks?: string;
  /** Folder of the datasets that recipes replay, where it is not `directory`. */
  readonly datasets?: string;
  /** Time of the announcement, RFC 3339; now, if left out. It is in the event only, never in the files. */
  readonly at?: string;
  /** Without it a recipe that finds no row is refused. */
  readonly allowEmpty?: boolean;
};

export type FreezeResult = {
  readonly manifest: Manifest;
  /** The dataset's own folder, absolute. */
  readonly directory: string;
  /** False where this recipe with these rows had been frozen before; the manifest is then the earlier one. */
  readonly fresh: boolean;
  /** A sentence for each role, tag or value that the recipe names and nothing has, and for each way in which the rows are mixed. */
  readonly warnings: readonly string[];
};

/**
 * Freezes the rows of `recipe` (written or canonical).
 * @throws TroupeError `recipe_invalid`; `dataset_empty` where no row is found; `not_found` where a named method has judged nothing; `dataset_damaged` where the same
 * dataset is there but not as it was written; `home_unwritable` where the folder or disk refuses.
 */
export async function freeze(db: Db, recipe: unknown, options: FreezeOptions): Promise<FreezeResult> {
  const canonical = parseRecipe(recipe);
  const parent = resolve(options.directory);
  await sweepDrafts(parent);
  const asked = canonicalJson([canonical, options.asOf ?? null]);
  const left = await takeUp(parent, asked);
  const draft = left?.draft ?? (await draftAt(draftPath(parent)));
  const drafts = { draft };
  let frozen: FreezeResult;
  try {
    const read = await db.transaction((tx) => readInto(drafts, tx, { recipe: canonical, asked, left }, options), {
      isolation: 'repeatable read',
      readOnly: !isThinned(canonical),
    });
    if (!options.allowEmpty) refuseEmpty(read);
    frozen = await publish(drafts.draft, parent, read);
  } catch (error) {
    const isLost = error instanceof TroupeError && error.code === 'unreachable';
    if (!isLost || !(await leaveUnfinished(drafts.draft))) await drafts.draft.discard();
    throw writeError(error, 'The dataset', parent);
  }
  if (options.log) await announce(options.log, frozen, options.at ?? new Date().toISOString());
  return frozen;
}

function refuseEmpty({ manifest, warnings }: DraftFiles): void {
  if (Object.values(manifest.rows).some((rows) => rows > 0)) return;
  const why = whyEmpty(manifest.funnel);
  throw new TroupeError('dataset_empty', [`${manifest.name} would have no row: ${why}.`, ...warnings].join(' '), {
    field: 'recipe',
    expected: 'a recipe that finds a row',
    got: 'no row',
    hint: 'Change the recipe, or allow a dataset without rows: --allow-empty, in the spec of a job allow_empty.',
  });
}

type DraftFiles = {
  readonly warnings: readonly string[];
  readonly manifest: Manifest;
  /** The files of rows, flushed. */
  readonly files: () => Promise<readonly FileFacts[]>;
};

/** Sorting wide rows in memory; compiling the query would cost more than it saves for all but the largest datasets. */
const SETTINGS = "set local jit = off; set local work_mem = '64MB'; set local enable_presorted_aggregate = off";

/** @param drafts gets another draft where what was left cannot be gone on with */
async function readInto(
  drafts: { draft: LocalDraft },
  tx: Session,
  of: { readonly recipe: Recipe; readonly asked: string; readonly left: ResumedFreeze | null },
  options: FreezeOptions,
): Promise<DraftFiles> {
  await tx.query(SETTINGS);
  const { asOf } = options;
  const { recipe: written, asked, left } = of;
  const { where, pass_rate: rate, weight, caps } = written;
  const recipe: Recipe = {
    ...written,
    where: where && (await pinMethods(tx, where)),
    ...(rate ? { pass_rate: { ...rate, of: await pinMethods(tx, rate.of) } } : {}),
    ...(weight ? { weight: await pinWeight(tx, weight) } : {}),
    ...(caps ? { caps: await Promise.all(caps.map((cap) => pinCap(tx, cap))) } : {}),
  };
  const warnings = await unknownValues(tx, namedIn(written));
  const methods = await methodsOf(tx, recipe);
  const { chosen: found, stages } = await chooseEpisodes(tx, recipe, asOf);
  await tx.query(found.ids === null ? WHOLE_SETTINGS : LISTED_SETTINGS);
  const conditions = [...stages, ...(await countStages(tx, { recipe, methods, chosen: found }))];
  const picked: PickedRows = isThinned(recipe)
    ? await pickRows(tx, recipe, methods, found, {
        benchmarks: options.benchmarks ?? null,
        datasets: options.datasets ?? options.directory,
      })
    : { chosen: found, stages: [], warnings: [], pinned: {} };
  const { chosen } = picked;
  const pinned: Recipe = { ...written, ...picked.pinned };
  if (chosen.ids !== null) await tx.query(LISTED_SETTINGS);
  const { codeVersion } = options;
  const frame = { asked, pinned: recipeText(pinned), codeVersion };
  const moment = await momentOf(tx, conditions.at(-1)!.after);
  const [begun, stopped] = await goneOn(drafts, left, { ...frame, moment }, recipe.unit);
  const now = options.positions ?? (await (asOf ? labelled(tx, asOf) : readPositions(tx)));
  const positions = begun ? left!.state.positions : now;
  const keep = async (so: WrittenFile): Promise<void> => {
    if (moment !== null)
      await keepUnfinished(drafts.draft, { ...frame, moment, name: recipe.name, positions, written: so });
  };
  const taken: Selection = { recipe, methods, chosen };
  const files = await writeRows(tx, drafts.draft, taken, begun, keep);
  const count = Object.values(files.rows).reduce((sum, rows) => sum + rows, 0);
  const funnel = [
    ...conditions,
    ...picked.stages,
    ...(count === 0 ? await worthStage(tx, taken) : []),
    ...(await pairStages(tx, taken, count)),
  ];
  const provenance: Provenance = {
    origins: await readOrigins(tx, recipe, chosen),
    ...(await readAnswers(tx, recipe, methods, chosen)),
    redacted: files.redacted,
    erased: await readErased(tx, recipe, chosen),
  };
  const manifest: Manifest = {
    format: 'troupe-dataset/2',
    dataset_id: datasetId(files.contentSha256, pinned),
    name: recipe.name,
    content_sha256: files.contentSha256,
    code_version: codeVersion,
    recipe: pinned,
    positions,
    methods,
    columns: columnsOf(recipe).map(({ name, kind }) => ({ name, kind })),
    rows: files.rows,
    provenance,
    funnel: [...funnel, ...limited(recipe, funnel, count), ...weightStage(written, files.weights(), count)],
    files: [],
  };
  return {
    manifest,
    files: files.finish,
    warnings: [
      ...[...warnings, ...picked.warnings, ...stopped, ...emptyParts(recipe, files.rows)],
      ...mixture(provenance),
    ],
  };
}

/** The files to go on with, and what there is to say about it. */
async function goneOn(
  drafts: { draft: LocalDraft },
  left: ResumedFreeze | null,
  now: Parameters<typeof whyAnew>[1],
  unit: Unit,
): Promise<readonly [OpenFile | null, readonly string[]]> {
  if (left === null) return [null, []];
  const rows = left.state.written.splits.reduce((sum, split) => sum + split.rows, 0);
  const stopped = `A freeze of this recipe that was stopped had written ${rows} rows`;
  let why = whyAnew(left.state, now);
  const begun = why === null ? await reopenRows(left.draft, left.state.written, unit) : null;
  if (begun) return [begun, [`${stopped}, and nothing that they come from has changed since: it was gone on with.`]];
  why ??= 'its files are not as they were written';
  await left.draft.discard();
  drafts.draft = await draftAt(draftPath(dirname(left.draft.path)));
  return [null, [`${stopped}. This one began anew: ${why}.`]];
}

/** A sentence for each part that gets a share of the tasks and has no row, where another part has some. */
function emptyParts({ split }: Recipe, rows: RowFiles['rows']): readonly string[] {
  if (split === null || Object.values(rows).every((count) => count === 0)) return [];
  const asked = sharesOf(split).filter(({ name, from, to }) => to > from && rows[name] === 0);
  return asked.map(
    ({ name, from, to }) =>
      `${name} has no row: no task falls into its share of ${Number((to - from).toPrecision(6))}. Each task is put into a part by a hash, so that it stays there when others come; few tasks need a larger share or another seed.`,
  );
}

/** The filters, and the roles as if a filter named them. */
const namedIn = ({ where, roles, pass_rate: rate, weight }: Recipe): Filter => ({
  and: [
    ...(where ? [where] : []),
    ...(rate ? [rate.of] : []),
    ...weightFilters(weight),
    ...(roles ? [{ field: 'role', op: 'in' as const, value: roles }] : []),
  ],
});

async function readPositions(tx: Pick<Session, 'query'>): Promise<Positions> {
  const rows = await rowsOf(
    tx,
    query
      .selectFrom('troupe.positions as p')
      .innerJoin('troupe.logs as l', 'l.log', 'p.log')
      .select(sql<string>`'facts/' || l.label`.as('log'))
      .select(['partition', 'position'])
      .where('projection', '=', 'facts')
      .orderBy(sql`l.name collate "C"`)
      .orderBy('generation')
      .orderBy('partition'),
  );
  const positions: Record<string, Record<string, number>> = {};
  for (const { log, partition, position } of rows) {
    positions[log] ??= {};
    positions[log][partition] = position;
  }
  return positions;
}

async function methodsOf(tx: Session, recipe: Recipe): Promise<UsedMethods> {
  if (recipe.verdicts.length === 0 && recipe.reward === null && recipe.credit === null)
    return { verdicts: [], reward: null, credit: null };
  const judged = await judgedMethods(tx);
  return {
    verdicts: recipe.verdicts.map((choice, i) => chooseMethod(judged, choice, `verdicts[${i}]`)),
    reward: recipe.reward && chooseMethod(judged, recipe.reward, 'reward'),
    credit: recipe.credit && chooseMethod(judged, recipe.credit, 'credit'),
  };
}

const EXAMPLES = 3;

async function chooseEpisodes(
  tx: Session,
  recipe: Recipe,
  asOf: AsOf | undefined,
): Promise<{ chosen: ChosenColumns; stages: readonly FunnelStage[] }> {
  const condition = episodeCondition(recipe);
  const [found] = await rowsOf(tx, episodesQuery(recipe));
  const { total } = found!;
  const ids = found!.ids ?? [];
  const dropped =
    total !== null && total > ids.length
      ? (await rowsOf(tx, droppedQuery(recipe, EXAMPLES))).map((row) => row.episode_id)
      : [];
  const stage: FunnelStage = {
    name: condition.readable === null ? 'all episodes' : `episodes where ${condition.readable}`,
    of: 'episodes',
    before: total,
    after: ids.length,
    dropped,
  };
  if (asOf === undefined) return { chosen: chosenOf(ids, total), stages: [stage] };
  const unchanged = await unchangedSince(tx, ids, asOf);
  return { chosen: { ids: unchanged.ids, all: false }, stages: [stage, unchanged.stage] };
}

/** What rows are read by. */
type Selection = { readonly recipe: Recipe; readonly methods: UsedMethods; readonly chosen: ChosenColumns };

async function countStages(tx: Session, { recipe, methods, chosen }: Selection): Promise<readonly FunnelStage[]> {
  const rows = await rowsOf(tx, funnelQuery(recipe, methods, chosen));
  const byStage = new Map(rows.map((row) => [row.stage, row]));
  let left = rows.reduce((sum, row) => sum + row.rows, 0);
  return stagesOf(recipe, methods).map(({ name }, i) => {
    const before = left;
    const dropped = byStage.get(i + 1);
    left -= dropped?.rows ?? 0;
    return { name, of: 'steps', before, after: left, dropped: dropped?.examples ?? [] };
  });
}

/** Where no pair was made: answers without a worth are in none. */
async function worthStage(tx: Session, { recipe, methods, chosen }: Selection): Promise<readonly FunnelStage[]> {
  if (recipe.pairs === undefined || recipe.pairs.from === 'corrections') return [];
  const [counted] = await rowsOf(tx, worthQuery(recipe, methods, chosen));
  return [{ name: 'an advantage or a reward is known', of: 'steps', ...counted!, dropped: [] }];
}

/** The pairs that the steps made, and what each cap left of them; they are counted by themselves only where rows are fewer. */
async function pairStages(
  tx: Session,
  { recipe, methods, chosen }: Selection,
  rows: number,
): Promise<readonly FunnelStage[]> {
  if (recipe.pairs === undefined) return [];
  if (recipe.caps === undefined && recipe.limit === null)
    return [{ name: pairsText(recipe.pairs), of: 'pairs', before: null, after: rows, dropped: [] }];
  const stages: FunnelStage[] = [];
  const caps = recipe.caps ?? [];
  let before: number | null = null;
  for (const [i, name] of [pairsText(recipe.pairs), ...caps.map(capText)].entries()) {
    const counted = pairCountQuery({ ...recipe, caps: caps.slice(0, i) }, methods, chosen);
    const [{ pairs: after }] = (await rowsOf(tx, counted)) as [{ pairs: number }];
    stages.push({ name, of: 'pairs', before, after, dropped: [] });
    before = after;
  }
  return stages;
}

/** The last line of the funnel, where a limit cut rows off. */
function limited(recipe: Recipe, funnel: readonly FunnelStage[], after: number): readonly FunnelStage[] {
  if (recipe.limit === null || isWhole(recipe.unit)) return [];
  const { of, after: before } = funnel.at(-1)!;
  return [{ name: `limit ${recipe.limit}${recipe.unit === 'group' ? ' groups' : ''}`, of, before, after, dropped: [] }];
}

/** How rows are weighed, which takes none. */
const weightStage = ({ weight, unit }: Recipe, range: string, rows: number): readonly FunnelStage[] =>
  weight === undefined
    ? []
    : [
        {
          name: `weight ${range}: ${weightText(weight)}`,
          of: rowsOfUnit(unit),
          before: rows,
          after: rows,
          dropped: [],
        },
      ];

const rowsOfUnit = (unit: Unit): FunnelStage['of'] =>
  unit === 'pair' ? 'pairs' : unit === 'branch' ? 'branches' : isWhole(unit) ? 'episodes' : 'steps';

async function pinCap(tx: Session, cap: Cap): Promise<Cap> {
  if (cap.by === undefined) return cap;
  const pinned = await pinMethods(tx, { field: cap.by, op: 'is null' });
  return { ...cap, by: comparisonsOf(pinned)[0]!.field };
}

async function pinWeight(tx: Session, weight: Weight): Promise<Weight> {
  if (weight === 'advantage') return weight;
  return Promise.all(
    weight.map(async (rule) => ({ ...rule, where: rule.where && (await pinMethods(tx, rule.where)) })),
  );
}

function pairsText({ from, margin, threshold }: Pairs): string {
  if (from === 'corrections') return 'a right step and the wrong one that it corrected';
  const where = from === 'group' ? 'of one group' : 'under one parent step';
  const which = threshold === null ? 'the best and the worst answer' : `each answer above ${threshold} and each other`;
  return `${which} to the same messages ${where}${margin > 0 ? `, ${margin} apart` : ''}`;
}

async function publish(
  draft: LocalDraft,
  parent: string,
  { manifest, warnings, files: written }: DraftFiles,
): Promise<FreezeResult> {
  const directory = join(parent, manifest.dataset_id);
  if (await isThere(directory)) return reuse(draft, directory, warnings);
  const files = [...(await written())];
  // What follows is made of these files alone.
  const more: FileSink[] = [];
  for (const [split, rows] of Object.entries(manifest.rows))
    more.push(...(await otherLayouts(draft, manifest.recipe, split, rows)));
  const card = await draft.file('README.md');
  await card.write(Buffer.from(frozenCard(manifest)));
  files.push(...(await Promise.all([...more, card].map((sink) => sink.finish()))));

  const complete: Manifest = { ...manifest, files: files.sort((a, b) => (a.name < b.name ? -1 : 1)) };
  const sink = await draft.file('manifest.json');
  await sink.write(Buffer.from(manifestText(complete)));
  await sink.finish();
  await forgetUnfinished(draft);
  if (!(await draft.publish(directory))) return reuse(draft, directory, warnings);
  return { manifest: complete, directory, fresh: true, warnings };
}

async function otherLayouts(
  draft: LocalDraft,
  recipe: Recipe,
  split: string,
  rows: number,
): Promise<readonly FileSink[]> {
  const columns = columnsOf(recipe);
  const sinks: FileSink[] = [];
  const arrow = join(draft.path, `${split}.arrow`);
  for (const layout of recipe.layout.filter((one) => one !== 'arrow')) {
    const sink = await draft.file(`${split}.${layout}`);
    const parts = layout === 'parquet' ? parquetOf(streamsIn(arrow)) : jsonLines(readArrowFile(arrow, rows, columns));
    for await (const part of parts) await sink.write(part);
    sinks.push(sink);
  }
  return sinks;
}

const isThere = async (path: string): Promise<boolean> => (await stat(path).catch(() => null)) !== null;

async function reuse(draft: LocalDraft, directory: string, warnings: readonly string[]): Promise<FreezeResult> {
  const { manifest } = await openDataset(directory);
  await forgetUnfinished(draft);
  await draft.discard();
  return { manifest, directory, fresh: false, warnings };
}

/** A dataset that the log knows already, at another time, is a conflict of times only: the first announcement stays. */
async function announce(log: EventLog, { directory, manifest }: FreezeResult, at: string): Promise<void> {
  for await (const draft of announcements(directory, manifest, { at, uri: directory })) await appendOwn(log, [draft]);
}
