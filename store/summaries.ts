/**
 * The one projection that reads other rows: counts, reward and last activity of an episode, recomputed from its own rows in the
 * transaction that changed one of them. A reward is the last by (time, id); where there is none it is null, not 0.
 */
import type { Session } from './db/pool.ts';

const SUMMARY = `
insert into episodes as e (episode_id, reward, agents, calls, steps, tool_calls, messages, feedback, input_tokens, output_tokens, closed, last_at, touched_position)
select t.episode_id, r.value, coalesce(a.n, 0), coalesce(c.n, 0), coalesce(s.n, 0), coalesce(tc.n, 0), coalesce(m.n, 0), coalesce(f.n, 0), c.input_tokens, c.output_tokens,
       f0.finished_version is not null and (f0.finished_at is null or last.at is null or last.at <= f0.finished_at), last.at, t.position
from unnest($1::text[], $2::bigint[]) as t (episode_id, position)
left join lateral (select finished_at, finished_version, started_at from episodes x where x.episode_id = t.episode_id) f0 on true
left join lateral (select count(*)::integer as n from agents x where x.episode_id = t.episode_id) a on true
left join lateral (select count(*)::integer as n, sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens,
                          greatest(max(requested_at), max(completed_at)) as at from calls x where x.episode_id = t.episode_id) c on true
left join lateral (select count(*)::integer as n from steps x where x.episode_id = t.episode_id) s on true
left join lateral (select count(*)::integer as n, greatest(max(called_at), max(returned_at)) as at from tool_calls x
                   where x.episode_id = t.episode_id and x.called_version is not null) tc on true
left join lateral (select count(*)::integer as n, max(sent_at) as at from messages x where x.episode_id = t.episode_id) m on true
left join lateral (select max(at) as at from observations x where x.episode_id = t.episode_id) o on true
left join lateral (select max(at) as at from decisions x where x.episode_id = t.episode_id) d on true
left join lateral (select count(*)::integer as n from feedback x where x.key = 'e/' || t.episode_id) f on true
left join lateral (select x.value from feedback x
                   where (x.key = 'e/' || t.episode_id and x.target_kind = 'episode'
                          or x.target_kind = 'foreign' and x.resolved_episode_id = t.episode_id and x.resolved_call_id is null)
                     and x.name = 'reward' and x.kind = 'reward' and x.value is not null
                   order by x.version desc limit 1) r on true
cross join lateral (select greatest(c.at, tc.at, m.at, o.at, d.at) as at) last
on conflict (episode_id) do update set reward = excluded.reward, agents = excluded.agents, calls = excluded.calls, steps = excluded.steps,
  tool_calls = excluded.tool_calls, messages = excluded.messages, feedback = excluded.feedback, input_tokens = excluded.input_tokens,
  output_tokens = excluded.output_tokens, closed = excluded.closed, last_at = excluded.last_at,
  touched_position = greatest(e.touched_position + 1, excluded.touched_position)`;

/**
 * Recomputes the summaries of these episodes; `touched` maps each to the last position of the log that touched it, 0 where the cause
 * lies in another partition. What is kept grows with every call, so that whoever has read an episode can tell that it changed since.
 */
export async function summarise(tx: Session, touched: ReadonlyMap<string, number>): Promise<void> {
  if (touched.size === 0) return;
  await tx.query(SUMMARY, [[...touched.keys()], [...touched.values()]], { name: 'summarise' });
}
