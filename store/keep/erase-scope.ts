/** What belongs to an episode or a person: the keys of the log, and what was made of them. */
import { EXTENSIONS } from '../../ingest/events/decode.ts';
import { LONGEST, OWN_MARK } from '../../ingest/log/split.ts';
import type { Session } from '../db/pool.ts';
import { anyOf, firstOf, pathHere, query, rowsOf, type SqlBool, sql } from '../db/query.ts';
import { tagReads } from '../filter/select.ts';
import { ERASED } from './erase-text.ts';

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
 * episodes, tasks, feedback; the events derived from spans count as well, and are looked up in the tables. A task that names the subject
 * takes every episode along that plays it, also one that came after the task was erased: from then on nothing says whose task it was, so every
 * erasure of a subject takes what is left of all of them. A task that no other episode plays goes with its episodes, and so does feedback
 * that was attached to them by a foreign id. `archived`: keys of theirs that were pruned.
 */
export async function scopeOf(tx: Session, what: EraseWhat, archived: readonly string[] = []): Promise<Scope> {
  const named = 'episode' in what ? [`e/${what.episode}`] : await keysOfSubject(tx, what.subject);
  const playing = await keysPlaying(tx, [...named, ...archived]);
  const left = 'episode' in what ? [] : await keysLeft(tx);
  const keys = [...new Set([...named, ...playing, ...left, ...archived])];
  const episodes = keys.filter((key) => key.startsWith('e/')).map((key) => key.slice(2));
  const tasks = query
    .selectFrom('facts.episodes as e')
    .select(sql<string>`'t/' || e.task_id`.as('key'))
    .where('e.episode_id', '=', anyOf(episodes))
    .where('e.task_id', 'is not', null)
    .where((episode) =>
      episode.not(
        episode.exists(
          episode
            .selectFrom('facts.episodes as o')
            .select('o.episode_id')
            .whereRef('o.task_id', '=', 'e.task_id')
            .where((other) => other.not(other('o.episode_id', '=', anyOf(episodes)))),
        ),
      ),
    );
  const attached = query
    .selectFrom('facts.feedback')
    .select('key')
    .where('resolved_episode_id', '=', anyOf(episodes))
    .where('target_kind', '=', 'foreign');
  const more = await rowsOf(tx, tasks.union(attached));
  const all = [...new Set([...keys, ...more.map((row) => row.key)])].sort();
  const counted = await firstOf(
    tx,
    query.selectFrom('troupe.events').select(sql<number>`count(*)::integer`.as('n')).where('key', '=', anyOf(all)),
  );
  const rows = query.selectFrom('facts.dataset_rows').select('dataset_id').where('episode_id', '=', anyOf(episodes));
  const datasets = await rowsOf(
    tx,
    query
      .selectFrom('facts.datasets')
      .select(['dataset_id', pathHere<string | null>('uri').as('uri')])
      .where('dataset_id', 'in', rows)
      .orderBy('dataset_id'),
  );
  // Rows that were held out, or served validation or test, are in no weights.
  const taught = query
    .selectFrom('facts.dataset_rows')
    .select('dataset_id')
    .where('episode_id', '=', anyOf(episodes))
    .where(sql<SqlBool>`split_part(split, '.', 1) = 'train'`);
  const checkpoints = await rowsOf(
    tx,
    query
      .withRecursive('used', (q) =>
        q
          .selectFrom('facts.checkpoints as c')
          .crossJoinLateral(
            sql<{ id: string }>`json_array_elements_text(coalesce(c.dataset_ids, '[]'))`.as<'d'>(sql`d (id)`),
          )
          .select('c.checkpoint_id')
          .where('d.id', 'in', taught)
          .union((later) =>
            later
              .selectFrom('facts.checkpoints as c')
              .innerJoin('used as u', 'u.checkpoint_id', 'c.parent_id')
              .select('c.checkpoint_id'),
          ),
      )
      .selectFrom('used')
      .select('checkpoint_id')
      .orderBy('checkpoint_id'),
  );
  const names = ['subject' in what ? what.subject : what.episode, ...episodes].map((name) => Buffer.from(name));
  const letters = await rowsOf(
    tx,
    query
      .selectFrom('troupe.dead_letters as d')
      .select('d.dead_letter_id as id')
      .where(({ exists, selectFrom }) =>
        exists(
          selectFrom(sql<{ name: Buffer }>`unnest(${names}::bytea[])`.as<'n'>(sql`n (name)`))
            .select('n.name')
            .where(sql<SqlBool>`position(n.name in d.raw) > 0`),
        ),
      ),
  );
  return {
    keys: all,
    episodes,
    events: counted!.n,
    datasets,
    checkpoints: checkpoints.map((row) => row.checkpoint_id),
    letters: letters.map((row) => row.id),
  };
}

