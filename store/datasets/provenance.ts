/** Where the rows of a dataset come from, as far as it was recorded, and what is not in them. */
import { MARK } from '../../ingest/redact-rules.ts';
import type { Session } from '../db/pool.ts';
import { anyOf, rowsOf, sql } from '../db/query.ts';
import { type Chosen, episodeCondition, type MethodsUsed, type Rows, tables, takenRows } from './query.ts';
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
function chosenEpisodes(recipe: Recipe, { ids, all }: Chosen): Rows {
  const episodes = tables
    .selectFrom('facts.episodes as e')
    .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id') as unknown as Rows;
  if (ids !== null) return episodes.where('e.episode_id', '=', anyOf(ids));
  return all ? episodes : episodes.where(episodeCondition(recipe).sql);
}

/** Over the episodes that rows were chosen from. */
export async function readOrigins(tx: Session, recipe: Recipe, chosen: Chosen): Promise<Provenance['origins']> {
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
export async function readModels(
  tx: Session,
  recipe: Recipe,
  used: MethodsUsed,
  chosen: Chosen,
): Promise<NonNullable<Provenance['models']>> {
  const model = sql<string | null>`coalesce('checkpoint ' || c.checkpoint_id, c.response_model, c.model)`;
  return rowsOf(
    tx,
    takenRows({ ...recipe, columns: [] }, used, chosen)
      .select([model.as('model'), sql<number>`count(*)::float8`.as('answers')])
      .groupBy(model)
      .orderBy(sql`count(*) desc`)
      .orderBy(sql`coalesce('checkpoint ' || c.checkpoint_id, c.response_model, c.model) collate "C"`),
  );
}

export async function readErased(tx: Session, recipe: Recipe, chosen: Chosen): Promise<Provenance['erased']> {
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
