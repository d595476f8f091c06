/** What belongs to an episode or a person: the keys of the log, and what was made of them. */
import type { Session } from '../db/pool.ts';

export type EraseWhat = { readonly subject: string } | { readonly episode: string };

export type Scope = {
  /** Keys that are erased whole, and refused from then on. */
  readonly keys: readonly string[];
  readonly episodes: readonly string[];
  readonly events: number;
  readonly datasets: readonly { readonly dataset_id: string; readonly uri: string | null }[];
  /** Trained on those datasets, or from a checkpoint that was. */
  readonly checkpoints: readonly string[];
  /** Refused records whose bytes name the episode or the person. */
  readonly letters: readonly number[];
};

/**
 * An episode is erased whole. A subject's are the keys of all events that name it in `subject`, or in a member `subject` of `tags`:
 * episodes, tasks, feedback; what the spans of a trace tell counts as well, and is looked for in the tables. A task that no other
 * episode plays goes with its episodes, and so does feedback that was attached to them by a foreign id. `archived`: keys of theirs
 * that were pruned.
 */
export async function scopeOf(tx: Session, what: EraseWhat, archived: readonly string[] = []): Promise<Scope> {
  const named = 'episode' in what ? [`e/${what.episode}`] : await keysOfSubject(tx, what.subject);
  const keys = [...new Set([...named, ...archived])];
  const episodes = keys.filter((key) => key.startsWith('e/')).map((key) => key.slice(2));
  const { rows: more } = await tx.query<{ key: string }>(
    `select distinct 't/' || task_id as key from facts.episodes e where e.episode_id = any($1::text[]) and task_id is not null
       and not exists (select from facts.episodes o where o.task_id = e.task_id and o.episode_id <> all($1::text[]))
     union select key from facts.feedback where resolved_episode_id = any($1::text[]) and target_kind = 'foreign'`,
    [episodes],
  );
  const all = [...new Set([...keys, ...more.map((row) => row.key)])].sort();
  const { rows: counted } = await tx.query<{ n: number }>(
    'select count(*)::integer as n from troupe.events where key = any($1::text[])',
    [all],
  );
  const { rows: datasets } = await tx.query<{ dataset_id: string; uri: string | null }>(
    `select dataset_id, uri from facts.datasets where dataset_id in (select dataset_id from facts.dataset_rows where episode_id = any($1::text[])) order by 1`,
    [episodes],
  );
  const { rows: checkpoints } = await tx.query<{ checkpoint_id: string }>(
    `with recursive used as (
       select c.checkpoint_id from facts.checkpoints c cross join lateral json_array_elements_text(coalesce(c.dataset_ids, '[]')) d (id) where d.id = any($1::text[])
       union select c.checkpoint_id from facts.checkpoints c join used u on c.parent_id = u.checkpoint_id
     ) select checkpoint_id from used order by 1`,
    [datasets.map((row) => row.dataset_id)],
  );
  const { rows: letters } = await tx.query<{ id: number }>(
    `select dead_letter_id::float8 as id from troupe.dead_letters d
     where exists (select from unnest($1::bytea[]) n (name) where position(n.name in d.raw) > 0)`,
    [['subject' in what ? what.subject : what.episode, ...episodes].map((name) => Buffer.from(name))],
  );
  return {
    keys: all,
    episodes,
    events: counted[0]!.n,
    datasets,
    checkpoints: checkpoints.map((row) => row.checkpoint_id),
    letters: letters.map((row) => row.id),
  };
}

async function keysOfSubject(tx: Session, subject: string): Promise<string[]> {
  const { rows } = await tx.query<{ key: string }>(
    `select distinct key from troupe.events
     where data ->> 'subject' = $1 or case when json_typeof(data -> 'tags') = 'object' then data -> 'tags' ->> 'subject' end = $1
     union select 'e/' || episode_id from facts.episodes where case when json_typeof(tags) = 'object' then tags ->> 'subject' end = $1`,
    [subject],
  );
  return rows.map((row) => row.key);
}
