/**
 * Files of recorded work into the log. Each file is recognised by content, every record becomes events, what cannot be read is
 * refused by file, line and field, and the rest is kept. Importing the same again adds nothing.
 */
import { basename, dirname } from 'node:path';
import { got, type Refusal, TroupeError } from '../../errors.ts';
import { decodeDraft, encodeEnvelope } from '../events/decode.ts';
import type { Event, EventName } from '../events/events.ts';
import { canonicalJson } from '../events/json.ts';
import { createRedactor, type Redactor } from '../events/redact.ts';
import { FORMATS, formatNamed, recognise } from '../formats/catalogue.ts';
import type { Conversion, Format, Head } from '../formats/kit/format.ts';
import { joinParts, type Part } from '../formats/kit/join-parts.ts';
import type { ArtifactStore, EventLog, IngestLedger, Originals } from '../log/log.ts';
import { type EpisodeRule, withEpisodes } from '../traces/otlp/episode-rules.ts';
import { type Counts, openBatches, type Place } from './import-batches.ts';
import { copyFinder, oldestFirst } from './import-copies.ts';
import { type Earlier, type IdsElsewhere, readBeside, readRun, recordedElsewhere } from './import-earlier.ts';
import { findFiles, type InputFile, type SkippedFile } from './import-files.ts';
import { type FileRecords, gatherFiles, gatherParts, gatherRecords, type Member } from './import-gather.ts';
import { countUnmapped, fieldFinder, unmappedOf } from './import-mapping.ts';
import { ordinals, type Tally, tallier } from './import-tally.ts';
import { nearMiss } from './near-miss.ts';
import type { FileRecord } from './parse-piece.ts';
import { openRecordFile } from './read-file.ts';

/** Errors listed in a report; all of them are in the book. */
const LISTED_ERRORS = 1000;
/** Records and bytes read to detect a file's format. */
const HEAD_RECORDS = 64;
const HEAD_BYTES = 4 * 1024 * 1024;
/** Restated events remembered, so that they are emitted once; beyond it they are duplicates to the log. */
const REMEMBERED = 100_000;

export type ImportProgress = {
  readonly bytesDone: number;
  readonly bytesTotal: number;
  readonly file: string;
  readonly events: number;
};

export type ImportOptions = {
  readonly log: EventLog;
  readonly book: IngestLedger;
  readonly artifacts: ArtifactStore;
  /** What the log holds of runs that the files have other parts of. Without it each import stands alone. */
  readonly originals?: Originals;
  /** Name of a format; without it each file is recognised by content. */
  readonly format?: string;
  /** Read and count, append nothing. */
  readonly dryRun?: boolean;
  /** Applied to each native record before anything is made of it: ids and hashes are of what is kept. Default: the built-in rules. */
  readonly redactor?: Redactor;
  /** Which spans of a program belong together, besides what they say themselves. */
  readonly episodes?: readonly EpisodeRule[];
  readonly onProgress?: (progress: ImportProgress) => void;
  readonly signal?: AbortSignal;
};

type ImportError = Refusal & { readonly file: string; readonly line: number | null };

export type ImportReport = Tally & {
  /** The one format, `mixed`, or null where no file was read. */
  readonly format: string | null;
  readonly files: number;
  readonly skipped_files: readonly SkippedFile[];
  readonly events: Readonly<Counts>;
  readonly errors: readonly ImportError[];
  /** Errors beyond those listed. */
  readonly errors_omitted?: number;
  /** Lines of which nothing was read because their format does not know their type; the record keeps them. */
  readonly unread_lines?: readonly { readonly format: string; readonly type: string; readonly lines: number }[];
  /** Of a dry run: where each native field goes, and which fields were kept without a place of their own. */
  readonly mapping?: readonly { readonly format: string; readonly native: string; readonly ours: string }[];
  readonly unmapped?: readonly { readonly format: string; readonly field: string; readonly events: number }[];
};

/** Where nobody can look at the log, nothing of a run is known from before. */
const NONE: Originals = {
  begun: async () => new Map(),
  records: async () => new Map(),
  answered: async () => new Map(),
  rejected: async () => new Set(),
  held: async () => new Set(),
};

/**
 * Imports files and folders. Throws `not_found` for a path that is not there, `usage` for an unknown format, `interrupted` when the
 * signal fires (what was appended stays; importing again goes on), and whatever the log throws.
 */
