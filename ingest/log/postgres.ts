/**
 * The embedded log: `troupe.events` itself is the log. Positions are given under the lock of the partition's row, so within a
 * partition they commit in order and without gaps, and a reader that has seen position p has seen all before it.
 */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Refusal } from '../../errors.ts';
import type { Event } from '../events/events.ts';
import { bytesOf } from './base64.ts';
import { type CopyColumn, copyRows } from './copy-rows.ts';
import { KEYED } from './keyed.ts';
import {
  type AppendResult,
  type DeadLetter,
  ERASED_REFUSAL,
  type EventLog,
  type IngestLedger,
  type IngestReport,
  type PrunedKey,
} from './log.ts';
import { partitionOf } from './partition.ts';
import { type Body, type SplitEvent, splitEvent } from './split.ts';

/** The little of a database that the log needs; `Db` of the store is one. */
export type SqlClient = {
  query<Row = Record<string, unknown>>(
    sql: string,
    params?: readonly unknown[],
    options?: { readonly name?: string },
  ): Promise<{ readonly rows: Row[]; readonly count: number }>;
  /** Feeds a `COPY … FROM STDIN`. */
  copyIn(sql: string, source: Readable): Promise<number>;
};
export type SqlDatabase = SqlClient & {
  transaction<T>(work: (tx: SqlClient) => Promise<T>, options?: { readonly settings?: string }): Promise<T>;
};

/** Channel that is notified of appends; the payload is empty, readers query for themselves. */
export const LOG_CHANNEL = 'troupe_log';

export function postgresLog(db: SqlDatabase): EventLog {
  return {
    name: 'embedded',
    append: (events) =>
      events.length === 0 ? Promise.resolve([]) : db.transaction((tx) => appendIn(tx, events), { settings: KEYED }),
    close: async () => {},
  };
}

/** The same inside a transaction of the caller, which has the settings `KEYED`. */
export async function appendIn(tx: SqlClient, events: readonly Event[]): Promise<readonly AppendResult[]> {
  const { answers, placed } = await placeIn(tx, events);
  await writePlaced(tx, placed);
  return answers;
}

/** Number of the embedded log in `troupe.logs`. */
export const EMBEDDED_LOG = 0;

/** Where an event lies. `log` is a row of `troupe.logs`; of a topic, partition and position are those of the record. */
export type Place = { readonly log: number; readonly partition: number; readonly position: number };

/** An event that is new, and where it lies. */
export type PlacedEvent = Place & { readonly event: Event };

/** With what the archive holds of it. */
export type PlacedSplit = PlacedEvent & { readonly split: SplitEvent };

export const withSplit = (placed: PlacedEvent): PlacedSplit => ({ ...placed, split: splitEvent(placed.event) });

export type Places = {
  /** What becomes of each event. */
  readonly answers: readonly AppendResult[];
  /** Those that were accepted, in the order they came. */
  readonly placed: readonly PlacedEvent[];
};

/** Gives the new ones among these events their places, which the transaction keeps locked; `writePlaced` must follow. */
export async function placeIn(tx: SqlClient, events: readonly Event[]): Promise<Places> {
  const keys = [...new Set(events.map(({ key }) => key))];
  const partitions = new Map(keys.map((key) => [key, partitionOf(key)]));
  const locked = await tx.query<{ partition: number; next_position: number }>(
    'select partition, next_position from troupe.log_partitions where partition = any($1::smallint[]) order by partition for update',
    [[...new Set(partitions.values())]],
    { name: 'log_lock' },
  );
  const next = new Map(locked.rows.map((row) => [row.partition, Number(row.next_position)]));
  const answers = await lookUp(tx, events);
  const placed = events.flatMap((event, i): PlacedEvent[] => {
    if (answers[i] !== 'accepted') return [];
    const partition = partitions.get(event.key)!;
    const position = next.get(partition)!;
    next.set(partition, position + 1);
    return [{ event, log: EMBEDDED_LOG, partition, position }];
  });
  return { answers, placed };
}

