/** Keys made anew from all their events: those with amendments, those that changed in the log, and those that left it. */

import { isKnown } from '../../ingest/events/upcast/catalogue.ts';
import type { Session } from '../db/pool.ts';
import {
  anyOf,
  countOf,
  facts,
  type NotNull,
  prepare,
  query,
  rowsOf as readRows,
  rowsOfPrepared,
} from '../db/query.ts';
import { rowsOf, TABLES, TARGETS } from '../tables/catalogue.ts';
import { effective } from '../tables/effective.ts';
import type { Rows } from '../tables/projection.ts';
import { amended, type LoggedEvent } from './amend.ts';
import {
  episodesWithForeign,
  judgedGroups,
  noteForeign,
  taskDigests,
  tasksOf,
  updateDerived,
} from './derived-state.ts';
import type { LogEvent } from './read-batch.ts';
import { RowBuffer } from './row-buffer.ts';
import { type BatchOfKey, withDerived } from './traces.ts';
import { remove, upsert } from './write-rows.ts';

const EVENTS_OF_KEY = prepare<{ key: string }>('events_of_key')((value) =>
  query
    .selectFrom('troupe.events')
    .select(['key', 'source', 'id', 'name', 'type_version', 'time', 'data', 'log', 'partition', 'position'])
    .where('key', '=', value('key'))
    .orderBy('log')
    .orderBy('partition')
    .orderBy('position'),
);

/**
 * Rebuilds a key with amendments from all its events: the rows of the amended events are removed first. Returns the events derived
 * from its spans; null where it has none.
 */
export async function reproject(
  tx: Session,
  key: string,
  foreign: Set<string>,
  batch: BatchOfKey | null,
): Promise<readonly LoggedEvent[] | null> {
  const stored = (await rowsOfPrepared(tx, EVENTS_OF_KEY, { key })) as LogEvent[];
  const { events, retracted, derived } = withDerived(
    stored,
    batch && { ...batch, events: batch.events.filter((event) => event.key === key) },
  );
  const amendments = events.filter((event) => event.name === 'record.amended');
  const before = new RowBuffer();
  const after = new RowBuffer();
  const add = (buffer: RowBuffer, event: LoggedEvent): Rows => {
    noteForeign(foreign, event);
    const rows = rowsOf(effective(event));
    buffer.add(rows);
    return rows;
  };
  // A task derived from spans is not this key's: other traces may define it too, and `keepTasks` combines them.
  const own = (event: LoggedEvent): boolean => event.key === key && isKnown(event);
  for (const event of retracted.filter(own)) add(before, event);
  for (const event of events) {
    if (!own(event)) continue;
    add(before, event);
    const now = amended(event, amendments);
    // Every prefix of the amendments may have been shown once; its rows must go as well.
    for (let n = 1; n < amendments.length; n++) {
      const then = amended(event, amendments.slice(0, n));
      if (then) add(before, then);
    }
    if (now) {
      add(before, now);
      add(after, now);
    }
  }
  for (const target of [...TARGETS].reverse()) await remove(tx, target, before.rowsFor(target));
  for (const target of TARGETS) await upsert(tx, target, after.rowsFor(target));
  return derived?.flatMap((event) => (own(event) ? [event] : (amended(event, amendments) ?? []))) ?? null;
}

/** Episodes of these keys with the revision of their rows. */
export async function revisionsOf(tx: Session, keys: ReadonlySet<string>): Promise<(readonly [string, number])[]> {
  const ids = episodesOf(keys);
  if (ids.length === 0) return [];
  const episodes = facts.selectFrom('episodes').where('episode_id', '=', anyOf(ids));
  const rows = await readRows(tx, episodes.select(['episode_id', 'revision']));
  return rows.map((row) => [row.episode_id, row.revision ?? 0] as const);
}

/** Tables about an episode by its id, and those by its key. What traces say of tasks `keepTasks` takes away. */
const tablesBy = <Name extends string>(key: string): Name[] =>
  TABLES.flatMap(({ name, keys }) => (Object.keys(keys)[0] === key && name !== 'told_tasks' ? [name as Name] : []));
const BY_EPISODE = tablesBy<'calls'>('episode_id');
const BY_KEY = tablesBy<'feedback'>('key');

/**
 * Makes the rows of these keys anew from their events, whatever the tables held: judgements about them are gone. The transaction's
 * search_path names the schema.
 */
export async function reprojectKeys(tx: Session, keys: readonly string[]): Promise<void> {
  const all = new Set(keys);
  const touched = new Map((await revisionsOf(tx, all)).map(([id, revision]) => [id, revision + 1]));
  const foreign = new Set<string>(touched.keys());
  const groupsBefore = await judgedGroups(tx, [...touched.keys()]);
  const orphaned = await episodesWithForeign(tx, all);
  const tasks = tasksOf(keys);
  const digestsBefore = await taskDigests(tx, tasks);
  await takeRows(tx, keys);
  const derived = new Map<string, readonly LoggedEvent[]>();
  for (const key of keys) {
    const now = await reproject(tx, key, foreign, null);
    if (now) derived.set(key, now);
  }
  await updateDerived(tx, { derived, touched, groupsBefore, tasks, digestsBefore, foreign, orphaned });
}

/**
 * Takes away the rows of keys whose events have left the log, as if they had never been: facts and judgements. Feedback that another
 * key gave to their episodes must be among the keys, and their groups must be whole. The transaction's search_path names the schema.
 */
export async function forgetKeys(tx: Session, keys: readonly string[], groups: readonly string[]): Promise<void> {
  const episodes = episodesOf(keys);
  const responses = await readRows(
    tx,
    facts
      .selectFrom('calls')
      .select('response_id as id')
      .distinct()
      .where('episode_id', '=', anyOf(episodes))
      .where('response_id', 'is not', null)
      .$narrowType<{ id: NotNull }>(),
  );
  const fromTraces = await readRows(
    tx,
    facts.selectFrom('told_tasks').select('task_id as id').distinct().where('episode_id', '=', anyOf(episodes)),
  );
  const tasks = fromTraces.map((row) => row.id);
  const digestsBefore = await taskDigests(tx, tasks);
  await takeRows(tx, keys);
  await countOf(tx, facts.deleteFrom('scores').where('key', '=', anyOf(groups.map((group) => `g/${group}`))));
  await updateDerived(tx, {
    derived: new Map(episodes.map((id) => [`e/${id}`, []])),
    touched: new Map(),
    groupsBefore: new Map(),
    tasks,
    digestsBefore,
    foreign: new Set([...episodes, ...responses.map((row) => row.id)]),
    orphaned: [],
  });
}

/** Ids of the episodes among these keys. */
export const episodesOf = (keys: Iterable<string>): string[] =>
  [...keys].filter((key) => key.startsWith('e/')).map((key) => key.slice(2));

async function takeRows(tx: Session, keys: readonly string[]): Promise<void> {
  for (const table of BY_EPISODE) {
    await countOf(tx, facts.deleteFrom(table).where('episode_id', '=', anyOf(episodesOf(keys))));
  }
  for (const table of BY_KEY) await countOf(tx, facts.deleteFrom(table).where('key', '=', anyOf(keys)));
}
