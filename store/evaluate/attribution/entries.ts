/**
 * The transcript of an episode, in order, whatever events recorded it: candidates that the conversation went on from, messages,
 * answers of tools, observations.
 */

import { groupBy } from '../../../ingest/events/group-by.ts';
import { unescapeText } from '../../../ingest/events/text.ts';
import type { Session } from '../../db/pool.ts';
import { anyOf, facts, prepare, type RawBuilder, rowsOfPrepared, sql } from '../../db/query.ts';
import { shownJson, shownText } from '../../tables/long-texts.ts';
import type { TranscriptEntry } from '../methods/transcript-signs.ts';

export type CaseEntry = TranscriptEntry & {
  readonly episode_id: string;
  /** Number of the entry in the record, where the source counts; else null. */
  readonly seq: number | null;
  /** Null for what is no candidate of a model call. */
  readonly step_id: string | null;
};

/**
 * By episode. Entries stand in the order in which the source counts them; where one of the episode has no number, in the order of their
 * times. A message that repeats the output of a call is omitted, and so is the agent's own word for a tool call, which stands in the text
 * of its step.
 */
export async function readEntries(
  tx: Session,
  episodes: readonly string[],
): Promise<ReadonlyMap<string, readonly CaseEntry[]>> {
  const rows = await rowsOfPrepared(tx, ENTRIES, { episodes });
  return new Map([...groupBy(rows, (row) => row.episode_id)].map(([id, own]) => [id, inOrder(own)]));
}

type EpisodeQuery = RawBuilder<string>;

/** Whether `agent` handed over at `seq`: its text there is a decision, too. */
const handsOver = (episode: string, agent: string, seq: string) =>
  facts
    .selectFrom('decisions as d')
    .select('d.author')
    .where('d.episode_id', '=', sql.ref<string>(episode))
    .where('d.kind', 'in', ['delegate', 'handoff', 'select'])
    .where('d.author', '=', sql.ref<string>(agent))
    .where('d.seq', '=', sql.ref<number>(seq))
    .limit(1)
    .as('d');

const steps = (asked: EpisodeQuery) =>
  facts
    .selectFrom((all) =>
      all
        .selectFrom('steps as s')
        .innerJoin('calls as c', (on) =>
          on.onRef('c.episode_id', '=', 's.episode_id').onRef('c.call_id', '=', 's.call_id'),
        )
        .distinctOn(['s.episode_id', 's.call_id'])
        .select(['s.episode_id', 's.call_id', 's.text', sql<string>`s.call_id || '/' || s.candidate`.as('step_id')])
        .select([
          sql<string | null>`coalesce(c.completed_agent_id, c.requested_agent_id)`.as('agent'),
          sql<number | null>`coalesce(c.completed_seq, c.requested_seq)`.as('seq'),
          sql<string | null>`coalesce(c.completed_at, c.requested_at)`.as('at'),
        ])
        .where('s.episode_id', '=', asked)
        .orderBy('s.episode_id')
        .orderBy('s.call_id')
        .orderBy('s.chosen', (order) => order.desc().nullsLast())
        .orderBy('s.candidate')
        .as('s'),
    )
    .leftJoinLateral(
      (step) =>
        step
          .selectFrom('tool_calls as t')
          .whereRef('t.episode_id', '=', 's.episode_id')
          .whereRef('t.call_id', '=', 's.call_id')
          .select(
            sql<
              string | null
            >`string_agg(t.name || coalesce(' ' || coalesce(t.arguments_raw, t.arguments::text), ''), E'\\n' order by t.tool_index, t.tool_call_id)`.as(
              'calls',
            ),
          )
          .as('t'),
      (on) => on.onTrue(),
    )
    .leftJoinLateral(handsOver('s.episode_id', 's.agent', 's.seq'), (on) => on.onTrue())
    .select([
      's.episode_id',
      sql<CaseEntry['kind']>`'agent'`.as('kind'),
      's.agent',
      sql<string>`concat_ws(E'\\n', nullif(s.text, ''), t.calls)`.as('text'),
      sql<boolean | null>`null::boolean`.as('failed'),
      sql<string | null>`s.step_id`.as('step_id'),
      's.seq',
      's.at',
      's.call_id as place',
      sql<boolean>`d.author is not null`.as('hands_over'),
    ]);