/** What becomes of each event: whether it is new. The transaction holds the lock under which alone events of these keys are written. */
export async function lookUp(tx: SqlClient, events: readonly Event[]): Promise<readonly AppendResult[]> {
  const keys = [...new Set(events.map(({ key }) => key))];
  const gone = await goneAmong(tx, keys);
  // Under the lock nobody else writes these keys, so what is known now is all there is to know. Most keys of a batch are new. One event
  // at a time, since statistics of a table that was empty a moment ago talk a join into reading all of it.
  const known = await tx.query<{ identity: string; digest: string }>(
    `with begun as materialized (
       select b.key from unnest($3::text[]) as b (key) cross join lateral (select from troupe.stored_events e where e.key = b.key limit 1) e
     )
     select k.identity, encode(e.digest, 'hex') as digest
     from begun join unnest($1::text[], $2::text[]) as k (key, identity) using (key)
     cross join lateral (select * from troupe.stored_events e where ${IDENTITY} = k.identity offset 0) e`,
    [events.map((e) => e.key), events.map(identityOf), keys],
    { name: 'log_known' },
  );
  const digests = new Map(known.rows.map((row) => [row.identity, row.digest]));

  return events.map((event): AppendResult => {
    const went = gone.get(event.key);
    if (went !== undefined && !(went === 'erased' && isErasure(event))) return went;
    const name = identityOf(event);
    const before = digests.get(name);
    if (before !== undefined) return before === event.digest ? 'duplicate' : 'conflict';
    digests.set(name, event.digest);
    return 'accepted';
  });
}

/** Writes new events at their places, with the bodies that they name. */
export async function copyEvents(tx: SqlClient, placed: readonly PlacedSplit[]): Promise<void> {
  if (placed.length === 0) return;
  await keepBodies(
    tx,
    placed.flatMap(({ split }) => split.bodies),
  );
  const bytes = copyRows(placed.map(rowOf), COLUMNS);
  await tx.copyIn(
    `copy troupe.stored_events (${NAMES}) from stdin (format binary)`,
    Readable.from(bytes, { objectMode: false }),
  );
}

/** Writes what `placeIn` placed in this transaction. */
export async function writePlaced(tx: SqlClient, placed: readonly PlacedEvent[]): Promise<void> {
  if (placed.length === 0) return;
  const next = new Map(placed.map(({ partition, position }) => [partition, position + 1]));
  await copyEvents(tx, placed.map(withSplit));
  await tx.query(
    `with advanced as (
       update troupe.log_partitions l set next_position = n.position
       from unnest($1::smallint[], $2::bigint[]) as n (partition, position) where l.partition = n.partition
     )
     select pg_notify('${LOG_CHANNEL}', '')`,
    [[...next.keys()], [...next.values()]],
    { name: 'log_advance' },
  );
}

/**
 * Writes the bodies that are not there yet, in the order of their keys and hashes, so that two that write the same ones wait for each
 * other and neither for both. Of a key the most are there already: each call names the messages of those before it.
 */
export async function keepBodies(tx: SqlClient, bodies: readonly Body[]): Promise<void> {
  if (bodies.length === 0) return;
  // Most are the very same ones: the contexts of the calls in a batch share all but their ends.
  const wanted = new Map([...new Set(bodies)].map((body) => [body.key + body.hash, body]));
  const all = [...wanted.values()];
  const { rows } = await tx.query<{ key: string; hash: string }>(
    `select k.key, k.hash from unnest($1::text[], $2::uuid[]) as k (key, hash)
     cross join lateral (select from troupe.bodies b where b.key || b.hash::text = k.key || k.hash::text offset 0) b`,
    [all.map(({ key }) => key), all.map(({ hash }) => hash)],
    { name: 'bodies_known' },
  );
  for (const { key, hash } of rows) wanted.delete(key + hash);
  if (wanted.size === 0) return;
  const blobs = new Map<string, Buffer>();
  const missing = [...wanted.values()].map((body) => withoutBytes(body, blobs));
  if (blobs.size > 0) await keepBlobs(tx, blobs);
  await tx.query(
    `insert into troupe.bodies (key, hash, previous, body, blob, media_type)
     select * from unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::bytea[], $6::text[]) as b (key, hash, previous, body, blob, media_type)
     order by key collate "C", hash
     on conflict do nothing`,
    (['key', 'hash', 'previous', 'body', 'blob', 'media_type'] as const).map((name) =>
      missing.map((body) => body[name]),
    ),
    { name: 'bodies_keep' },
  );
}

/**
 * A body as its row, the bytes of a file or a shared text in `blobs` by their SHA-256. Base64 that would not come back as it was stays,
 * under its media type.
 */
function withoutBytes({ key, hash, previous, body, base64, shared }: Body, blobs: Map<string, Buffer>) {
  const row = { key, hash, previous, body, blob: null, media_type: base64?.media_type ?? null };
  const bytes = base64 ? bytesOf(body, base64.at) : shared ? Buffer.from(body) : null;
  if (bytes === null) return row;
  const sha256 = createHash('sha256').update(bytes).digest();
  blobs.set(sha256.toString('hex'), bytes);
  return { ...row, body: body.slice(0, base64?.at ?? 0), blob: sha256 };
}

