/**
 * Erasing what lies in archives: the archive is written anew without it, and the old files go. Where one is not there, or not as
 * it was written, that is reported by name: it still holds what should be gone, and nothing of it will be restored.
 */
import { dirname } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { EXTENSIONS } from '../../ingest/events/decode.ts';
import { isRecord } from '../../ingest/events/json.ts';
import type { Db, Session } from '../db/pool.ts';
import { anyOf, countOf, firstOf, query, rowsOf } from '../db/query.ts';
import type { LoggedEvent } from '../projecting/amend.ts';
import { takeLock } from '../projecting/rebuilding/lock.ts';
import { dropRemains } from '../projecting/rebuilding/rebuild.ts';
import { traceEventsOf } from '../projecting/traces.ts';
import { type ArchiveRow, archivesOf, keep, keepArchive, sweepArchives } from './archives.ts';
import { type EraseOptions, type Erasure, erase } from './erase.ts';
import { type EraseWhat, tasksOfSubject } from './erase-scope.ts';
import { type ArchivedEvent, type ArchiveManifest, artifactsIn, eventsIn, readManifest } from './files.ts';
import type { ArchiveFiles, Places } from './places.ts';
import { archiveId, schemaOf } from './prune.ts';

export type ArchivedScope = {
  readonly keys: readonly string[];
  readonly events: number;
  /** Archives that hold some of it. */
  readonly archives: readonly { readonly archive: ArchiveRow; readonly keys: readonly string[] }[];
  /** Archives that hold some of it, or may, and cannot be read. */
  readonly unread: readonly { readonly archive: ArchiveRow; readonly why: string }[];
};

/** What of an episode or a person lies in archives. A person is looked for in all of them. */
export async function archivedScope(db: Db, what: EraseWhat, places: Places): Promise<ArchivedScope> {
  const rows = await archivesOf(db, ['kept', 'restored']);
  const named = 'episode' in what ? await archiveOf(db, `e/${what.episode}`) : null;
  const archives: ArchivedScope['archives'][number][] = [];
  const unread: ArchivedScope['unread'][number][] = [];
  const tasks = 'subject' in what && rows.length > 0 ? await tasksOfSubject(db, what.subject) : new Set<string>();
  const naming = new Set<string>();
  let events = 0;
  for (const archive of rows) {
    if ('episode' in what && archive.state === 'kept' && archive.archive_id !== named) continue;
    try {
      const found = await keysIn((await places(archive.uri)).at(archive.uri), what, tasks);
      for (const task of found.naming) naming.add(task);
      events += archive.state === 'kept' ? found.events : 0;
      if (found.keys.length > 0) archives.push({ archive, keys: found.keys });
    } catch (error) {
      if (!(error instanceof TroupeError)) throw error;
      // What was restored is in the database again; whoever removed the folder has done right.
      if (archive.state === 'kept' || error.code !== 'not_found') unread.push({ archive, why: error.message });
    }
  }
  const own = named === null || !('episode' in what) ? [] : [`e/${what.episode}`];
  const keys = [...new Set([...own, ...archives.flatMap((one) => one.keys)])].sort();
  return { keys: await unplayed(db, keys, naming), events, archives, unread };
}

async function archiveOf(db: Db, key: string): Promise<string | null> {
  const pruned = await firstOf(db, query.selectFrom('troupe.pruned').select('archive_id').where('key', '=', key));
  return pruned?.archive_id ?? null;
}

/** Tasks that an episode of the database plays stay, but those that name the subject. */
async function unplayed(db: Db, keys: readonly string[], naming: ReadonlySet<string>): Promise<string[]> {
  const tasks = keys.filter((key) => key.startsWith('t/')).map((key) => key.slice(2));
  const rows = await rowsOf(
    db,
    query.selectFrom('facts.episodes').select('task_id').distinct().where('task_id', '=', anyOf(tasks)),
  );
  const played = new Set(rows.map((row) => `t/${row.task_id}`));
  return keys.filter((key) => naming.has(key) || !played.has(key));
}

