/** The steps of the table `picked` are joined to branches: afterwards a place of the table is a branch, and no longer a step. */

import { groupBy } from '../../ingest/events/group-by.ts';
import { canonicalJson, isRecord } from '../../ingest/events/json.ts';
import { fromMessage } from '../../ingest/formats/kit/chat-message.ts';
import type { Session } from '../db/pool.ts';
import { rowsOf, sql, typed } from '../db/query.ts';
import { shownJson } from '../tables/long-texts.ts';
import { type BranchPlace, branchesOf, type GraphAnswer, type GraphMessage } from './branches.ts';
import { argumentsOf, readMessage } from './layouts/message.ts';
import { pickedAnswers, tables } from './query.ts';

/** Episodes whose messages and tokens are held at once. */
const EPISODES = 16;

/**
 * Gives each step its branch. Memory holds a few episodes.
 * @param worths the columns of which a branch has the mean, beside its worth
 * @returns how many branches there are
 */
export async function makeBranches(tx: Session, worths: readonly string[]): Promise<number> {
  const episodes = await rowsOf(
    tx,
    tables.selectFrom('picked').select(sql<string>`episode_id`.as('id')).groupBy('episode_id').orderBy(sql`min(step)`),
  );
  // Each look-up and each update below is of a few episodes.
  await tx.query('create index on picked (episode_id); analyze picked');
  let branches = 0;
  for (let from = 0; from < episodes.length; from += EPISODES) {
    const ids = episodes.slice(from, from + EPISODES).map(({ id }) => id);
    const messages = await messagesOf(tx, ids);
    const placed: (BranchPlace & { readonly step: number })[] = [];
    for (const answers of (await answersOf(tx, ids)).values()) {
      const places = branchesOf(messages.get(answers[0]!.episode) ?? [], answers);
      for (const [i, place] of places.entries())
        placed.push({ ...place, branch: branches + place.branch, step: answers[i]!.step });
      branches += places.filter(({ last }) => last).length;
    }
    await write(tx, ids, placed);
  }
  const means = [...new Set(['worth', ...worths])];
  const whole = tables
    .selectFrom('picked')
    .select(['place', sql<string>`max(id) filter (where last)`.as('id')])
    .select(means.map((name) => sql<number | null>`avg(${sql.ref(name)})`.as(name)))
    .groupBy('place');
  const set = Object.fromEntries(['id', ...means].map((name) => [name, sql.ref(`b.${name}`)]));
  await rowsOf(tx, tables.updateTable('picked as p').from(whole.as('b')).set(set).whereRef('p.place', '=', 'b.place'));
  return branches;
}

async function messagesOf(tx: Session, ids: readonly string[]): Promise<ReadonlyMap<string, readonly GraphMessage[]>> {
  const rows = await rowsOf(
    tx,
    tables
      .selectFrom(sql<{ id: string }>`unnest(${typed(ids, 'text[]')})`.as<'e'>(sql`e (id)`))
      .innerJoinLateral(
        sql`troupe.messages_read('e/' || e.id, array(select c.context from facts.calls c where c.episode_id = e.id))`.as(
          'm',
        ),
        (join) => join.onTrue(),
      )
      .innerJoin('troupe.bodies as b', (join) =>
        join.on(sql`b.key || b.hash::text`, '=', sql`'e/' || e.id || m.hash::text`),
      )
      .select([
        sql<string>`e.id`.as('episode'),
        sql<string>`m.hash::text`.as('hash'),
        sql<string | null>`b.previous::text`.as('previous'),
        sql<string>`m.message::text`.as('message'),
      ]),
  );
  const messages = rows.map(({ message, ...link }) => ({ ...link, key: keyOf(JSON.parse(message)) }));
  return groupBy(messages, ({ episode }) => episode);
}

type BranchAnswer = GraphAnswer & { readonly episode: string; readonly step: number };

/** By episode, in the order of rows. */
async function answersOf(tx: Session, ids: readonly string[]): Promise<ReadonlyMap<string, readonly BranchAnswer[]>> {
  const rows = await rowsOf(
    tx,
    pickedAnswers
      .select([
        sql<string>`p.episode_id`.as('episode'),
        sql<number>`p.step::float8`.as('step'),
        sql<string | null>`p.agent_id`.as('agent'),
        sql<string | null>`p.role`.as('role'),
        sql<string | null>`c.context::text`.as('context'),
        sql<readonly number[] | null>`c.prompt_token_ids`.as('prompt'),
        sql<readonly number[] | null>`s.token_ids`.as('answer'),
        sql<string | null>`(${sql.raw(shownJson('s', 'content'))})::text`.as('content'),
        sql<string | null>`s.text`.as('text'),
      ])
      .where(sql<boolean>`p.episode_id = any(${typed(ids, 'text[]')})`)
      .orderBy('p.step'),
  );
  const answers = rows.map(({ episode, step, agent, role, context, prompt, answer, content, text }): BranchAnswer => {
    const output: unknown = content === null ? text : JSON.parse(content);
    return {
      episode,
      step,
      context,
      author: JSON.stringify([agent, role]),
      key: output === null ? null : keyOf({ role: 'assistant', content: output }),
      tokens: prompt === null || answer === null ? null : { prompt, answer },
    };
  });
  return groupBy(answers, ({ episode }) => episode);
}

/** What makes two messages the same: all that a model reads of them. Arguments of calls are compared as JSON. */
function keyOf(message: unknown): string {
  const read = isRecord(message) ? readMessage(message) : null;
  if (read === null) return canonicalJson(message);
  const { role, text, reasoning, calls, callId } = read;
  const { content } = fromMessage(message as Readonly<Record<string, unknown>>);
  const media = Array.isArray(content) ? content.filter((part) => part?.type !== 'text') : [];
  const asked = calls.map((call) => [call.name, argumentsOf(call) ?? call.written]);
  return canonicalJson([role, text ?? '', reasoning, asked, callId, media]);
}

async function write(
  tx: Session,
  ids: readonly string[],
  placed: readonly (BranchPlace & { readonly step: number })[],
): Promise<void> {
  const list = (of: (one: (typeof placed)[number]) => number | null) => placed.map(of);
  const values = sql`unnest(${typed(
    list(({ step }) => step),
    'bigint[]',
  )}, ${typed(
    list(({ branch }) => branch + 1),
    'bigint[]',
  )},
    ${typed(
      placed.map(({ last }) => last),
      'boolean[]',
    )}, ${typed(
      list(({ messages }) => messages),
      'integer[]',
    )})`;
  await rowsOf(
    tx,
    tables
      .updateTable('picked as p')
      .from(values.as<'b'>(sql`b (step, branch, last, messages)`))
      .set({ place: sql`b.branch`, last: sql`b.last`, messages: sql`b.messages` })
      .where(sql<boolean>`p.step = b.step and p.episode_id = any(${typed(ids, 'text[]')})`),
  );
}
