/**
 * Feedback that names its target by a foreign id (a response or trace id of another system) waits until the target is known, and
 * is then attached. It is never dropped. Of several targets with one id the least (episode, call) is taken, also when it comes
 * last, so the answer does not depend on the order of arrival.
 */
import type { Session } from '../db/pool.ts';

/**
 * Attaches the foreign feedback that names one of these ids (again), after something about those ids changed. The transaction's
 * search_path names the schema. Returns the episodes it is and was attached to, whose summaries are to be recomputed.
 */
export async function attachForeign(tx: Session, ids: readonly string[]): Promise<readonly string[]> {
  if (ids.length === 0) return [];
  const { rows } = await tx.query<{ now: string | null; before: string | null }>(
    `with foreign_feedback as materialized (
       select key, feedback_id, target_id, resolved_episode_id as before from feedback
       where key = any(array(select 'x/' || id from unnest($1::text[]) as i (id))) and target_kind = 'foreign'
     ), found as (
       select f.key, f.feedback_id, f.before, t.episode_id, t.call_id
       from foreign_feedback f
       left join lateral (
         select c.episode_id, c.call_id from calls c where c.response_id = f.target_id
         union all
         select e.episode_id, null from episodes e where e.episode_id = f.target_id
         order by 1, 2 nulls first limit 1
       ) t on true
     )
     update feedback f set resolved_episode_id = found.episode_id, resolved_call_id = found.call_id
     from found where f.key = any(array(select key from found)) and f.key = found.key and f.feedback_id = found.feedback_id
     returning found.episode_id as now, found.before`,
    [ids],
    { name: 'resolve_foreign' },
  );
  return [...new Set(rows.flatMap(({ now, before }) => [now, before]).filter((id) => id !== null))];
}
