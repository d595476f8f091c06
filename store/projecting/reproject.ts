/** Keys made anew from all their events: those with amendments, those that changed in the log, and those that left it. */

import type { Session } from '../db/pool.ts';
import { rowsOf, TARGETS } from '../projections/catalogue.ts';
import { effective } from '../projections/effective.ts';
import type { Rows } from '../projections/projection.ts';
import { amended, type Stored } from './amend.ts';
import type { Read } from './read-news.ts';
import { RowBuffer } from './row-buffer.ts';
import { episodesWithForeign, noteForeign, settle, tasksOf, toldOf } from './settle.ts';
import { type Placed, withTold } from './traces.ts';
import { remove, upsert } from './write-rows.ts';

/**
 * A key with amendments is made anew from all its events: whatever the amended events said before is gone first. Answers with what its
 * spans tell now; null where it has none.
 */
export async function reproject(
  tx: Session,
  key: string,
  foreign: Set<string>,
  batch: readonly Read[] | null,
): Promise<readonly Stored[] | null> {
  const { rows: stored } = await tx.query<Placed>(
    'select key, source, id, name, time, data, position from troupe.events where key = $1 order by position',
    [key],
  );
  const { events, unsaid, told } = withTold(stored, batch?.filter((event) => event.key === key) ?? null);
  const amendments = events.filter((event) => event.name === 'record.amended');
  const before = new RowBuffer();
  const after = new RowBuffer();
  const add = (buffer: RowBuffer, event: Stored): Rows => {
    noteForeign(foreign, event);
    const rows = rowsOf(effective(event));
    buffer.add(rows);
    return rows;
  };
  // A task that spans tell is not this key's: others may have told it too.
  const own = (event: Stored): boolean => event.key === key;
  for (const event of unsaid.filter(own)) add(before, event);
  for (const event of events) {
    if (own(event)) add(before, event);
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
  return told;
}

/** Episodes of these keys with the position that their rows say. */
export async function positionsOf(tx: Session, keys: ReadonlySet<string>): Promise<(readonly [string, number])[]> {
  const ids = episodesOf(keys);
  if (ids.length === 0) return [];
  const { rows } = await tx.query<{ id: string; position: number }>(
    'select episode_id as id, touched_position as position from episodes where episode_id = any($1::text[])',
    [ids],
  );
  return rows.map((row) => [row.id, Number(row.position)] as const);
}

/** Tables about an episode by its id, and those by its key. */
const BY_EPISODE = [
  ...['episodes', 'agents', 'calls', 'steps', 'message_bodies', 'messages', 'tool_calls', 'decisions', 'observations'],
  ...['verdicts', 'rewards', 'credits', 'blames'],
];
const BY_KEY = ['feedback', 'artifacts', 'scores'];

/**
 * Makes the rows of these keys anew from their events, whatever the tables held: judgements about them are gone. The transaction's
 * search_path names the schema.
 */
export async function reprojectKeys(tx: Session, keys: readonly string[]): Promise<void> {
  const all = new Set(keys);
  const touched = new Map((await positionsOf(tx, all)).map(([id, position]) => [id, position + 1]));
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
  const { rows: spoken } = await tx.query<{ id: string }>(
    'select distinct response_id as id from calls where episode_id = any($1::text[]) and response_id is not null',
    [episodes],
  );
  const { rows: told } = await tx.query<{ id: string }>(
    'select distinct task_id as id from told_tasks where episode_id = any($1::text[])',
    [episodes],
  );
  const tasks = told.map((row) => row.id);
  const toldBefore = await toldOf(tx, tasks);
  await takeRows(tx, keys);
  await tx.query('delete from scores where key = any($1::text[])', [groups.map((group) => `g/${group}`)]);
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
    await tx.query(`delete from ${table} where episode_id = any($1::text[])`, [episodesOf(keys)]);
  }
  for (const table of BY_KEY) await tx.query(`delete from ${table} where key = any($1::text[])`, [keys]);
}