export async function importFiles(paths: readonly string[], options: ImportOptions): Promise<ImportReport> {
  const { dryRun = false, onProgress = () => {}, redactor = createRedactor(), episodes = [], signal } = options;
  const forced = options.format === undefined ? null : formatNamed(options.format);
  const { files, skipped } = await findFiles(paths);
  const counts: Counts = { received: 0, accepted: 0, duplicates: 0, rejected: 0 };
  const errors: ImportError[] = [];
  const skippedFiles = [...skipped];
  const formats = new Set<Format>();
  const unmapped = new Map<string, number>();
  const unread = new Map<string, number>();
  const finder = fieldFinder();
  const tally = tallier();
  const runs = new Map<Format, InputFile[]>();
  const folders = new Map<string, { readonly format: Format; readonly paths: string[] }>();
  const ordinalOf = ordinals();
  const stated = new Set<string>();
  /** By episode, the source that began it in this import. */
  const begun = new Map<string, string>();
  const deferred: InputFile[] = [];
  const bytesTotal = files.reduce((sum, file) => sum + file.bytes, 0);
  let bytesBefore = 0;
  let position = { file: '', bytes: 0 };
  let read = 0;

  const cleaned = <T>(value: T): T => withEpisodes(redactor.value(value) as T, episodes);
  const { originals = NONE, artifacts } = options;
  const earlier: Earlier = { originals, artifacts };
  const copies = copyFinder(earlier);

  const batches = openBatches({
    ...(dryRun ? NOWHERE : { log: options.log, book: options.book, artifacts: options.artifacts }),
    counts,
    onRefusal: (refusal, { file, line }) => {
      if (errors.length < LISTED_ERRORS) errors.push({ file, line, ...refusal });
    },
    onBatch: () => onProgress({ ...progressOf(), events: counts.received }),
  });
  const progressOf = () => ({ file: position.file, bytesDone: bytesBefore + position.bytes, bytesTotal });

  /** True where an event that records repeat was emitted before in this import. */
  const statedBefore = (event: Event): boolean => {
    const key = `${event.key} ${event.id} ${event.digest}`;
    if (stated.has(key)) return true;
    if (stated.size >= REMEMBERED) stated.delete(stated.values().next().value!);
    stated.add(key);
    return false;
  };

  async function take(record: FileRecord, format: Format, file: string): Promise<void> {
    const place: Place = { file, line: record.line };
    if (record.refusal) return batches.refuse(record.refusal, place, record.raw);
    return keep(record.value, format, [{ place, raw: record.raw }]);
  }

  /** Converts one native record, which `members` of files make up. */
  async function keep(native: unknown, format: Format, members: readonly Member[]): Promise<void> {
    const value = cleaned(native);
    const canonical = canonicalJson(value);
    await keepConverted(format.convert({ value, canonical, ordinal: ordinalOf(canonical) }), format, members);
  }

  /** A refusal names the member that it concerns; one of a line that an earlier import read was reported then. */
  async function keepConverted(
    converted: Conversion,
    format: Format,
    members: readonly (Member | undefined)[],
    { place, raw } = members[0]!,
  ): Promise<void> {
    for (const { at, raw: part, ...refusal } of converted.refusals) {
      if (at !== undefined && at < members.length && members[at] === undefined) continue;
      const member = members[at ?? 0] ?? { place, raw };
      await batches.refuse(refusal, member.place, part === undefined ? member.raw : Buffer.from(part));
    }
    if (isRefusedWhole(converted)) return;
    const elsewhere = await recordedElsewhere(format, converted, begun, earlier);
    if (elsewhere) return batches.refuse(elsewhere, place, raw);
    if (!converted.repeated)
      for (const type of converted.unread ?? []) {
        const kind = JSON.stringify([format.name, type]);
        unread.set(kind, (unread.get(kind) ?? 0) + 1);
      }
    for (const body of converted.bodies ?? []) await batches.body(body);
    if (converted.raw !== null) await batches.body(converted.raw);
    for (const draft of converted.drafts) {
      if (draft.name === 'episode.started') begun.set(draft.data.episode_id, draft.source);
      const { event, refusal } = decodeDraft(draft);
      if (refusal) {
        const alone = converted.drafts.length === 1;
        await batches.refuse(refusal, place, alone ? raw : Buffer.from(JSON.stringify(encodeEnvelope(draft))));
        continue;
      }
      const restated = format.restates.has(event.name) && statedBefore(event);
      if (!converted.repeated && !restated) tally.add(event);
      if (dryRun && !converted.repeated) countUnmapped(unmapped, format, draft);
      if (restated) continue;
      await batches.event(event, place);
    }
  }

  async function takeFile(input: InputFile, last: boolean): Promise<void> {
    const file = await openRecordFile(input.path);
    try {
      const head = await headOf(file.records);
      const values = head.flatMap((record) => (record.refusal ? [] : [record.value]));
      const seen = { records: values, shape: file.shape };
      const found = forced && (input.named || forced.recognises(seen)) ? forced : forced ? null : recognise(seen);
      const format = found && dryRun ? finder.watched(found) : found;
      if (!format || head.length === 0) {
        if (head.length === 0) skippedFiles.push({ file: input.path, reason: 'empty' });
        else if (input.named) await refuseFile(input.path, head, file.shape);
        else skippedFiles.push({ file: input.path, reason: 'no format recognises it' });
        return;
      }
      // The original of a run has more than a record derived from it.
      if (format.restatesRunsOf && !last) {
        deferred.push(input);
        return;
      }
      formats.add(format);
      read += 1;
      const gathered = format.gathers?.(seen) ?? null;
      if (gathered !== null && gathered !== 'file') {
        const key = gathered.startsWith('import:')
          ? gathered
          : JSON.stringify([format.name, folderOf(input.path, gathered)]);
        if (!folders.has(key)) folders.set(key, { format, paths: [] });
        folders.get(key)!.paths.push(input.path);
        return;
      }
      if (gathered === 'file' && format.joins) {
        if (!runs.has(format)) runs.set(format, []);
        runs.get(format)!.push(input);
        return;
      }
      if (gathered === 'file') return gather([input.path], format);
      const go = async (record: FileRecord): Promise<void> => {
        if (signal?.aborted) throw interruption();
        await take(record, format, input.path);
        position = { file: input.path, bytes: record.end };
      };
      for (const record of head) await go(record);
      for await (const record of file.records) await go(record);
    } finally {
      await file.records.return(undefined);
    }
  }

  /** Takes all records of these files as one native record. */
  async function gather(paths: readonly string[], format: Format, folder = false): Promise<void> {
    await keepGathered(await gatherRecords(paths, check), format, folder);
  }

  async function keepGathered(
    { lists, members, refused }: FileRecords,
    format: Format,
    folder: boolean,
  ): Promise<void> {
    for (const { refusal, place, raw } of refused) await batches.refuse(refusal, place, raw);
    if (members.length === 0) return;
    if (!folder) return keep(lists[0], format, members);
    const value = cleaned(lists);
    if (format.joins) {
      const part = { lines: value.flat(), members };
      return keepRun(part, format, await copies(format, part.lines), value);
    }
    const canonical = canonicalJson(value);
    const converted = format.convert({ value, canonical, ordinal: ordinalOf(canonical) });
    await keepConverted(await readBeside(format, value, converted, earlier), format, members);
  }

  async function keepRun(part: Part<Member>, format: Format, copied: IdsElsewhere, native?: unknown): Promise<void> {
    const { converted, part: whole } = await readRun(format, part, ordinalOf, { ...earlier, copied }, native);
    await keepConverted(converted, format, whole.members, part.members[0]);
  }

  /** Takes files whose lines are runs or parts of runs. */
  async function takeRuns(files: readonly InputFile[], format: Format): Promise<void> {
    for await (const { lists, members, refused } of gatherFiles(files, check)) {
      for (const { refusal, place, raw } of refused) await batches.refuse(refusal, place, raw);
      let from = 0;
      const parts = lists.map((list) => {
        const lines: readonly unknown[] = cleaned(list);
        from += list.length;
        return { lines, members: members.slice(from - list.length, from) };
      });
      const { runs, strays } = joinParts(
        parts.filter(({ lines }) => lines.length > 0),
        format.joins!,
      );
      const all = [...runs, ...strays];
      const copied = new Map<Part<Member>, IdsElsewhere>();
      for (const part of oldestFirst(all, format)) copied.set(part, await copies(format, part.lines));
      for (const part of all) await keepRun(part, format, copied.get(part)!);
    }
  }

  async function takeFiles(inputs: readonly InputFile[], last = false): Promise<void> {
    for (const input of inputs) {
      if (signal?.aborted) throw interruption();
      position = { file: input.path, bytes: 0 };
      await takeFile(input, last);
      position = { file: input.path, bytes: 0 };
      if (!last && deferred.at(-1) === input) continue;
      bytesBefore += input.bytes;
      onProgress({ ...progressOf(), events: counts.received });
    }
  }

  function check(): void {
    if (signal?.aborted) throw interruption();
  }

  /** A file that was named and that no format knows: its own fault is reported where it is broken JSON or a broken archive. */
  async function refuseFile(file: string, head: readonly FileRecord[], shape: Head['shape']): Promise<void> {
    const [first] = head;
    // Of an archive that cannot be read there are no bytes.
    const broken =
      first?.refusal &&
      head.every((record) => record.refusal) &&
      /^(?:$|[[{])/.test(first.raw.toString('latin1', 0, 1));
    const records = head.flatMap((record) => (record.refusal ? [] : [record.value]));
    const near = nearMiss({ records, shape });
    const refusal: Refusal = broken
      ? first.refusal
      : {
          code: 'unknown_format',
          field: near?.field ?? '',
          expected: `${near ? `${near.hint} Expected ` : ''}JSON or JSON Lines (of a table, such as CSV or SQLite, an object a row) in one of the formats ${FORMATS.map((format) => format.name).join(', ')}`,
          got: got(first?.raw.toString('utf8', 0, 60) ?? ''),
        };
    await batches.refuse(refusal, { file, line: broken ? first.line : null }, first?.raw ?? new Uint8Array());
  }

  try {
    await takeFiles(files);
    for (const [format, files] of runs) await takeRuns(files, format);
    for (const [key, { format, paths }] of folders) {
      if (!key.startsWith('import:')) await gather(paths.toSorted(), format, true);
      else for await (const part of gatherParts(paths.toSorted(), check)) await keepGathered(part, format, true);
    }
    await takeFiles(deferred, true);
  } catch (error) {
    // What was read before the fault is kept and reported; the caller gets the fault.
    await batches.finish().catch(() => {});
    throw error;
  }
  await batches.finish();

  const [only] = formats;
  const omitted = counts.rejected - errors.length;
  return {
    format: formats.size > 1 ? 'mixed' : (only?.name ?? null),
    files: read,
    skipped_files: skippedFiles,
    events: dryRun ? { ...counts, accepted: 0, duplicates: 0 } : counts,
    ...tally.total(),
    errors,
    ...(omitted > 0 ? { errors_omitted: omitted } : {}),
    ...(unread.size > 0 ? { unread_lines: [...unread].map(([kind, lines]) => unreadOf(kind, lines)) } : {}),
    ...(dryRun ? { mapping: finder.found(), unmapped: unmappedOf(unmapped) } : {}),
  };
}

/** What frames a run and says nothing of what was done in it. */
const FRAME: ReadonlySet<EventName> = new Set([
  'task.defined',
  'team.defined',
  'artifact.attached',
  'episode.started',
  'agent.defined',
  'episode.finished',
]);

/** True where so much of a record was refused that an episode without content would be left. */
const isRefusedWhole = ({ drafts, refusals }: Conversion): boolean =>
  refusals.length > 0 &&
  drafts.some(({ name }) => name === 'episode.started') &&
  drafts.every(({ name, data }) => FRAME.has(name) && !('role' in data && data.role !== 'raw-record'));

function unreadOf(kind: string, lines: number) {
  const [format, type] = JSON.parse(kind) as [string, string];
  return { format, type, lines };
}

/** Where the files of a run lie together. */
function folderOf(path: string, gathered: string): string {
  const folder = dirname(path);
  return gathered === 'folder:events' && basename(folder) === 'events' ? dirname(folder) : folder;
}

/** Where a dry run sends what it read. */
const NOWHERE = {
  log: {
    name: 'nowhere',
    append: async (events) => events.map(() => 'accepted' as const),
    close: async () => {},
  } satisfies EventLog,
  book: { report: async () => {} } satisfies IngestLedger,
  artifacts: {
    put: async (bodies) => bodies.map(() => ({ sha256: '', size: 0 })),
    get: async () => new Uint8Array(),
    remove: async () => false,
  } satisfies ArtifactStore,
};

const interruption = (): TroupeError =>
  new TroupeError('interrupted', 'The import was interrupted. What was appended stays; import again to go on.');

async function headOf(records: AsyncGenerator<FileRecord>): Promise<readonly FileRecord[]> {
  const head: FileRecord[] = [];
  for (let bytes = 0; head.length < HEAD_RECORDS && bytes < HEAD_BYTES; ) {
    const { value, done } = await records.next();
    if (done) break;
    head.push(value);
    bytes += value.raw.length;
  }
  return head;
}
