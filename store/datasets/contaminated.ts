/**
 * Which picked rows have read or written what stands in a benchmark. Every text is looked at once, however many rows read it: the query
 * of each task, each message of an episode, the instructions of each agent, and each answer.
 */
import type { Session } from '../db/pool.ts';
import { rowsOf, sql, streamOf, typed } from '../db/query.ts';
import { shownText } from '../tables/long-texts.ts';
import type { Benchmarks } from './benchmarks.ts';
import { type Rows, tables } from './query.ts';
import { messageText, rowTexts } from './row-texts.ts';

/** The places of the rows, each with what it shares with which file. */
export async function contaminatedRows(tx: Session, benchmarks: Benchmarks): Promise<ReadonlyMap<number, string>> {
  const rows = new Map<number, string>();
  const note = (text: string): string | null => {
    const found = benchmarks.find(text);
    return found && `"${found.words}" stands in ${found.file}`;
  };
  const add = (places: readonly number[], why: string) => {
    for (const place of places) if (!rows.has(place)) rows.set(place, why);
  };
  for await (const { place, text } of rowTexts(tx)) {
    const why = note(text);
    if (why !== null) add([place], why);
  }
  for await (const batch of streamOf(tx, queries))
    for (const { task, text } of batch) {
      const why = text === null ? null : note(text);
      if (why !== null) add(await placesOf(tx, tables.selectFrom('picked').where('task', '=', task)), why);
    }
  for await (const batch of streamOf(tx, instructions))
    for (const { episode_id, agent_id, text } of batch) {
      const why = text === null ? null : note(text);
      const shown = tables.selectFrom('picked').where('episode_id', '=', episode_id).where('agent_id', '=', agent_id);
      if (why !== null) add(await placesOf(tx, shown), why);
    }
  for await (const batch of streamOf(tx, messages, { batch: 200 }))
    for (const { episode_id, hash, message } of batch) {
      const why = note(messageText(JSON.parse(message)));
      if (why !== null) add(await placesOf(tx, readers(episode_id, hash)), why);
    }
  return rows;
}

const queries = tables
  .selectFrom('picked as p')
  .innerJoin('facts.tasks as t', (join) => join.on(sql<boolean>`p.task = 't/' || t.task_id`))
  .select([sql<string>`p.task`.as('task'), sql<string | null>`t.query`.as('text')])
  .distinct();

const instructions = tables
  .selectFrom(tables.selectFrom('picked').select(['episode_id', 'agent_id']).distinct().as('p'))
  .innerJoin('facts.agents as a', (join) =>
    join.onRef('a.episode_id', '=', 'p.episode_id').onRef('a.agent_id', '=', 'p.agent_id'),
  )
  .select([
    sql<string>`p.episode_id`.as('episode_id'),
    sql<string>`p.agent_id`.as('agent_id'),
    sql<string | null>`${sql.raw(shownText('a', 'system_instructions'))}`.as('text'),
  ]);

const READ = sql<{
  hash: string;
  message: string;
}>`troupe.messages_read('e/' || p.episode_id, array(select distinct c.context from facts.calls c
    join picked q on q.episode_id = c.episode_id and q.call_id = c.call_id where q.episode_id = p.episode_id))`;
const messages = tables
  .selectFrom(tables.selectFrom('picked').select('episode_id').distinct().as('p'))
  .innerJoinLateral(READ.as('m'), (join) => join.onTrue())
  .select([
    sql<string>`p.episode_id`.as('episode_id'),
    sql<string>`m.hash::text`.as('hash'),
    sql<string>`m.message::text`.as('message'),
  ]);

/** Rows of the episode whose call read the message. */
const readers = (episodeId: string, hash: string) =>
  tables
    .selectFrom('picked')
    .innerJoin('facts.calls as c', (join) =>
      join.onRef('c.episode_id', '=', 'picked.episode_id').onRef('c.call_id', '=', 'picked.call_id'),
    )
    .where('picked.episode_id', '=', episodeId)
    .where(sql<boolean>`${typed(hash, 'text')}::uuid in (
      select m.hash from troupe.messages_of('e/' || c.episode_id, c.context) m)`);

async function placesOf(tx: Session, rows: unknown): Promise<readonly number[]> {
  const found = await rowsOf(tx, (rows as Rows).select(sql<number>`picked.place::float8`.as('place')));
  return found.map(({ place }) => place as number);
}
