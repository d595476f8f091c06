/** Keys made anew from all their events: those with amendments, those that changed in the log, and those that left it. */

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
import { rowsOf, TARGETS } from '../projections/catalogue.ts';
import { effective } from '../projections/effective.ts';
import type { Rows } from '../projections/projection.ts';
import { amended, type Stored } from './amend.ts';
import type { Positions, Read } from './read-news.ts';
import { RowBuffer } from './row-buffer.ts';
import { episodesWithForeign, noteForeign, settle, tasksOf, toldOf } from './settle.ts';
import { withTold } from './traces.ts';
import { remove, upsert } from './write-rows.ts';

const EVENTS_OF_KEY = prepare<{ key: string }>('events_of_key')((value) =>
  query
    .selectFrom('troupe.events')
    .select(['key', 'source', 'id', 'name', 'time', 'data', 'log', 'partition', 'position'])
    .where('key', '=', value('key'))
    .orderBy('log')
    .orderBy('partition')
    .orderBy('position'),
);

/**
 * A key with amendments is made anew from all its events: whatever the amended events said before is gone first. Answers with what its
 * spans tell now; null where it has none.
 */
export async function reproject(
  tx: Session,
  key: string,
  foreign: Set<string>,
  batch: readonly Read[] | null,
  applied: Positions | null = null,
): Promise<readonly Stored[] | null> {
  const stored = (await rowsOfPrepared(tx, EVENTS_OF_KEY, { key })) as Read[];
  const { events, unsaid, told } = withTold(stored, batch?.filter((event) => event.key === key) ?? null, applied);
  const amendments = events.filter((event) => event.name === 'record.amended');
  const before = new RowBuffer();
  const after = new RowBuffer();
  const add = (buffer: RowBuffer, event: Stored): Rows => {
    noteForeign(foreign, event);
    const rows = rowsOf(effective(event));
    buffer.add(rows);
    return rows;
  };
  // A task that spans tell is not this key's: others may have told it too, and `keepTasks` knows what they say together.
  const own = (event: Stored): boolean => event.key === key;
  for (const event of unsaid.filter(own)) add(before, event);
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
  return told?.flatMap((event) => (own(event) ? [event] : (amended(event, amendments) ?? []))) ?? null;
}

/** Episodes of these keys with the revision of their rows. */
export async function revisionsOf(tx: Session, keys: ReadonlySet<string>): Promise<(readonly [string, number])[]> {
  const ids = episodesOf(keys);
  if (ids.length === 0) return [];
  const episodes = facts.selectFrom('episodes').where('episode_id', '=', anyOf(ids));
  const rows = await readRows(tx, episodes.select(['episode_id', 'revision']));
  return rows.map((row) => [row.episode_id, row.revision ?? 0] as const);
}

/** Tables about an episode by its id, and those by its key. */
const BY_EPISODE = [
  'episodes',
  'agents',
  'calls',
  'steps',
  'messages',
  'tool_calls',
  'decisions',
  'observations',
  'verdicts',
  'rewards',
  'credits',
  'blames',
] as const;
const BY_KEY = ['feedback', 'artifacts', 'scores'] as const;

/**
 * Makes the rows of these keys anew from their events, whatever the tables held: judgements about them are gone. The transaction's
 * search_path names the schema.
 */
export async function reprojectKeys(tx: Session, keys: readonly string[]): Promise<void> {
  const all = new Set(keys);
  const touched = new Map((await revisionsOf(tx, all)).map(([id, revision]) => [id, revision + 1]));
  const foreign = new Set<string>(touched.keys());
  const orphaned = await episodesWithForeign(tx, all);
  const tasks = tasksOf(keys);
  const toldBefore = await toldOf(tx, tasks);
  await takeRows(tx, keys);
  const told = new Map<string, readonly Stored[]>();
  for (const key of keys) {
    const now = await reproject(tx, key, foreign, null);
    if (now) told.set(key, now);
  }
  await settle(tx, { told, touched, tasks, toldBefore, foreign, orphaned });
}

/**
 * Takes away the rows of keys whose events have left the log, as if they had never been: facts and judgements. Feedback that another
 * key gave to their episodes must be among the keys, and their groups must be whole. The transaction's search_path names the schema.
 */
export async function forgetKeys(tx: Session, keys: readonly string[], groups: readonly string[]): Promise<void> {
  const episodes = episodesOf(keys);
  const spoken = await readRows(
    tx,
    facts
      .selectFrom('calls')
      .select('response_id as id')
      .distinct()
      .where('episode_id', '=', anyOf(episodes))
      .where('response_id', 'is not', null)
      .$narrowType<{ id: NotNull }>(),
  );
  const told = await readRows(
    tx,
    facts.selectFrom('told_tasks').select('task_id as id').distinct().where('episode_id', '=', anyOf(episodes)),
  );
  const tasks = told.map((row) => row.id);
  const toldBefore = await toldOf(tx, tasks);
  await takeRows(tx, keys);
  await countOf(tx, facts.deleteFrom('scores').where('key', '=', anyOf(groups.map((group) => `g/${group}`))));
  await settle(tx, {
    told: new Map(episodes.map((id) => [`e/${id}`, []])),
    touched: new Map(),
    tasks,
    toldBefore,
    foreign: new Set([...episodes, ...spoken.map((row) => row.id)]),
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