/** Writes bytes that are not there yet. Until the transaction ends nobody removes any of them. */
async function keepBlobs(tx: SqlClient, blobs: ReadonlyMap<string, Buffer>): Promise<void> {
  const names = [...blobs.keys()].sort();
  const known = async () =>
    (
      await tx.query<{ name: string }>(
        `select encode(sha256, 'hex') as name from troupe.blobs where sha256 = any($1::bytea[]) order by 1 for key share`,
        [names.map((name) => Buffer.from(name, 'hex'))],
        { name: 'blobs_known' },
      )
    ).rows.map(({ name }) => name);
  // What another transaction removes meanwhile is written again.
  for (let there = new Set(await known()); there.size < names.length; there = new Set(await known())) {
    const missing = names.filter((name) => !there.has(name));
    await tx.query(
      'insert into troupe.blobs (sha256, bytes) select * from unnest($1::bytea[], $2::bytea[]) on conflict do nothing',
      [missing.map((name) => Buffer.from(name, 'hex')), missing.map((name) => blobs.get(name)!)],
      { name: 'blobs_keep' },
    );
  }
}

/** Removes the bodies of these keys, and the bytes that no other key names. Answers with how many images and files went. */
export async function removeBodies(tx: SqlClient, keys: readonly string[]): Promise<number> {
  const { rows } = await tx.query<{ blob: Buffer; file: boolean }>(
    `with gone as (delete from troupe.bodies where key = any($1::text[]) returning blob, media_type)
     select blob, bool_or(media_type is not null) as file from gone where blob is not null group by blob`,
    [keys],
  );
  if (rows.length === 0) return 0;
  const [blobs, files] = [rows, rows.filter(({ file }) => file)].map((some) => some.map(({ blob }) => blob));
  // Locked first: what comes to name one of them waits, or is seen by the statement that removes.
  await tx.query('select 1 from troupe.blobs where sha256 = any($1::bytea[]) order by sha256 for update', [blobs]);
  const removed = await tx.query<{ files: number }>(
    `with gone as (
       delete from troupe.blobs o where sha256 = any($1::bytea[])
       and not exists (select from troupe.bodies b where b.blob = o.sha256 and b.media_type is not null)
       and not exists (select from troupe.bodies b where b.blob = o.sha256 and b.media_type is null) returning sha256
     )
     select count(*)::integer as files from gone where sha256 = any($2::bytea[])`,
    [blobs, files],
  );
  return removed.rows[0]!.files;
}

/** The data is canonical JSON already, and goes as the text that it is. */
const rowOf = ({ event, split, log, partition, position }: PlacedSplit) => {
  const { key, source, id, name, type_version, time, digest } = event;
  return [
    { key, source, id, name, type_version, time, digest: `\\x${digest}`, log, partition, position, data: split.json },
  ];
};

/** `data` is JSON whose text is made already: to COPY the two are the same. */
const COLUMNS: readonly CopyColumn[] = Object.entries({
  key: 'text',
  source: 'text',
  id: 'text',
  name: 'text',
  time: 'timestamptz',
  digest: 'bytea',
  log: 'smallint',
  partition: 'smallint',
  position: 'bigint',
  type_version: 'smallint',
  data: 'text',
} as const).map(([name, type]) => ({ name, type, part: 0 }));
const NAMES = COLUMNS.map(({ name }) => name).join(', ');

/** Keys of the events about which nothing more is taken, with the reason. What was erased stays erased, wherever it lay. */
async function goneAmong(
  tx: SqlClient,
  keys: readonly string[],
): Promise<ReadonlyMap<string, Extract<AppendResult, 'erased' | PrunedKey>>> {
  const { rows } = await tx.query<{ key: string; uri: string | null }>(
    `select key, null as uri from troupe.erased where key = any($1::text[])
     union all
     select p.key, a.uri from (select * from troupe.pruned where key = any($1::text[]) offset 0) p
     join troupe.archives a using (archive_id)
     where not exists (select from troupe.erased e where e.key = p.key offset 0)`,
    [keys],
    { name: 'log_gone' },
  );
  return new Map(rows.map(({ key, uri }) => [key, uri === null ? 'erased' : { pruned: uri }]));
}

/** The one event that an erased key still takes holds no text. */
const isErasure = (event: Event): boolean =>
  event.name === 'record.amended' && (event.data as { readonly op?: unknown }).op === 'erase';

/** What an event is found by, as SQL; the constraint `stored_events_identity` has the same expression, which is its only index by id. */
export const IDENTITY = `(key || E'\\uFFFE|' || source || E'\\uFFFE|' || id)`;

/** The same of an event at hand. U+FFFE escapes what PostgreSQL cannot hold and is followed by four hex digits there. */
export const identityOf = (e: { readonly key: string; readonly source: string; readonly id: string }): string =>
  `${e.key}\uFFFE|${e.source}\uFFFE|${e.id}`;

