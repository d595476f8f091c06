/**
 * Erasure: the one lawful change of an event. In one transaction the text of the events is replaced in place and the tables about
 * them are made again; identity, type, time and order stay. What was erased is refused when it comes again. Hashes that are left are
 * keyed with a key that nobody keeps, so that they confirm no guess.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { TroupeError } from '../../errors.ts';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Draft, EventName } from '../../ingest/events/events.ts';
import { groupBy } from '../../ingest/events/group-by.ts';
import { canonicalJson, sha256 } from '../../ingest/events/json.ts';
import { newestVersion, upcast } from '../../ingest/events/upcast/catalogue.ts';
import { erasedItem, type SpanItem } from '../../ingest/formats/traces/live-traces.ts';
import type { EventLog } from '../../ingest/log/log.ts';
import { appendOwn } from '../../ingest/log/own-event.ts';
import { IDENTITY, identityOf, keepBodies, removeBodies } from '../../ingest/log/postgres.ts';
import { splitData } from '../../ingest/log/split.ts';
import type { Patiently } from '../db/patience.ts';
import type { Db, Session } from '../db/pool.ts';
import { anyOf, countOf, firstOf, query, rowsOf, type SqlBool, sql, typed } from '../db/query.ts';
import { judgingsAbout } from '../evaluate/judging/judgings-about.ts';
import type { LoggedEvent } from '../projecting/amend.ts';
import { dropRemains } from '../projecting/rebuilding/rebuild.ts';
import { forgetKeys, reprojectKeys } from '../projecting/reproject.ts';
import { traceEventsOf } from '../projecting/traces.ts';
import { type EraseWhat, type Scope, scopeOf } from './erase-scope.ts';
import { eraseAmendment, eraseText } from './erase-text.ts';
import { judgingsAround } from './judged-again.ts';
import { standStill } from './remove.ts';

export type EraseOptions = {
  readonly log: EventLog;
  readonly now: () => Date;
  readonly reason?: string | null;
  /** Keys of theirs whose events lie in archives, which the caller rewrites. */
  readonly archived?: readonly string[];
  /** Computes these judgings again, into the schema of the transaction's search_path. */
  readonly judge: (tx: Session, judgings: readonly string[]) => Promise<void>;
  /** Removes a body from the artifacts; false where it was not there. */
  readonly removeBody: (sha256: string) => Promise<boolean>;
  /** Removes the files of a dataset; false where they are not ours to remove. */
  readonly removeDataset: (dataset: Scope['datasets'][number]) => Promise<boolean>;
  /** Tries again what the environment failed at; once only if omitted. */
  readonly patiently?: Patiently;
};

export type Erasure = Omit<Scope, 'keys' | 'datasets'> & {
  readonly erasure_id: string;
  readonly bodies: number;
  readonly datasets: readonly { readonly dataset_id: string; readonly removed: boolean }[];
};

/** What an erasure would touch; changes nothing. */
export const planErasure = (db: Db, what: EraseWhat, archived: readonly string[] = []): Promise<Scope> =>
  db.transaction((tx) => scopeOf(tx, what, archived), { isolation: 'repeatable read', readOnly: true });

/** @throws TroupeError `not_found` where nothing in the log belongs to the episode or subject. */
export async function erase(db: Db, what: EraseWhat, options: EraseOptions): Promise<Erasure> {
  const erasureId = randomBytes(8).toString('hex');
  const now = options.now().toISOString();
  const { patiently = (work) => work() } = options;
  let done: EraseResult | null = null;
  await patiently(async () => {
    // A commit whose answer was lost has happened, or not.
    if (done !== null && (await isNoted(db, erasureId))) return;
    await db.transaction(async (tx) => {
      done = await eraseIn(tx, what, { ...options, erasureId, now });
    });
  });
  const { erasure, amended } = done! as EraseResult;
  // The amendments go through the log like every event; they record that, not what, was erased.
  const drafts = amended.map(
    ({ key, source, id }): Draft => ({
      name: 'record.amended',
      source: '/erase',
      id: `${erasureId}/${sha256(key).slice(0, 16)}`,
      time: now,
      data: { key, target: { source, id }, op: 'erase', reason: options.reason ?? null },
    }),
  );
  await patiently(() => appendOwn(options.log, drafts));
  return erasure;
}

async function isNoted(db: Db, erasureId: string): Promise<boolean> {
  const noted = query.selectFrom('troupe.erasures').select('erasure_id').where('erasure_id', '=', erasureId);
  return (await firstOf(db, noted)) !== undefined;
}

