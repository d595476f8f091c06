/** Reads what an outline is made of: sizes, digests and places, never a text. */
import { EMPTY_CONTEXT } from '../../../ingest/log/split.ts';
import type { Session } from '../../db/pool.ts';
import { type Compilable, firstOf, query, rowsOf, sql } from '../../db/query.ts';
import { shownText } from '../../tables/long-texts.ts';
import { type Link, type OutlineItem, outline, type Thing } from './outline.ts';

/** Things of one kind that are read of one episode; if there are more, the result is marked. */
const MOST_THINGS = 100_000;

/** The things of an episode in order, and the kinds of which it has more than {@link MOST_THINGS}. */
export type EpisodeOutline = { readonly things: readonly OutlineItem[]; readonly truncated: readonly string[] };

/** Things of the outlines that are kept for the next page, over all episodes. */
const MOST_KEPT = MOST_THINGS;

type CachedOutline = { readonly revision: number; readonly outline: EpisodeOutline };
const keptOf = new WeakMap<Session, Map<string, CachedOutline>>();

/**
 * The outline of an episode; with `tokens` their bytes count too. To make one, every byte of the episode is read, so it is kept for the
 * pages that follow, as long as the episode has the revision that it had before it was read.
 */
export async function readOutline(
  db: Session,
  id: string,
  { tokens }: { readonly tokens: boolean },
): Promise<EpisodeOutline> {
  const read = query.selectFrom('facts.episodes').select('revision').where('episode_id', '=', id);
  const revision = (await firstOf(db, read))?.revision ?? null;
  const kept = keptOf.get(db) ?? new Map<string, CachedOutline>();
  keptOf.set(db, kept);
  const name = JSON.stringify([id, tokens]);
  const before = kept.get(name);
  const outline =
    before !== undefined && before.revision === revision ? before.outline : await newOutline(db, id, { tokens });
  kept.delete(name);
  if (revision !== null) kept.set(name, { revision, outline });
  let things = [...kept.values()].reduce((sum, one) => sum + one.outline.things.length, 0);
  for (const [oldest, { outline }] of kept) {
    if (things <= MOST_KEPT) break;
    things -= outline.things.length;
    kept.delete(oldest);
  }
  return outline;
}

async function newOutline(db: Session, id: string, { tokens }: { readonly tokens: boolean }): Promise<EpisodeOutline> {
  const lists = await Promise.all(
    Object.entries(thingsOf(id, tokens)).map(async ([name, list]) => {
      const rows = await rowsOf(db, list.limit(MOST_THINGS + 1));
      return { name, rows: rows.slice(0, MOST_THINGS), cut: rows.length > MOST_THINGS };
    }),
  );
  const links = await rowsOf(db, linksOf(id));
  return {
    things: outline(
      lists.flatMap(({ rows }) => rows as readonly Thing[]),
      new Map(links.map((link) => [link.hash, link as Link])),
    ),
    truncated: lists.filter(({ cut }) => cut).map(({ name }) => name),
  };
}

const digests = sql<readonly string[]>`coalesce(array_agg(md5(s.text)) filter (where s.text <> ''), '{}')`;

type Things = { limit(most: number): Compilable<unknown> };

/** Bytes of a token's id with its log-probability and mask, and of an id of a prompt, in JSON. */
const TOKEN_BYTES = sql.lit(32);
const PROMPT_TOKEN_BYTES = sql.lit(6);

/** The text of a message that was sent. */
const SENT = sql.raw<string | null>(shownText('s', 'text'));