/** Keys of the episodes that play one of the tasks among these keys. */
async function keysPlaying(tx: Session, keys: readonly string[]): Promise<string[]> {
  const tasks = keys.filter((key) => key.startsWith('t/')).map((key) => key.slice(2));
  if (tasks.length === 0) return [];
  const playing = query
    .selectFrom('facts.episodes')
    .select(sql<string>`'e/' || episode_id`.as('key'))
    .where('task_id', '=', anyOf(tasks));
  return (await rowsOf(tx, playing)).map((row) => row.key);
}

/** Keys of the episodes that play a task which was erased because it named a subject, and that are not erased themselves. */
async function keysLeft(tx: Session): Promise<string[]> {
  const left = query
    .selectFrom('facts.episodes as e')
    .leftJoin('troupe.erased as x', (join) => join.on('x.key', '=', sql<string>`'e/' || e.episode_id`))
    .select(sql<string>`'e/' || e.episode_id`.as('key'))
    .where(sql<string>`'t/' || e.task_id`, 'in', erasedTasks())
    .where('x.key', 'is', null);
  return (await rowsOf(tx, left)).map((row) => row.key);
}

/** Tasks whose definition named a subject until it was erased. */
const erasedTasks = () =>
  query
    .selectFrom('troupe.stored_events')
    .select('key')
    .where('key', '>=', 't/')
    .where('key', '<', 't0')
    .where(
      sql<SqlBool>`case when json_typeof(data -> 'tags') = 'object' then data -> 'tags' ->> 'subject' end = ${ERASED}`,
    );

/** Keys of the tasks that name a subject, and of those that named one until they were erased. */
export async function tasksOfSubject(tx: Session, subject: string): Promise<ReadonlySet<string>> {
  const keys = [...(await keysOfSubject(tx, subject)), ...(await rowsOf(tx, erasedTasks())).map((row) => row.key)];
  return new Set(keys.filter((key) => key.startsWith('t/')));
}

/** Keys of the events that name the subject themselves; the index of the few that name anyone finds them. */
export function keysNaming(subject: string) {
  // Events are read as they are stored, without putting every text in its place. A subject that is the id of
  // the event's key stands there as a mark; one that is longer than what stays in an event is looked for in the whole events.
  const isStored = subject.length <= LONGEST;
  const is = sql`in (${subject}, case when ${isStored} and substr(key, 3) = ${subject} then ${OWN_MARK} end)`;
  return query
    .selectFrom(isStored ? 'troupe.stored_events' : 'troupe.events')
    .select('key')
    .where(sql<SqlBool>`strpos(data::text, '"subject"') > 0`)
    .where(
      sql<SqlBool>`(data ->> 'subject' ${is} or data -> ${EXTENSIONS} ->> 'subject' ${is} or case when json_typeof(data -> 'tags') = 'object' then data -> 'tags' ->> 'subject' end ${is})`,
    );
}

async function keysOfSubject(tx: Session, subject: string): Promise<string[]> {
  const tagged = query
    .selectFrom('facts.episodes')
    .select(sql<string>`'e/' || episode_id`.as('key'))
    .where(tagReads('tags', 'subject', subject));
  const tasks = query
    .selectFrom('facts.tasks')
    .select(sql<string>`'t/' || task_id`.as('key'))
    .where(tagReads('tags', 'subject', subject));
  const rows = await rowsOf(tx, keysNaming(subject).union(tagged).union(tasks));
  return rows.map((row) => row.key);
}
