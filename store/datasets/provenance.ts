/** Where the rows of a dataset come from, as far as it was recorded, and what is not in them. */
import { MARK } from '../../ingest/events/redact-rules.ts';
import type { Session } from '../db/pool.ts';
import { anyOf, rowsOf, sql } from '../db/query.ts';
import { fieldSql } from '../filter/filter-fields.ts';
import { type ChosenColumns, episodeCondition, type Rows, tables, takenRows, type UsedMethods } from './query.ts';
import type { Recipe } from './recipe.ts';

export type Provenance = {
  /** What tasks and episodes say of their origin and licence (`origin` of a task, the tag `license` or `licence` of either); null where they say nothing. */
  readonly origins: readonly {
    readonly origin: string | null;
    readonly license: string | null;
    readonly episodes: number;
  }[];
  /** What generated the rows, by the answers that each gave: the weights of a policy, else the model that answered or was asked; null where neither is known. */
  readonly models?: readonly { readonly model: string | null; readonly answers: number }[];
  /** What recorded the rows, by answers: the source of their events, `/import/FORMAT` of what was imported. */
  readonly sources?: readonly { readonly source: string | null; readonly answers: number }[];
  /** How many answers are from episodes that failed, and how many from tasks whose split is test. */
  readonly failed?: number;
  readonly test?: number;
  /** Marks in the rows where a secret was redacted, by the rule that found it. */
  readonly redacted: Readonly<Record<string, number>>;
  /** Erasures in the project up to then, what they took the text of, and how many of the episodes that rows were chosen from that were. */
  readonly erased: {
    readonly erasures: number;
    readonly episodes: number;
    readonly events: number;
    /** Not in datasets of older versions. */
    readonly chosen?: number;
  };
};

/** The episodes `e` that rows were chosen from, with their tasks `t`. */
function chosenEpisodes(recipe: Recipe, { ids, all }: ChosenColumns): Rows {
  const episodes = tables
    .selectFrom('facts.episodes as e')
    .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id') as unknown as Rows;
  if (ids !== null) return episodes.where('e.episode_id', '=', anyOf(ids));
  return all ? episodes : episodes.where(episodeCondition(recipe).sql);
}

/** Over the episodes that rows were chosen from. */
export async function readOrigins(tx: Session, recipe: Recipe, chosen: ChosenColumns): Promise<Provenance['origins']> {
  const license = sql<string | null>`coalesce(${sql.join(
    ['t.tags', 'e.tags'].flatMap((tags) => ['license', 'licence'].map((key) => sql`${sql.raw(tags)} ->> ${key}`)),
  )})`;
  const found = await rowsOf(
    tx,
    chosenEpisodes(recipe, chosen)
      .select([
        sql<string | null>`t.origin`.as('origin'),
        license.as('license'),
        sql<number>`count(*)::float8`.as('episodes'),
      ])
      .groupBy(sql`1, 2`),
  );
  const key = ({ origin, license: of }: (typeof found)[number]) => JSON.stringify([origin ?? '\uffff', of ?? '\uffff']);
  return found.sort((a, b) => b.episodes - a.episodes || (key(a) < key(b) ? -1 : 1));
}

/** Over the answers that the recipe takes. */
export async function readAnswers(
  tx: Session,
  recipe: Recipe,
  used: UsedMethods,
  chosen: ChosenColumns,
): Promise<Required<Pick<Provenance, 'models' | 'sources' | 'failed' | 'test'>>> {
  const found = await rowsOf(
    tx,
    takenRows({ ...recipe, columns: [] }, used, chosen)
      .select([
        sql<string | null>`coalesce('checkpoint ' || c.checkpoint_id, c.response_model, c.model)`.as('model'),
        sql.raw<string | null>(fieldSql('source')).as('source'),
        sql<boolean>`coalesce(e.outcome in ('failure', 'error', 'timeout', 'aborted'), false)`.as('failed'),
        sql<boolean>`coalesce((select lower(o.split) = 'test' from facts.tasks o where o.task_id = e.task_id), false)`.as(
          'test',
        ),
        sql<number>`count(*)::float8`.as('answers'),
      ])
      .groupBy(sql`1, 2, 3, 4`),
  );
  const sum = (rows: typeof found): number => rows.reduce((total, { answers }) => total + answers, 0);
  const by = (value: (row: (typeof found)[number]) => string | null): readonly (readonly [string | null, number])[] =>
    [...new Set(found.map(value))]
      .map((one) => [one, sum(found.filter((row) => value(row) === one))] as const)
      .sort(([a, most], [b, more]) => more - most || ((a ?? '\uffff') < (b ?? '\uffff') ? -1 : 1));
  return {
    models: by(({ model }) => model).map(([model, answers]) => ({ model, answers })),
    sources: by(({ source }) => source).map(([source, answers]) => ({ source, answers })),
    failed: sum(found.filter(({ failed }) => failed)),
    test: sum(found.filter(({ test }) => test)),
  };
}

/** How many of a list are named; of the others only how many there are. */
export const MOST_NAMED = 20;

/** A sentence for each way in which the rows are not of one kind, or not of the kind that most want to train on. */
export function mixture({ models = [], sources = [], failed = 0, test = 0 }: Provenance): readonly string[] {
  const all = models.reduce((sum, { answers }) => sum + answers, 0);
  const several = (what: string, counted: readonly (readonly [string | null, number])[]): readonly string[] => {
    if (counted.length < 2) return [];
    const named = counted.slice(0, MOST_NAMED).map(([one, answers]) => `${one ?? 'unknown'} (${answers})`);
    const others = counted.length > MOST_NAMED ? [`${counted.length - MOST_NAMED} others`] : [];
    return [`Answers come from ${counted.length} ${what}: ${[...named, ...others].join(', ')}.`];
  };
  return [
    ...several(
      'models',
      models.map(({ model, answers }) => [model, answers]),
    ),
    ...several(
      'sources',
      sources.map(({ source, answers }) => [source, answers]),
    ),
    ...(failed > 0 ? [`${failed} of ${all} answers are from episodes that failed.`] : []),
    ...(test > 0 ? [`${test} of ${all} answers are from tasks whose split is test.`] : []),
  ];
}

export async function readErased(tx: Session, recipe: Recipe, chosen: ChosenColumns): Promise<Provenance['erased']> {
  const [found] = await rowsOf(
    tx,
    tables
      .selectFrom('troupe.erasures')
      .select([
        sql<number>`count(*)::float8`.as('erasures'),
        sql<number>`coalesce(sum(episodes), 0)::float8`.as('episodes'),
        sql<number>`coalesce(sum(events), 0)::float8`.as('events'),
      ]),
  );
  const erased = sql<boolean>`exists (select from troupe.erased x where x.key = 'e/' || e.episode_id)`;
  const [among] = await rowsOf(
    tx,
    chosenEpisodes(recipe, chosen).where(erased).select(sql<number>`count(*)::float8`.as('chosen')),
  );
  return { ...found!, chosen: among!.chosen };
}

const BEGINNING = Buffer.from('[redacted:');

/** Counts the marks in rows, by rule. */
export function markCounter(before: Provenance['redacted'] = {}) {
  const counts = new Map(Object.entries(before));
  return {
    add(row: Buffer): void {
      if (!row.includes(BEGINNING)) return;
      for (const [mark] of row.toString('utf8').matchAll(MARK)) {
        const rule = mark.slice(BEGINNING.length, -1);
        counts.set(rule, (counts.get(rule) ?? 0) + 1);
      }
    },
    counts: (): Provenance['redacted'] => Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}