/**
 * The keys of one archive that belong to them: what names the subject, episodes that play a task which does (`tasks`: those of the database),
 * and tasks that none of its other episodes plays. `naming`: its tasks that name the subject.
 */
async function keysIn(files: ArchiveFiles, what: EraseWhat, tasks: ReadonlySet<string>) {
  const { manifest } = await readManifest(files);
  const found = new Set<string>('episode' in what ? [`e/${what.episode}`] : []);
  const counts = new Map<string, number>();
  const answers: { readonly key: string; readonly id: string }[] = [];
  const played: { readonly key: string; readonly task: string }[] = [];
  const spans = new Map<string, ArchivedEvent[]>();
  const note = (key: string, data: unknown): void => {
    if (!isRecord(data)) return;
    const { subject, tags, response_id, task_id } = data;
    const named = [subject, ...[tags, data[EXTENSIONS]].map((one) => (isRecord(one) ? one.subject : undefined))];
    if ('subject' in what && named.includes(what.subject)) found.add(key);
    if (typeof response_id === 'string') answers.push({ key, id: response_id });
    if (typeof task_id === 'string' && key.startsWith('e/')) played.push({ key, task: `t/${task_id}` });
  };
  for await (const rows of eventsIn(files, manifest)) {
    for (const row of rows) {
      counts.set(row.key, (counts.get(row.key) ?? 0) + 1);
      note(row.key, JSON.parse(row.data));
      if (row.name !== 'span.recorded') continue;
      const trace = spans.get(row.key);
      if (trace) trace.push(row);
      else spans.set(row.key, [row]);
    }
  }
  for (const trace of spans.values())
    for (const { key, data } of traceEventsOf(trace.map(storedOf)).events) note(key, data);
  const naming = [...found].filter((key) => key.startsWith('t/'));
  for (const { key, task } of played) if (tasks.has(task) || naming.includes(task)) found.add(key);
  for (const { key, id } of answers) if (found.has(key)) found.add(`x/${id}`);
  for (const key of [...found]) if (key.startsWith('e/')) found.add(`x/${key.slice(2)}`);
  const keys = [...found].filter((key) => counts.has(key));
  const others = new Set(played.filter(({ key }) => !found.has(key)).map(({ task }) => task));
  const alone = new Set(played.filter(({ key, task }) => found.has(key) && !others.has(task)).map(({ task }) => task));
  const events = keys.reduce((sum, key) => sum + counts.get(key)!, 0);
  return { keys: keys.length === 0 ? [] : [...new Set([...keys, ...alone])], naming, events };
}

/** Events derived from spans do not depend on when these were recorded. */
const storedOf = ({ key, source, id, name, type_version, data }: ArchivedEvent): LoggedEvent => ({
  key,
  source,
  id,
  name: name as LoggedEvent['name'],
  type_version,
  time: null,
  data: JSON.parse(data),
});

export type ErasedEverywhere = Erasure & {
  /** Archives that held it. Where `rewritten` is false it is still there, and `why` explains what to do. */
  readonly archives: readonly {
    readonly archive_id: string;
    readonly uri: string;
    readonly rewritten: boolean;
    readonly why: string | null;
  }[];
};

type Rewriting = { readonly codeVersion: string; readonly places: Places };

