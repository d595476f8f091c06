/**
 * What was said and shown in an episode, in order, whatever it was recorded as: candidates that the conversation went on from, messages,
 * answers of tools, observations.
 */
import { unescapeText } from '../../ingest/text.ts';
import type { Session } from '../db/pool.ts';
import type { SpokenEntry } from '../methods/failure-signs.ts';
import { groupBy } from '../methods/statistics.ts';

export type Entry = SpokenEntry & {
  readonly episode_id: string;
  /** Number of the entry in the record, where the source counts; else null. */
  readonly seq: number | null;
  /** Null for what is no candidate of a model call. */
  readonly step_id: string | null;
};

type Row = Omit<Entry, 'seq'> & { readonly seq: string | null; readonly at: string | null; readonly place: string };

/**
 * By episode. Entries stand in the order in which the source counts them; where one of the episode has no number, in the order of their
 * times. A message that repeats what a call said is left out, and so is the agent's own word for a tool call, which stands in the text
 * of its step.
 */
export async function readEntries(
  tx: Session,
  episodes: readonly string[],
): Promise<ReadonlyMap<string, readonly Entry[]>> {
  const { rows } = await tx.query<Row>(
    `${STEPS} union all ${MESSAGES} union all ${TOOLS} union all ${OBSERVATIONS}`,
    [episodes],
    {
      name: 'attribution_entries',
    },
  );
  return new Map([...groupBy(rows, (row) => row.episode_id)].map(([id, own]) => [id, inOrder(own)]));
}

const STEPS = `select s.episode_id, 'agent' as kind, s.agent, concat_ws(E'\\n', nullif(s.text, ''), t.calls) as text, null::boolean as failed,
    s.step_id, s.seq, s.at, s.call_id as place, d.by is not null as hands_over
  from (
    select distinct on (s.episode_id, s.call_id) s.episode_id, s.call_id, s.text, s.call_id || '/' || s.candidate as step_id,
      coalesce(c.completed_agent_id, c.requested_agent_id) as agent, coalesce(c.completed_seq, c.requested_seq) as seq,
      coalesce(c.completed_at, c.requested_at) as at
    from steps s join calls c using (episode_id, call_id) where s.episode_id = any($1::text[])
    order by s.episode_id, s.call_id, s.chosen desc nulls last, s.candidate
  ) s
  left join lateral (
    select string_agg(t.name || coalesce(' ' || coalesce(t.arguments_raw, t.arguments::text), ''), E'\\n' order by t.index, t.tool_call_id) as calls
    from tool_calls t where t.episode_id = s.episode_id and t.call_id = s.call_id
  ) t on true
  left join lateral (
    select d.by from decisions d where d.episode_id = s.episode_id and d.kind in ('delegate', 'handoff', 'select')
      and d.by = s.agent and d.seq = s.seq limit 1
  ) d on true`;

const MESSAGES = `select m.episode_id, case when a.agent_id is null then 'user' else 'agent' end, a.agent_id, coalesce(m.text, ''), null,
    null, m.seq, m.sent_at, m.message_id, d.by is not null
  from messages m left join agents a on a.episode_id = m.episode_id and a.agent_id = m.sender
  left join lateral (
    select d.by from decisions d where d.episode_id = m.episode_id and d.kind in ('delegate', 'handoff', 'select')
      and d.by = m.sender and d.seq = m.seq limit 1
  ) d on true
  where m.episode_id = any($1::text[])
    and not exists (select 1 from calls c where c.episode_id = m.episode_id and c.call_id = m.call_id)`;

const TOOLS = `select episode_id, 'environment', name,
    case when json_typeof(output) = 'string' then output #>> '{}' else coalesce(output::text, error::text, '') end,
    case when status is null then null else status <> 'ok' end, null, returned_seq, returned_at, tool_call_id, false
  from tool_calls where episode_id = any($1::text[]) and (status is not null or output is not null)`;

const OBSERVATIONS = `select episode_id, 'environment', state ->> 'name',
    case when json_typeof(content) = 'string' then content #>> '{}' else coalesce(content::text, '') end,
    case when kind = 'error' then true end, null, seq, at, event_id, false
  from observations where episode_id = any($1::text[])`;

function inOrder(rows: readonly Row[]): Entry[] {
  const counted = rows.every((row) => row.seq !== null);
  const time = ({ at }: Row) => (at === null ? Number.NEGATIVE_INFINITY : new Date(at).getTime());
  const before = (a: Row, b: Row) =>
    (counted ? Number(a.seq) - Number(b.seq) : time(a) - time(b) || 0) || (a.place < b.place ? -1 : 1);
  return [...rows].sort(before).map(({ at: _, place: __, seq, text, ...entry }) => ({
    ...entry,
    seq: seq === null ? null : Number(seq),
    text: unescapeText(text),
  }));
}
