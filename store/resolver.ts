/**
 * Feedback that names its target by a foreign id (a response or trace id of another system) waits until the target is known, and
 * is then attached in a transaction of its own. It is never dropped. Of several targets with one id the least (episode, call) is
 * taken, so the answer does not depend on the order of arrival.
 */
import type { Session } from './db/pool.ts';
import { summarise } from './summaries.ts';

/** Attaches what can be attached; returns how many rows changed. The transaction's search_path names the schema. */
export async function resolvePending(tx: Session): Promise<number> {
  const { rows } = await tx.query<{ episode_id: string | null }>(
    `with waiting as (
       select key, feedback_id, target_id from feedback where target_kind = 'foreign' and resolved_episode_id is null
     ), found as (
       select distinct on (w.key, w.feedback_id) w.key, w.feedback_id, t.episode_id, t.call_id
       from waiting w
       cross join lateral (
         select c.episode_id, c.call_id from calls c where c.response_id = w.target_id
         union all
         select e.episode_id, null from episodes e where e.episode_id = w.target_id
       ) t
       order by w.key, w.feedback_id, t.episode_id, t.call_id nulls first
     )
     update feedback f set resolved_episode_id = found.episode_id, resolved_call_id = found.call_id
     from found where f.key = found.key and f.feedback_id = found.feedback_id
     returning found.episode_id`,
    [],
    { name: 'resolve_pending' },
  );
  const episodes = [...new Set(rows.map((row) => row.episode_id).filter((id) => id !== null))];
  await summarise(tx, new Map(episodes.map((id) => [id, 0])));
  return rows.length;
}