type Change = Omit<EraseOptions, 'now'> & { readonly erasureId: string; readonly now: string };
type EraseResult = {
  readonly erasure: Erasure;
  readonly amended: readonly Pick<LoggedEvent, 'key' | 'source' | 'id'>[];
};

async function eraseIn(
  tx: Session,
  what: EraseWhat,
  change: Omit<Change, 'now'> & { readonly now: string },
): Promise<EraseResult> {
  // What an interrupted rebuild left holds the text too; one that runs learns of it by the amendments.
  await dropRemains(tx);
  // An event that is appended or projected meanwhile would bring text back beside us.
  await standStill(tx);
  const scope = await scopeOf(tx, what, change.archived);
  if (scope.events === 0 && scope.letters.length === 0 && (change.archived ?? []).length === 0) {
    const name = 'subject' in what ? `subject ${what.subject}` : `episode ${what.episode}`;
    throw new TroupeError('not_found', `Nothing in the log belongs to the ${name}; nothing was changed.`);
  }
  const key = randomBytes(32);
  const digest = (hash: string): string => createHmac('sha256', key).update(hash).digest('hex');
  const { events, bodies, files } = await scrub(tx, scope.keys, digest);
  await scrubLetters(tx, scope.letters, digest);

  const shown = new Set(await shownAmong(tx, scope.keys));
  const judgings = await (shown.size > 0 ? judgingsAround : judgingsAbout)(tx, scope.episodes);
  await reprojectKeys(
    tx,
    scope.keys.filter((key) => !shown.has(key)),
  );
  // No event of theirs is left, here or in the archive.
  await forgetKeys(tx, [...shown], []);
  await change.judge(tx, judgings);

  // Before the commit: should that fail, what is left is erased by erasing again, while scrubbed events no longer name their bodies.
  let removedBodies = files;
  for (const body of bodies) if (await change.removeBody(body)) removedBodies++;
  const datasets: Erasure['datasets'][number][] = [];
  for (const dataset of scope.datasets) {
    datasets.push({ dataset_id: dataset.dataset_id, removed: await change.removeDataset(dataset) });
  }
  await note(tx, what, { ...scope, change, datasets });
  const first = new Map(events.map((event) => [event.key, event] as const).reverse());
  const { keys: _, ...report } = scope;
  return {
    erasure: { ...report, erasure_id: change.erasureId, bodies: removedBodies, datasets },
    amended: [...first.values()].map(({ key, source, id }) => ({ key, source, id })),
  };
}

/** Those of these keys that lie in archives and have rows all the same. */
async function shownAmong(tx: Session, keys: readonly string[]): Promise<string[]> {
  const shown = query
    .selectFrom('troupe.pruned')
    .select('key')
    .where('key', '=', anyOf(keys))
    .where('in_tables', '=', true);
  return (await rowsOf(tx, shown)).map((row) => row.key);
}

type ScrubResult = {
  readonly events: readonly LoggedEvent[];
  /** Bodies of artifacts that they named. */
  readonly bodies: ReadonlySet<string>;
  /** Images and files of their messages that nothing else named, and that are gone. */
  readonly files: number;
};

async function scrub(tx: Session, keys: readonly string[], digest: (hash: string) => string): Promise<ScrubResult> {
  const events = (await rowsOf(
    tx,
    query
      .selectFrom('troupe.events')
      .select(['key', 'source', 'id', 'name', 'type_version', 'time', 'data', 'digest'])
      .where('key', '=', anyOf(keys))
      .orderBy('key')
      .orderBy('position')
      .forUpdate(),
  )) as (LoggedEvent & { readonly digest: string })[];
  const bodies = new Set<string>();
  const byIdentity = new Map(events.map((event) => [`${event.source}\n${event.id}`, event.name as EventName]));
  const traces = erasedTraces(events, digest);
  const scrubbed = events.map((event) => {
    const data = upcast(event.name, event.type_version, event.data) as Record<string, unknown>;
    const raw = (data.raw as { artifact_id?: unknown } | null | undefined)?.artifact_id;
    for (const body of [data.sha256, raw]) if (typeof body === 'string') bodies.add(body);
    const target = data.target as { source?: string; id?: string } | undefined;
    const { key, source, id, name } = event;
    const span = traces.get(event);
    const erased =
      span !== undefined
        ? { episode_id: data.episode_id, ...span }
        : event.name === 'record.amended'
          ? eraseAmendment(data, byIdentity.get(`${target?.source}\n${target?.id}`) ?? null, digest)
          : eraseText(event.name, data, digest);
    // What is written anew is of the newest version.
    const type_version = Math.max(event.type_version, newestVersion(name));
    const valid = requireValid({ ...event, type_version }, erased);
    const split = splitData(name, key, valid, canonicalJson(valid));
    return {
      identity: identityOf({ key, source, id }),
      type_version,
      digest: `${ERASED_DIGEST}${digest(event.digest)}`,
      split,
    };
  });
  // These hold messages; of calls derived from spans also their input.
  const files = await removeBodies(tx, keys);
  await keepBodies(
    tx,
    scrubbed.flatMap(({ split }) => split.bodies),
  );
  const rows = scrubbed.map(({ split, ...event }) => ({ ...event, data: split.json }));
  await countOf(
    tx,
    query
      .updateTable('troupe.stored_events as e')
      .from(
        sql<(typeof rows)[number]>`json_to_recordset(${JSON.stringify(rows)}::json)`.as<'r'>(
          sql`r (identity text, type_version smallint, digest text, data text)`,
        ),
      )
      .set({
        type_version: sql<number>`r.type_version`,
        data: sql<string>`r.data::json`,
        digest: sql<Buffer>`convert_to(r.digest, 'UTF8')`,
      })
      .where(sql<SqlBool>`${sql.raw(IDENTITY)} = r.identity`),
  );
  return { events, bodies, files };
}

