/**
 * An archive: Parquet files with the events of some keys as the log had them, the bodies of their artifacts, and a manifest.
 * Rows lie in the order of the log, by partition and position; a file ends after so many bytes, so that one at a time is held. They are
 * compressed with snappy, which every reader of Parquet has built in.
 */
import { createHash, hash } from 'node:crypto';
import { TroupeError } from '../../errors.ts';
import { type ArrowRow, arrowOfRows, arrowStream, type RowColumn, readArrow } from '../datasets/arrow.ts';
import { arrowIn, parquetOf } from '../datasets/parquet.ts';
import type { Draft, FileFacts } from '../datasets/publish.ts';
import { type ArchiveFiles, MANIFEST } from './places.ts';

/** An event as the log has it. Times are microseconds since 1970. */
export type ArchivedEvent = {
  readonly log: number;
  readonly partition: number;
  readonly position: number | bigint;
  readonly key: string;
  readonly source: string;
  readonly id: string;
  readonly name: string;
  readonly type_version: number;
  readonly time: bigint | null;
  /** JSON text. */
  readonly data: string;
  readonly digest: string;
  readonly recorded_at: bigint;
};
export type ArchivedBody = { readonly sha256: string; readonly body: Uint8Array };

const EVENTS: readonly RowColumn[] = [
  { name: 'log', kind: 'int4' },
  { name: 'partition', kind: 'int4' },
  { name: 'position', kind: 'int8' },
  ...(['key', 'source', 'id', 'name'] as const).map((name) => ({ name, kind: 'text' }) as const),
  { name: 'type_version', kind: 'int4' },
  { name: 'time', kind: 'timestamptz' },
  { name: 'data', kind: 'text' },
  { name: 'digest', kind: 'text' },
  { name: 'recorded_at', kind: 'timestamptz' },
];
const ARTIFACTS: readonly RowColumn[] = [
  { name: 'sha256', kind: 'text' },
  { name: 'body', kind: 'bytes' },
];

type LogPlace = { readonly log?: number; readonly partition: number; readonly position: number };
type ArchiveFile = FileFacts & {
  readonly holds: 'events' | 'artifacts';
  readonly rows: number;
  /** Of its first and last event. */
  readonly first: LogPlace | null;
  readonly last: LogPlace | null;
};

export type ArchiveManifest = {
  readonly format: 'troupe-archive/1';
  readonly archive_id: string;
  readonly code_version: string;
  /** Number of the last migration of the database it came from. */
  readonly schema: number;
  readonly written_at: string;
  readonly episodes: number;
  readonly groups: number;
  readonly events: number;
  readonly artifacts: number;
  /** Bodies that events name and that were not there any more. */
  readonly missing_artifacts: readonly string[];
  /** Of the content of the rows, in order: the same for the rows of the log. */
  readonly content_sha256: string;
  /** Of the times that its events name; null where none does. */
  readonly time: { readonly first: string | null; readonly last: string | null };
  readonly files: readonly ArchiveFile[];
};

/** A file ends with the row that makes it so large, before it is compressed. */
const FILE_BYTES = 16 * 1024 * 1024;

/** One line for each event, which {@link CONTENT_SQL} makes of the log. */
function contentOf(hashed: ReturnType<typeof createHash>, event: ArchivedEvent): void {
  const { log, partition, position, key, source, id, name, type_version, time, digest, data } = event;
  // The embedded log was the only one once, and had no number.
  const place = log === 0 ? [partition, position] : [log, partition, position];
  const version = type_version === 1 ? [] : [`v${type_version}`];
  hashed.update(`${[...place, key, source, id, name, ...version, time ?? '', digest, hash('md5', data)].join('\t')}\n`);
}

/** What `content_sha256` should be, over the rows `e` of troupe.events. */
export const CONTENT_SQL = `encode(sha256(convert_to(coalesce(string_agg(concat_ws(E'\\t', nullif(e.log, 0), e.partition, e.position, e.key, e.source, e.id, e.name, 'v' || nullif(e.type_version, 1),
  coalesce((extract(epoch from e.time) * 1000000)::bigint::text, ''), e.digest, md5(e.data::text)) || E'\\n', '' order by e.log, e.partition, e.position), ''), 'UTF8')), 'hex')`;

export type ArchiveFacts = Pick<
  ArchiveManifest,
  'archive_id' | 'code_version' | 'schema' | 'written_at' | 'episodes' | 'groups'
>;

/** Bodies that an event names: its own file, and the record it was read from. */
export function bodiesOf(data: string): string[] {
  const { sha256, raw } = JSON.parse(data) as { sha256?: unknown; raw?: { artifact_id?: unknown } | null };
  return [sha256, raw?.artifact_id].filter((one) => typeof one === 'string' && /^[0-9a-f]{64}$/.test(one)) as string[];
}

/**
 * Writes an archive into the draft of a folder, with its manifest last, everything flushed. `body` gives null for a body that is gone.
 * Holds one file at a time, and the names of the bodies.
 */