/** `erase`, and what lies in archives. Needs a pool of two connections or more. @throws TroupeError as `erase` does, and `conflict`. */
export const eraseEverywhere = (
  db: Db,
  what: EraseWhat,
  options: Omit<EraseOptions, 'archived'> & Rewriting,
): Promise<ErasedEverywhere> => {
  const { places, patiently = (work) => work() } = options;
  // Once it is done, what another attempt looks for is no longer there to be found.
  let erased: Erasure | null = null;
  const attempt = async (lock: Session): Promise<ErasedEverywhere> => {
    await takeLock(lock);
    // What an interrupted rebuild left holds the text too; the lock is held here.
    await dropRemains(lock);
    await sweepArchives(db, places);
    const scope = await archivedScope(db, what, places);
    // First, since from then on it is refused and never restored, whatever happens to the files.
    erased ??= await erase(db, what, { ...options, archived: scope.keys }).catch((error: unknown) => {
      throw alsoUnread(error, scope);
    });
    const archives: ErasedEverywhere['archives'][number][] = [];
    for (const { archive, keys } of scope.archives) {
      const uri = await rewrite(db, archive, keys, options);
      archives.push({ archive_id: archive.archive_id, uri, rewritten: true, why: null });
    }
    for (const { archive, why } of scope.unread)
      archives.push({ archive_id: archive.archive_id, uri: archive.uri, rewritten: false, why });
    await sweepArchives(db, places);
    return { ...erased, archives };
  };
  return patiently(() => db.transaction(attempt));
};

/** Nothing was found, as far as could be seen. */
function alsoUnread(error: unknown, { unread }: ArchivedScope): unknown {
  if (!(error instanceof TroupeError) || error.code !== 'not_found' || unread.length === 0) return error;
  const folders = unread.map(({ archive }) => archive.uri).join(', ');
  return new TroupeError('not_found', `${error.message} These archives could not be looked into: ${folders}.`);
}

/** Answers with the address of what took its place; the old one where nothing was left to keep. */
async function rewrite(
  db: Db,
  old: ArchiveRow,
  keys: readonly string[],
  { now, codeVersion, places }: Rewriting & { readonly now: () => Date },
): Promise<string> {
  const files = (await places(old.uri)).at(old.uri);
  const { manifest } = await readManifest(files);
  const gone = new Set(keys);
  const left = manifest.episodes - keys.filter((key) => key.startsWith('e/')).length;
  const facts = {
    archive_id: archiveId(now()),
    code_version: codeVersion,
    schema: await schemaOf(db),
    written_at: now().toISOString(),
    episodes: left,
    groups: Math.min(manifest.groups, left),
  };
  const source = { events: without(eventsIn(files, manifest), gone), body: bodyFrom(files, manifest) };
  const written = await keepArchive(db, { parent: dirname(old.uri), places }, facts, source);
  const empty = written.manifest.events === 0;
  await db.transaction(async (tx) => {
    const becomes = (archive_id: string, state: ArchiveRow['state']) =>
      countOf(tx, query.updateTable('troupe.archives').set({ state }).where('archive_id', '=', archive_id));
    const gone = query.deleteFrom('troupe.pruned').where('archive_id', '=', old.archive_id);
    await countOf(tx, empty ? gone : gone.where('key', '=', anyOf(keys)));
    if (!empty) {
      await keep(tx, written);
      await becomes(written.archive_id, old.state);
      const { archive_id } = written;
      await countOf(
        tx,
        query.updateTable('troupe.pruned').set({ archive_id }).where('archive_id', '=', old.archive_id),
      );
    }
    await becomes(old.archive_id, 'replaced');
  });
  return empty ? old.uri : written.uri;
}

async function* without(
  events: AsyncIterable<readonly ArchivedEvent[]>,
  keys: ReadonlySet<string>,
): AsyncGenerator<ArchivedEvent[]> {
  for await (const rows of events) yield rows.filter(({ key }) => !keys.has(key));
}

/** Bodies of an archive, which must be asked for in the order of their hashes: one file at a time is held. */
function bodyFrom(archive: ArchiveFiles, manifest: ArchiveManifest): (sha256: string) => Promise<Uint8Array | null> {
  const files = artifactsIn(archive, manifest);
  let held = new Map<string, Uint8Array>();
  let last = '';
  return async (sha256) => {
    while (last < sha256) {
      const next = await files.next();
      if (next.done) break;
      held = new Map(next.value.map((row) => [row.sha256, row.body]));
      last = next.value.at(-1)!.sha256;
    }
    return held.get(sha256) ?? null;
  };
}