/** Spans are of many formats, so the events derived from them are erased and take their place: rows and ids stay as they were. */
function erasedTraces(
  events: readonly LoggedEvent[],
  digest: (hash: string) => string,
): ReadonlyMap<LoggedEvent, SpanItem> {
  const spans = groupBy(
    events.filter(({ name }) => name === 'span.recorded'),
    ({ key }) => key,
  );
  const items = new Map<LoggedEvent, SpanItem>();
  for (const [first, ...others] of spans.values()) {
    const derived = traceEventsOf([first!, ...others]).events.map(({ name, source, id, time, data }) => {
      const text = eraseText(name, data, digest);
      return { name, source, id, time, data: text } as unknown as Draft;
    });
    items.set(first!, erasedItem(derived));
    for (const other of others) items.set(other, erasedItem([]));
  }
  return items;
}

/** Begins the digest of an erased event. */
const ERASED_DIGEST = 'erased:';

/** An event that validation would refuse could not be read again. */
function requireValid(event: LoggedEvent, data: Record<string, unknown>): unknown {
  const decoded = decodeDraft({ ...event, data } as unknown as Draft);
  if (decoded.event && decoded.event.key === event.key) return decoded.event.data;
  const why = decoded.refusal ? `${decoded.refusal.field} should be ${decoded.refusal.expected}` : 'its key changed';
  throw new TroupeError(
    'internal',
    `The event ${event.id} of ${event.source} cannot be erased: ${why}. Nothing was changed.`,
  );
}

async function scrubLetters(tx: Session, letters: readonly number[], digest: (hash: string) => string): Promise<void> {
  const rows = await rowsOf(
    tx,
    query
      .selectFrom('troupe.dead_letters')
      .select(['dead_letter_id', 'digest'])
      .where('dead_letter_id', '=', anyOf(letters, 'bigint'))
      .forUpdate(),
  );
  for (const letter of rows) {
    // One record may be refused for several fields: their names go, so its letters differ by their numbers.
    const own = digest(`${letter.digest} ${letter.dead_letter_id}`);
    const scrubbed = { raw: Buffer.alloc(0), place: null, field: '', got: 'erased', digest: own };
    await countOf(
      tx,
      query.updateTable('troupe.dead_letters').set(scrubbed).where('dead_letter_id', '=', letter.dead_letter_id),
    );
  }
}

type ErasureNote = Omit<Scope, 'datasets'> & { readonly change: Change; readonly datasets: Erasure['datasets'] };

async function note(
  tx: Session,
  what: EraseWhat,
  { keys, events, episodes, checkpoints, datasets, change: { erasureId, now, reason = null } }: ErasureNote,
): Promise<void> {
  const kind = 'subject' in what ? 'subject' : 'episode';
  const used = JSON.stringify([
    ...checkpoints.map((id) => ({ kind: 'checkpoint', id, removed: false })),
    ...datasets.map(({ dataset_id, removed }) => ({ kind: 'dataset', id: dataset_id, removed })),
  ]);
  const erasure = { erasure_id: erasureId, kind, reason, events, episodes: episodes.length, erased_at: now, used };
  await countOf(tx, query.insertInto('troupe.erasures').values(erasure));
  await countOf(
    tx,
    query
      .insertInto('troupe.erased')
      .columns(['key', 'erasure_id'])
      .expression(
        query.selectNoFrom([
          sql<string>`unnest(${keys}::text[])`.as('key'),
          sql<string>`${typed(erasureId, 'text')}`.as('erasure_id'),
        ]),
      )
      .onConflict((known) => known.doNothing()),
  );
}
