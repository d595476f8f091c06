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
import { type Conversion, type Format, type Head, restates } from '../formats/kit/format.ts';
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
  const forced = options.format === undefined ? null : formatNamed(options.format);
  return new FileImport(await findFiles(paths), forced, options).run();
}

/** One import: what it has read, and what it waits to read. */
class FileImport {
  readonly #options: ImportOptions;
  readonly #forced: Format | null;
  readonly #redactor: Redactor;
  readonly #files: readonly InputFile[];
  readonly #skippedFiles: SkippedFile[];
  readonly #bytesTotal: number;
  readonly #counts: Counts = { received: 0, accepted: 0, duplicates: 0, rejected: 0 };
  readonly #errors: ImportError[] = [];
  readonly #formats = new Set<Format>();
  readonly #unmapped = new Map<string, number>();
  readonly #unread = new Map<string, number>();
  readonly #finder = fieldFinder();
  readonly #tally = tallier();
  readonly #runs = new Map<Format, InputFile[]>();
  readonly #folders = new Map<string, { readonly format: Format; readonly paths: string[] }>();
  readonly #ordinalOf = ordinals();
  readonly #stated = new Set<string>();
  /** By episode, the source that began it in this import. */
  readonly #begun = new Map<string, string>();
  readonly #deferred: InputFile[] = [];
  readonly #earlier: Earlier;
  readonly #copies: ReturnType<typeof copyFinder>;
  readonly #batches: ReturnType<typeof openBatches>;
  #bytesBefore = 0;
  #position = { file: '', bytes: 0 };
  #read = 0;