export async function writeArchive(
  draft: Draft,
  facts: ArchiveFacts,
  events: AsyncIterable<readonly ArchivedEvent[]> | Iterable<readonly ArchivedEvent[]>,
  body: (sha256: string) => Promise<Uint8Array | null>,
): Promise<{ readonly manifest: ArchiveManifest; readonly sha256: string }> {
  const files: ArchiveFile[] = [];
  const content = createHash('sha256');
  const wanted = new Set<string>();
  let [count, first, last] = [0, null as bigint | null, null as bigint | null];
  const put = async (holds: ArchiveFile['holds'], columns: readonly RowColumn[], rows: readonly ArrowRow[]) => {
    if (rows.length === 0) return;
    const number = files.filter((file) => file.holds === holds).length;
    const sink = await draft.file(`${holds}-${String(number).padStart(5, '0')}.parquet`);
    const stream = arrowStream(await arrowOfRows(columns, rows));
    for await (const part of parquetOf([stream], { codec: 'snappy' })) await sink.write(part);
    const place = (row: ArrowRow) => ({
      log: Number(row.log),
      partition: Number(row.partition),
      position: Number(row.position),
    });
    const ends =
      holds === 'events' ? { first: place(rows[0]!), last: place(rows.at(-1)!) } : { first: null, last: null };
    files.push({ ...(await sink.finish()), holds, rows: rows.length, ...ends });
  };

  let [rows, bytes] = [[] as ArrowRow[], 0];
  for await (const batch of events) {
    for (const event of batch) {
      contentOf(content, event);
      for (const name of bodiesOf(event.data)) wanted.add(name);
      if (event.time !== null) {
        first = first === null || event.time < first ? event.time : first;
        last = last === null || event.time > last ? event.time : last;
      }
      rows.push(event);
      count++;
      bytes += event.data.length + event.key.length + event.id.length;
      if (bytes < FILE_BYTES) continue;
      await put('events', EVENTS, rows);
      [rows, bytes] = [[], 0];
    }
  }
  await put('events', EVENTS, rows);
  [rows, bytes] = [[], 0];
  const missing: string[] = [];
  for (const sha256 of [...wanted].sort()) {
    const found = await body(sha256);
    if (found === null) missing.push(sha256);
    else rows.push({ sha256, body: found });
    bytes += found?.length ?? 0;
    if (bytes < FILE_BYTES) continue;
    await put('artifacts', ARTIFACTS, rows);
    [rows, bytes] = [[], 0];
  }
  await put('artifacts', ARTIFACTS, rows);
  const manifest: ArchiveManifest = {
    format: 'troupe-archive/1',
    ...facts,
    events: count,
    artifacts: wanted.size - missing.length,
    missing_artifacts: missing,
    content_sha256: content.digest('hex'),
    time: { first: iso(first), last: iso(last) },
    files,
  };
  const sink = await draft.file(MANIFEST);
  await sink.write(Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`));
  const { sha256 } = await sink.finish();
  return { manifest, sha256 };
}

const iso = (us: bigint | null): string | null => (us === null ? null : new Date(Number(us / 1000n)).toISOString());

/** @throws TroupeError `not_found` where there is none, `dataset_damaged` where it cannot be read. */
export async function readManifest({
  uri,
  read,
}: ArchiveFiles): Promise<{ readonly manifest: ArchiveManifest; readonly sha256: string }> {
  const bytes = await read(MANIFEST);
  if (bytes === null)
    throw new TroupeError('not_found', `${uri} is not an archive of pruned episodes: it has no ${MANIFEST}.`);
  try {
    const manifest = JSON.parse(Buffer.from(bytes).toString('utf8')) as ArchiveManifest;
    if (manifest.format === 'troupe-archive/1') return { manifest, sha256: hash('sha256', bytes) };
  } catch {}
  throw damaged(`${uri}/${MANIFEST}`, 'is not a manifest of the format troupe-archive/1');
}

/** The events of an archive, a file at a time. @throws TroupeError `dataset_damaged` for a file that is not as it was written. */
export async function* eventsIn(archive: ArchiveFiles, manifest: ArchiveManifest): AsyncGenerator<ArchivedEvent[]> {
  // Archives of older code do not name the log, for there was the embedded one, nor the version of a type, for each had one.
  for await (const rows of rowsIn(archive, manifest, 'events'))
    yield rows.map((row) => ({ log: 0, type_version: 1, ...row }) as unknown as ArchivedEvent);
}

export async function* artifactsIn(archive: ArchiveFiles, manifest: ArchiveManifest): AsyncGenerator<ArchivedBody[]> {
  for await (const rows of rowsIn(archive, manifest, 'artifacts')) yield rows as unknown as ArchivedBody[];
}

async function* rowsIn(
  { uri, read }: ArchiveFiles,
  { files }: ArchiveManifest,
  holds: ArchiveFile['holds'],
): AsyncGenerator<readonly ArrowRow[]> {
  for (const file of files.filter((one) => one.holds === holds)) {
    const path = `${uri}/${file.name}`;
    const bytes = await read(file.name);
    if (bytes === null) throw damaged(path, 'is not there');
    if (hash('sha256', bytes) !== file.sha256) throw damaged(path, 'was changed: its hash is not that of the manifest');
    const rows = [...readArrow(arrowIn(bytes)).each()];
    if (rows.length !== file.rows) throw damaged(path, `holds ${rows.length} rows, not ${file.rows}`);
    yield rows;
  }
}

const damaged = (path: string, how: string): TroupeError =>
  new TroupeError('dataset_damaged', `${path} ${how}. Restore the file from a backup.`);

/** Reads a whole archive again. @throws TroupeError `dataset_damaged` where files, counts or content do not match the manifest. */
export async function verifyArchive(archive: ArchiveFiles, manifest: ArchiveManifest): Promise<void> {
  const content = createHash('sha256');
  let [events, artifacts] = [0, 0];
  for await (const rows of eventsIn(archive, manifest)) {
    for (const event of rows) contentOf(content, event);
    events += rows.length;
  }
  for await (const rows of artifactsIn(archive, manifest)) {
    for (const { sha256, body } of rows)
      if (hash('sha256', body) !== sha256)
        throw damaged(archive.uri, `holds a body of artifact ${sha256} that is not it`);
    artifacts += rows.length;
  }
  if (
    events !== manifest.events ||
    artifacts !== manifest.artifacts ||
    content.digest('hex') !== manifest.content_sha256
  )
    throw damaged(archive.uri, 'does not match its manifest');
}