/** Stores what every ingestion endpoint received and refused, in the same database. A letter refused again is counted, not kept twice. */
export function postgresBook(db: SqlDatabase): IngestLedger {
  return {
    // What one statement writes is a transaction of its own: two round trips fewer, and most requests have nothing refused.
    report: (report) =>
      report.rejected.length === 0 ? writeCounts(db, report) : db.transaction((tx) => writeReport(tx, report)),
  };
}

async function writeReport(tx: SqlClient, report: IngestReport): Promise<void> {
  await writeCounts(tx, report);
  await writeLetters(tx, report.endpoint, report.rejected);
}

async function writeCounts(tx: SqlClient, report: IngestReport): Promise<void> {
  await tx.query(
    `insert into troupe.ingest_counters as c (endpoint, received, acknowledged, duplicates, rejected) values ($1, $2, $3, $4, $5)
     on conflict (endpoint) do update set received = c.received + excluded.received, acknowledged = c.acknowledged + excluded.acknowledged,
       duplicates = c.duplicates + excluded.duplicates, rejected = c.rejected + excluded.rejected`,
    [report.endpoint, report.received, report.acknowledged, report.duplicates, report.rejected.length],
    { name: 'door_count' },
  );
}

/** Letters of one statement: 10,000 refused records with a statement each held up those behind them for seconds. */
const LETTERS_AT_ONCE = 1_000;

/** Keeps refused records inside a transaction of the caller. Equal ones are one letter with so many attempts; one that was replayed is not any more. */
export async function writeLetters(tx: SqlClient, endpoint: string, letters: readonly DeadLetter[]): Promise<void> {
  const kept = new Map<string, { readonly letter: DeadLetter; readonly digest: string; attempts: number }>();
  for (const letter of await withoutErased(tx, letters)) {
    const digest = createHash('sha256').update(letter.raw).digest('hex');
    const identity = JSON.stringify([digest, letter.refusal.code, letter.refusal.field]);
    const one = kept.get(identity);
    if (one) one.attempts++;
    else kept.set(identity, { letter, digest, attempts: 1 });
  }
  const rows = [...kept.values()];
  for (let from = 0; from < rows.length; from += LETTERS_AT_ONCE) {
    const some = rows.slice(from, from + LETTERS_AT_ONCE);
    const column = (read: (letter: DeadLetter) => string | null) => some.map(({ letter }) => read(letter));
    await tx.query(
      `insert into troupe.dead_letters as d (endpoint, place, raw, code, field, expected, got, digest, attempts)
       select $1, * from unnest($2::text[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::int[])
       on conflict (digest, code, field) do update set attempts = d.attempts + excluded.attempts, last_at = clock_timestamp(), replayed_at = null`,
      [
        endpoint,
        column(({ place }) => place),
        some.map(({ letter }) => Buffer.from(letter.raw)),
        column(({ refusal }) => refusal.code),
        column(({ refusal }) => clean(refusal.field)),
        column(({ refusal }) => clean(refusal.expected)),
        column(({ refusal }) => clean(refusal.got)),
        some.map(({ digest }) => digest),
        some.map(({ attempts }) => attempts),
      ],
    );
  }
}

/** A record that no check could read may still be about an erased episode: of such a one nothing is kept but that it came. */
async function withoutErased(tx: SqlClient, letters: readonly DeadLetter[]): Promise<readonly DeadLetter[]> {
  const named = letters.map(({ raw }) => episodesNamed(Buffer.from(raw).toString()));
  const keys = [...new Set(named.flat())].map((episode) => `e/${episode}`);
  if (keys.length === 0) return letters;
  const { rows } = await tx.query<{ key: string }>('select key from troupe.erased where key = any($1::text[])', [keys]);
  const erased = new Set(rows.map(({ key }) => key.slice('e/'.length)));
  return letters.map((letter, i) =>
    named[i]!.some((episode) => erased.has(episode))
      ? { place: letter.place, raw: new Uint8Array(), refusal: ERASED_REFUSAL }
      : letter,
  );
}

/** What stands as `episode_id` in a text that may be no JSON. */
function episodesNamed(text: string): readonly string[] {
  return [...text.matchAll(/"episode_id"\s*:\s*("(?:[^"\\]|\\.)*")/g)].flatMap(([, literal]) => {
    try {
      return [clean(JSON.parse(literal!) as string)];
    } catch {
      return [];
    }
  });
}

/** The refusal of an event that the checks let through and the database does not; `reason` is what the server says. */
export const unstorable = (reason: string): Refusal => ({
  code: 'bad_shape',
  field: 'data',
  expected: 'an event that the tables can hold',
  got: reason,
});

/** A refusal may quote what PostgreSQL cannot hold. */
const clean = (text: string): string => text.replaceAll('\u0000', '\\u0000').toWellFormed();
