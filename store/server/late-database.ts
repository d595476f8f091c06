/** A database that may be away when a process starts: until it is there every call fails as unreachable, and it is opened in the background. */
import { type ErrorCode, TroupeError } from '../../errors.ts';
import { type Database, type DatabaseOptions, openDatabase, projectOf } from '../db/database.ts';
import { patiently } from '../db/patience.ts';
import type { Db } from '../db/pool.ts';

/** What waiting does not mend. */
const PERMANENT: readonly ErrorCode[] = [
  'config_invalid',
  'not_found',
  'schema_newer',
  'schema_missing',
  'platform_unsupported',
];
/** How long the first attempt is waited for: a database that is there is there at once. */
const FIRST_MS = 3000;
const CLOSE_MS = 1000;

export type LateDatabase = Database & {
  /** Rejects with what waiting does not mend; never resolves. */
  readonly failed: Promise<never>;
};

/** @throws TroupeError as `openDatabase`, where waiting does not mend it and that is known soon. */
export async function openLateDatabase(
  options: DatabaseOptions,
  onTrouble: (error: unknown) => void,
): Promise<LateDatabase> {
  const project = projectOf(options);
  const stop = new AbortController();
  let opened: Database | null = null;
  const open = async (): Promise<void> => {
    opened = await openDatabase(options).catch((error: unknown) => {
      const mended = error instanceof TroupeError && !PERMANENT.includes(error.code);
      throw mended ? new TroupeError('unreachable', error.message, error.detail) : error;
    });
  };
  const opening = patiently(open, { signal: stop.signal, onTrouble });
  const failed = new Promise<never>((_, reject) => {
    opening.catch((error) => {
      if (!stop.signal.aborted) reject(error);
    });
  });
  failed.catch(() => {});
  await Promise.race([opening, new Promise((resolve) => setTimeout(resolve, FIRST_MS))]);

  const there = (): Database => {
    if (opened === null) throw new TroupeError('unreachable', 'The database is away; it is tried again.');
    return opened;
  };
  const db = (): Db => there().db;
  return {
    project,
    embedded: options.databaseUrl === undefined,
    /** Throws `unreachable` until there is one. */
    get url() {
      return there().url;
    },
    failed,
    db: {
      query: async (...asked) => db().query(...asked),
      stream: (...asked) => db().stream(...asked),
      copyIn: async (...asked) => db().copyIn(...asked),
      copyOut: (...asked) => db().copyOut(...asked),
      transaction: async (...asked) => db().transaction(...asked),
      listen: async (...asked) => db().listen(...asked),
      close: async () => opened?.db.close(),
    },
    close: async () => {
      stop.abort();
      // One that hangs while it connects is not waited for.
      const closed = opening.catch(() => {}).then(() => opened?.close());
      await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, CLOSE_MS).unref())]);
    },
  };
}
