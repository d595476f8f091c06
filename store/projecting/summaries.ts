/**
 * The one projection that reads other rows: counts, reward and last activity of an episode, recomputed from its own rows in the
 * transaction that changed one of them. A reward is the last by (time, id); where there is none it is null, not 0. Task and group are
 * those of episode.started; where it names none, those of the last call that does, as in the gateway's headers. What generated the calls is the set of
 * policies, of checkpoints and of weights that its calls name; the weights of a call are its checkpoint, else its model. What a call copies
 * from elsewhere was generated and spent there.
 */
import type { Session } from '../db/pool.ts';

/**
 * An end is compared at the precision of its own time: where it names whole seconds, an event within that second is not later.
 * Episode by episode. Feedback is asked for once by key and once by what it was resolved to, since an `or` between the two would read
 * all of it.
 */
const SUMMARY = `
insert into episodes as e (episode_id, task_id, group_id, reward, agents, calls, steps, tool_calls, messages, feedback, input_tokens, output_tokens, closed, last_at, revision,
  spoke_policies, spoke_checkpoints, spoke_weights)
select t.episode_id, coalesce(case when f0.started_task_id !~ '^text/[0-9a-f]{32}$' then f0.started_task_id end, c.task_id, f0.started_task_id), coalesce(f0.started_group_id, c.group_id), r.value, a.n, c.n, s.n, tc.n, m.n, f.n, c.input_tokens, c.output_tokens,
       f0.finished_version is not null and (f0.finished_at is null or last.at is null or date_trunc(
         case when f0.finished_at = date_trunc('second', f0.finished_at) then 'second'
              when f0.finished_at = date_trunc('milliseconds', f0.finished_at) then 'milliseconds' else 'microseconds' end, last.at) <= f0.finished_at), last.at, t.revision,
       c.policies, c.checkpoints, c.weights
from unnest($1::text[], $2::bigint[], $3::text[]) as t (episode_id, revision, key)
left join lateral (select started_task_id, started_group_id, finished_at, finished_version from episodes where episode_id = t.episode_id offset 0) f0 on true
cross join lateral (select count(*)::integer as n from agents where episode_id = t.episode_id) a
cross join lateral (select count(*)::integer as n, sum(input_tokens) filter (where copied is not true)::bigint as input_tokens, sum(output_tokens) filter (where copied is not true)::bigint as output_tokens,
                           (array_agg(task_id order by requested_version desc) filter (where task_id is not null))[1] as task_id,
                           (array_agg(group_id order by requested_version desc) filter (where group_id is not null))[1] as group_id,
                           array_agg(distinct policy collate "C") filter (where policy is not null and copied is not true) as policies,
                           array_agg(distinct checkpoint_id collate "C") filter (where checkpoint_id is not null and copied is not true) as checkpoints,
                           array_agg(distinct coalesce(checkpoint_id, response_model, model) collate "C")
                             filter (where coalesce(checkpoint_id, response_model, model) is not null and copied is not true) as weights,
                           greatest(max(requested_at), max(completed_at)) as at from calls where episode_id = t.episode_id) c
cross join lateral (select count(*)::integer as n from steps where episode_id = t.episode_id) s
cross join lateral (select count(*)::integer as n, greatest(max(called_at), max(returned_at)) as at from tool_calls
                    where episode_id = t.episode_id and called_version is not null) tc
cross join lateral (select count(*)::integer as n, max(sent_at) as at from messages where episode_id = t.episode_id) m
cross join lateral (select max(occurred_at) as at from observations where episode_id = t.episode_id) o
cross join lateral (select max(occurred_at) as at from decisions where episode_id = t.episode_id) d
cross join lateral (select count(*)::integer as n from feedback where key = t.key) f
left join lateral (
  select value from (
    select value, version from feedback
    where key = t.key and target_kind = 'episode' and name = 'reward' and kind = 'reward' and value is not null
    union all
    select value, version from feedback
    where target_kind = 'foreign' and resolved_episode_id = t.episode_id and resolved_call_id is null
      and name = 'reward' and kind = 'reward' and value is not null
) rewards order by version desc limit 1
) r on true
cross join lateral (select greatest(c.at, tc.at, m.at, o.at, d.at) as at) last
on conflict (episode_id) do update set task_id = excluded.task_id, group_id = excluded.group_id, reward = excluded.reward, agents = excluded.agents, calls = excluded.calls, steps = excluded.steps,
  tool_calls = excluded.tool_calls, messages = excluded.messages, feedback = excluded.feedback, input_tokens = excluded.input_tokens,
  output_tokens = excluded.output_tokens, closed = excluded.closed, last_at = excluded.last_at,
  spoke_policies = excluded.spoke_policies, spoke_checkpoints = excluded.spoke_checkpoints, spoke_weights = excluded.spoke_weights,
  revision = greatest(e.revision + 1, excluded.revision)`;

/**
 * Recomputes the summaries of these episodes; `touched` maps each to the least that its revision is afterwards:
 * the position of its last event, 0 where the cause lies in another partition. A revision grows with every call, so that whoever has read an episode can see that it changed since.
 */
export async function summarise(tx: Session, touched: ReadonlyMap<string, number>): Promise<void> {
  if (touched.size === 0) return;
  const episodes = [...touched.keys()];
  await tx.query(SUMMARY, [episodes, [...touched.values()], episodes.map((id) => `e/${id}`)], { name: 'summarise' });
}