const messages = (asked: EpisodeQuery) =>
  facts
    .selectFrom('messages as m')
    .leftJoin('agents as a', (on) => on.onRef('a.episode_id', '=', 'm.episode_id').onRef('a.agent_id', '=', 'm.sender'))
    .leftJoinLateral(handsOver('m.episode_id', 'm.sender', 'm.seq'), (on) => on.onTrue())
    .select([
      'm.episode_id',
      sql<CaseEntry['kind']>`case when a.agent_id is null then 'user' else 'agent' end`.as('kind'),
      'a.agent_id as agent',
      sql<string>`coalesce(${sql.raw(shownText('m', 'text'))}, '')`.as('text'),
      sql<boolean | null>`null::boolean`.as('failed'),
      sql<string | null>`null::text`.as('step_id'),
      'm.seq',
      'm.sent_at as at',
      'm.message_id as place',
      sql<boolean>`d.author is not null`.as('hands_over'),
    ])
    .where('m.episode_id', '=', asked)
    .where((message) =>
      message.not(
        message.exists(
          message
            .selectFrom('calls as c')
            .select('c.call_id')
            .whereRef('c.episode_id', '=', 'm.episode_id')
            .whereRef('c.call_id', '=', 'm.call_id'),
        ),
      ),
    );

const OUTPUT = sql.raw(shownJson('t', 'output'));
const CONTENT = sql.raw(shownJson('o', 'content'));

const tools = (asked: EpisodeQuery) =>
  facts
    .selectFrom('tool_calls as t')
    .select([
      'episode_id',
      sql<CaseEntry['kind']>`'environment'`.as('kind'),
      'name as agent',
      sql<string>`case when json_typeof(output) = 'string' then (${OUTPUT}) #>> '{}' else coalesce((${OUTPUT})::text, error::text, '') end`.as(
        'text',
      ),
      sql<boolean | null>`case when status is null then null else status <> 'ok' end`.as('failed'),
      sql<string | null>`null::text`.as('step_id'),
      'returned_seq as seq',
      'returned_at as at',
      'tool_call_id as place',
      sql<boolean>`false`.as('hands_over'),
    ])
    .where('episode_id', '=', asked)
    .where((tool) => tool.or([tool('status', 'is not', null), tool('output', 'is not', null)]));

const observations = (asked: EpisodeQuery) =>
  facts
    .selectFrom('observations as o')
    .select([
      'episode_id',
      sql<CaseEntry['kind']>`'environment'`.as('kind'),
      sql<string | null>`state ->> 'name'`.as('agent'),
      sql<string>`case when json_typeof(content) = 'string' then content #>> '{}' else coalesce((${CONTENT})::text, '') end`.as(
        'text',
      ),
      sql<boolean | null>`case when kind = 'error' then true end`.as('failed'),
      sql<string | null>`null::text`.as('step_id'),
      'seq',
      'occurred_at as at',
      'event_id as place',
      sql<boolean>`false`.as('hands_over'),
    ])
    .where('episode_id', '=', asked);

const ENTRIES = prepare<{ episodes: readonly string[] }>('attribution_entries')((value) => {
  const asked = anyOf(value('episodes'));
  return steps(asked).unionAll(messages(asked)).unionAll(tools(asked)).unionAll(observations(asked));
});

type EntryRow = Omit<CaseEntry, 'seq'> & {
  readonly seq: number | null;
  readonly at: string | null;
  readonly place: string;
};

/** No source counts past this; what orders by its clock, as tracing clients do, has larger numbers, and no entries. */
const MOST_ENTRIES = 2 ** 31 - 1;

function inOrder(rows: readonly EntryRow[]): CaseEntry[] {
  const counted = rows.every((row) => row.seq !== null);
  const time = ({ at }: EntryRow) => (at === null ? Number.NEGATIVE_INFINITY : new Date(at).getTime());
  const before = (a: EntryRow, b: EntryRow) =>
    (counted ? a.seq! - b.seq! : time(a) - time(b) || 0) || (a.place < b.place ? -1 : 1);
  return [...rows].sort(before).map(({ at: _, place: __, seq, text, ...entry }) => ({
    ...entry,
    seq: seq !== null && seq <= MOST_ENTRIES ? seq : null,
    text: unescapeText(text),
  }));
}