  constructor(
    { files, skipped }: Awaited<ReturnType<typeof findFiles>>,
    forced: Format | null,
    options: ImportOptions,
  ) {
    const { log, book, artifacts, originals = NONE, redactor = createRedactor() } = options;
    this.#options = options;
    this.#forced = forced;
    this.#redactor = redactor;
    this.#files = files;
    this.#skippedFiles = [...skipped];
    this.#bytesTotal = files.reduce((sum, file) => sum + file.bytes, 0);
    this.#earlier = { originals, artifacts };
    this.#copies = copyFinder(this.#earlier);
    this.#batches = openBatches({
      ...(options.dryRun ? NOWHERE : { log, book, artifacts }),
      counts: this.#counts,
      onRefusal: (refusal, { file, line }) => {
        if (this.#errors.length < LISTED_ERRORS) this.#errors.push({ file, line, ...refusal });
      },
      onBatch: () => this.#progress(),
    });
  }

  async run(): Promise<ImportReport> {
    try {
      await this.#takeFiles(this.#files);
      await this.#takeGathered();
      await this.#takeFiles(this.#deferred, true);
      await this.#takeGathered();
    } catch (error) {
      // What was read before the fault is kept and reported; the caller gets the fault.
      await this.#batches.finish().catch(() => {});
      throw error;
    }
    await this.#batches.finish();
    return this.#report();
  }

  /** Takes the runs of what was read so far, each once. */
  async #takeGathered(): Promise<void> {
    for (const [format, files] of this.#runs) await this.#takeRuns(files, format);
    this.#runs.clear();
    for (const [key, { format, paths }] of this.#folders) {
      if (!key.startsWith('import:')) await this.#gather(paths.toSorted(), format, true);
      else
        for await (const part of gatherParts(paths.toSorted(), this.#check))
          await this.#keepGathered(part, format, true);
    }
    this.#folders.clear();
  }

  #report(): ImportReport {
    const { dryRun } = this.#options;
    const [only] = this.#formats;
    const omitted = this.#counts.rejected - this.#errors.length;
    const unread = [...this.#unread].map(([kind, lines]) => unreadOf(kind, lines));
    return {
      format: this.#formats.size > 1 ? 'mixed' : (only?.name ?? null),
      files: this.#read,
      skipped_files: this.#skippedFiles,
      events: dryRun ? { ...this.#counts, accepted: 0, duplicates: 0 } : this.#counts,
      ...this.#tally.total(),
      errors: this.#errors,
      ...(omitted > 0 ? { errors_omitted: omitted } : {}),
      ...(unread.length > 0 ? { unread_lines: unread } : {}),
      ...(dryRun ? { mapping: this.#finder.found(), unmapped: unmappedOf(this.#unmapped) } : {}),
    };
  }

  #cleaned<T>(value: T): T {
    return withEpisodes(this.#redactor.value(value) as T, this.#options.episodes ?? []);
  }

  #progress(): void {
    const { file, bytes } = this.#position;
    const bytesDone = this.#bytesBefore + bytes;
    this.#options.onProgress?.({ file, bytesDone, bytesTotal: this.#bytesTotal, events: this.#counts.received });
  }

  /** True where an event that records repeat was emitted before in this import. */
  #statedBefore(event: Event): boolean {
    const key = `${event.key} ${event.id} ${event.digest}`;
    if (this.#stated.has(key)) return true;
    if (this.#stated.size >= REMEMBERED) this.#stated.delete(this.#stated.values().next().value!);
    this.#stated.add(key);
    return false;
  }

  async #take(record: FileRecord, format: Format, file: string): Promise<void> {
    const place: Place = { file, line: record.line };
    if (record.refusal) return this.#batches.refuse(record.refusal, place, record.raw);
    return this.#keep(record.value, format, [{ place, raw: record.raw }]);
  }

  /** Converts one native record, which `members` of files make up. */
  async #keep(native: unknown, format: Format, members: readonly Member[]): Promise<void> {
    const value = this.#cleaned(native);
    const canonical = canonicalJson(value);
    await this.#keepConverted(
      format.convert({ value, canonical, ordinal: this.#ordinalOf(canonical) }),
      format,
      members,
    );
  }

  /** A refusal names the member that it concerns; one of a line that an earlier import read was reported then. */
  async #keepConverted(
    converted: Conversion,
    format: Format,
    members: readonly (Member | undefined)[],
    { place, raw } = members[0]!,
  ): Promise<void> {
    for (const { at, raw: part, ...refusal } of converted.refusals) {
      if (at !== undefined && at < members.length && members[at] === undefined) continue;
      const member = members[at ?? 0] ?? { place, raw };
      await this.#batches.refuse(refusal, member.place, part === undefined ? member.raw : Buffer.from(part));
    }
    if (isRefusedWhole(converted)) return;
    const elsewhere = await recordedElsewhere(format, converted, this.#begun, this.#earlier);
    if (elsewhere) return this.#batches.refuse(elsewhere, place, raw);
    if (!converted.repeated)
      for (const type of converted.unread ?? []) {
        const kind = JSON.stringify([format.name, type]);
        this.#unread.set(kind, (this.#unread.get(kind) ?? 0) + 1);
      }
    for (const body of converted.bodies ?? []) await this.#batches.body(body);
    if (converted.raw !== null) await this.#batches.body(converted.raw);
    for (const draft of converted.drafts) {
      if (draft.name === 'episode.started') this.#begun.set(draft.data.episode_id, draft.source);
      const { event, refusal } = decodeDraft(draft);
      if (refusal) {
        const alone = converted.drafts.length === 1;
        await this.#batches.refuse(refusal, place, alone ? raw : Buffer.from(JSON.stringify(encodeEnvelope(draft))));
        continue;
      }
      const restated = restates(format, event.name) && this.#statedBefore(event);
      if (!converted.repeated && !restated) this.#tally.add(event);
      if (this.#options.dryRun && !converted.repeated) countUnmapped(this.#unmapped, format, draft);
      if (restated) continue;
      await this.#batches.event(event, place);
    }
  }

  async #takeFile(input: InputFile, last: boolean): Promise<void> {
    const file = await openRecordFile(input.path);
    try {
      const head = await headOf(file.records);
      const values = head.flatMap((record) => (record.refusal ? [] : [record.value]));
      const seen = { records: values, shape: file.shape };
      const found =
        this.#forced && (input.named || this.#forced.recognises(seen))
          ? this.#forced
          : this.#forced
            ? null
            : recognise(seen);
      const format = found && this.#options.dryRun ? this.#finder.watched(found) : found;
      if (!format || head.length === 0) {
        if (head.length === 0) this.#skippedFiles.push({ file: input.path, reason: 'empty' });
        else if (input.named) await this.#refuseFile(input.path, head, file.shape);
        else this.#skippedFiles.push({ file: input.path, reason: 'no format recognises it' });
        return;
      }
      // The original of a run has more than a record derived from it.
      if (format.restatesRunsOf && !last) {
        this.#deferred.push(input);
        return;
      }
      this.#formats.add(format);
      this.#read += 1;
      const gathered = format.gathers?.(seen) ?? null;
      if (gathered !== null && gathered !== 'file') {
        const key = gathered.startsWith('import:')
          ? gathered
          : JSON.stringify([format.name, folderOf(input.path, gathered)]);
        if (!this.#folders.has(key)) this.#folders.set(key, { format, paths: [] });
        this.#folders.get(key)!.paths.push(input.path);
        return;
      }
      if (gathered === 'file' && format.joins) {
        if (!this.#runs.has(format)) this.#runs.set(format, []);
        this.#runs.get(format)!.push(input);
        return;
      }
      if (gathered === 'file') return this.#gather([input.path], format);
      const go = async (record: FileRecord): Promise<void> => {
        if (this.#options.signal?.aborted) throw interruption();
        await this.#take(record, format, input.path);
        this.#position = { file: input.path, bytes: record.end };
      };
      for (const record of head) await go(record);
      for await (const record of file.records) await go(record);
    } finally {
      await file.records.return(undefined);
    }
  }

  /** Takes all records of these files as one native record. */
  async #gather(paths: readonly string[], format: Format, folder = false): Promise<void> {
    await this.#keepGathered(await gatherRecords(paths, this.#check), format, folder);
  }

  async #keepGathered({ lists, members, refused }: FileRecords, format: Format, folder: boolean): Promise<void> {
    for (const { refusal, place, raw } of refused) await this.#batches.refuse(refusal, place, raw);
    if (members.length === 0) return;
    if (!folder) return this.#keep(lists[0], format, members);
    const value = this.#cleaned(lists);
    if (format.joins) {
      const part = { lines: value.flat(), members };
      return this.#keepRun(part, format, await this.#copies(format, part.lines), value);
    }
    const canonical = canonicalJson(value);
    const converted = format.convert({ value, canonical, ordinal: this.#ordinalOf(canonical) });
    await this.#keepConverted(await readBeside(format, value, converted, this.#earlier), format, members);
  }

  async #keepRun(part: Part<Member>, format: Format, copied: IdsElsewhere, native?: unknown): Promise<void> {
    const { converted, part: whole } = await readRun(
      format,
      part,
      this.#ordinalOf,
      { ...this.#earlier, copied },
      native,
    );
    await this.#keepConverted(converted, format, whole.members, part.members[0]);
  }

  /** Takes files whose lines are runs or parts of runs. */
  async #takeRuns(files: readonly InputFile[], format: Format): Promise<void> {
    for await (const { lists, members, refused } of gatherFiles(files, this.#check)) {
      for (const { refusal, place, raw } of refused) await this.#batches.refuse(refusal, place, raw);
      let from = 0;
      const parts = lists.map((list) => {
        const lines: readonly unknown[] = this.#cleaned(list);
        from += list.length;
        return { lines, members: members.slice(from - list.length, from) };
      });
      const { runs, strays } = joinParts(
        parts.filter(({ lines }) => lines.length > 0),
        format.joins!,
      );
      const all = [...runs, ...strays];
      const copied = new Map<Part<Member>, IdsElsewhere>();
      for (const part of oldestFirst(all, format)) copied.set(part, await this.#copies(format, part.lines));
      for (const part of all) await this.#keepRun(part, format, copied.get(part)!);
    }
  }

  async #takeFiles(inputs: readonly InputFile[], last = false): Promise<void> {
    for (const input of inputs) {
      if (this.#options.signal?.aborted) throw interruption();
      this.#position = { file: input.path, bytes: 0 };
      await this.#takeFile(input, last);
      this.#position = { file: input.path, bytes: 0 };
      if (!last && this.#deferred.at(-1) === input) continue;
      this.#bytesBefore += input.bytes;
      this.#progress();
    }
  }

  readonly #check = (): void => {
    if (this.#options.signal?.aborted) throw interruption();
  };

  /** A file that was named and that no format knows: its own fault is reported where it is broken JSON or a broken archive. */
  async #refuseFile(file: string, head: readonly FileRecord[], shape: Head['shape']): Promise<void> {
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
    await this.#batches.refuse(refusal, { file, line: broken ? first.line : null }, first?.raw ?? new Uint8Array());
  }
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