const thingsOf = (id: string, tokens: boolean): Readonly<Record<string, Things>> => ({
  calls: query
    .selectFrom('facts.calls as c')
    .leftJoin('facts.steps as s', (on) =>
      on.onRef('s.episode_id', '=', 'c.episode_id').onRef('s.call_id', '=', 'c.call_id'),
    )
    .select(['c.call_id as id', sql<'call'>`'call'`.as('kind')])
    .select([
      sql<number | null>`coalesce(c.requested_seq, c.completed_seq)`.as('seq'),
      sql<string | null>`coalesce(c.requested_at, c.completed_at)`.as('at'),
      sql<number>`(1000
        + coalesce(sum(coalesce(octet_length(s.text), 0) + coalesce(octet_length(s.content::text), 0)), 0)
        ${tokens ? tokenBytes : sql``})::float8`.as('bytes'),
      digests.as('texts'),
      sql<string | null>`nullif(c.context, ${sql.lit(EMPTY_CONTEXT)}::uuid)`.as('context'),
    ])
    .where('c.episode_id', '=', id)
    .groupBy(['c.episode_id', 'c.call_id']),
  messages: query
    .selectFrom('facts.messages as s')
    // `offset 0` has the text put together once for both that use it.
    .innerJoinLateral(
      () => query.selectNoFrom(SENT.as('text')).offset(sql.lit(0)).as('sent'),
      (on) => on.onTrue(),
    )
    .select(['s.message_id as id', sql<'message'>`'message'`.as('kind'), 's.seq', 's.sent_at as at'])
    .select([
      sql<number>`(500 + coalesce(octet_length(sent.text), 0) + coalesce(octet_length(s.content::text), 0))::float8`.as(
        'bytes',
      ),
      sql<readonly string[]>`case when s.text <> '' then array[md5(sent.text)] else '{}' end`.as('texts'),
      sql<null>`null`.as('context'),
    ])
    .where('s.episode_id', '=', id),
  tool_calls: query
    .selectFrom('traj.tool_calls as t')
    .select(['t.tool_call_id as id', sql<'tool_call'>`'tool_call'`.as('kind')])
    .select([
      // The view has a place where the source numbers nothing, which is not comparable with numbers.
      sql<number | null>`(select coalesce(f.seq, f.returned_seq) from facts.tool_calls f
        where f.episode_id = t.episode_id and f.tool_call_id = t.tool_call_id)`.as('seq'),
      sql<string | null>`coalesce(t.called_at, t.returned_at)`.as('at'),
      sql<number>`(500 + coalesce(octet_length(t.arguments_raw), 0) + coalesce(octet_length(t.arguments::text), 0)
        + coalesce(octet_length(t.output::text), 0))::float8`.as('bytes'),
      sql<
        readonly string[]
      >`case when json_typeof(t.output) = 'string' then array[md5(t.output #>> '{}')] else '{}' end`.as('texts'),
      sql<null>`null`.as('context'),
    ])
    .where('t.episode_id', '=', id),
  decisions: query
    .selectFrom('facts.decisions as d')
    .select(['d.event_id as id', sql<'decision'>`'decision'`.as('kind'), 'd.seq', 'd.occurred_at as at'])
    .select([
      sql<number>`(200 + coalesce(octet_length(d.decision::text), 0))::float8`.as('bytes'),
      sql<readonly string[]>`'{}'::text[]`.as('texts'),
      sql<null>`null`.as('context'),
    ])
    .where('d.episode_id', '=', id),
});

const tokenBytes = sql`+ coalesce(sum(cardinality(s.token_ids)), 0) * ${TOKEN_BYTES}
        + coalesce(cardinality(c.prompt_token_ids), 0) * ${PROMPT_TOKEN_BYTES}`;

/** A name in a body is the mark of `ingest/log/split.ts` and a UUID. */
const linksOf = (id: string) =>
  query
    .selectFrom('troupe.bodies as b')
    .select(['b.hash', 'b.previous'])
    .select([
      sql<string>`md5(b.body || coalesce(encode(b.blob, 'hex'), ''))`.as('digest'),
      sql<number>`octet_length(b.body) + case when b.media_type is null then coalesce((
        select octet_length(o.bytes) from troupe.blobs o where o.sha256 = b.blob), 0) else 0 end`.as('bytes'),
      sql<readonly string[]>`case when position(E'"\\uFFFE#' in b.body) = 0 then '{}' else
        array(select m[1] from regexp_matches(b.body, E'"\\uFFFE#([0-9a-f-]{36})"', 'g') as m) end`.as('names'),
    ])
    .where('b.key', '=', `e/${id}`);
