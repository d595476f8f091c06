/**
 * What a failed database call means. Errors of statements stay the driver's own, because their SQLSTATE decides what
 * to do; errors of connecting become one clear line that names host and port and never the password.
 */
import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { TroupeError } from '../../errors.ts';

/** The five-character SQLSTATE of an error, or null when it did not come from the server. None begins with E, as EPIPE of a socket does. */
export function sqlState(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && /^(?!E)[0-9A-Z]{5}$/.test(code) ? code : null;
}

const LOST =
  /connection terminated|client was closed|not queryable|econnreset|econnrefused|epipe|etimedout|socket hang up/i;

/** Of the client of the brokers, told by name: it is loaded only where there are brokers. */
const isOfBrokers = (error: unknown): error is Error & { readonly retriable?: boolean } =>
  error instanceof Error && error.name.startsWith('KafkaJS');

/**
 * True when the environment failed and the same statement may succeed later: connection lost, server stopping or
 * starting, disk or memory or connections exhausted, lock not available, deadlock, serialization failure, a transaction that was
 * cut off because its owner slept.
 * False for what the data or the statement itself is guilty of; sending that again fails again.
 */
export function isTransient(error: unknown): boolean {
  if (error instanceof TroupeError) return error.retriable;
  if (isFullDisk(error)) return true;
  const state = sqlState(error);
  if (state !== null)
    return /^(08|53|58)/.test(state) || /^(57P0[1-5]|57014|55P03|40001|40P01|40003|25P03)$/.test(state);
  if (isOfBrokers(error) && error.retriable === true) return true;
  return error instanceof Error && (LOST.test(error.message) || LOST.test(String((error as { code?: string }).code)));
}

/** The transaction sat idle or ran for too long: it may be that it had too much to do, and less of it succeeds. */
export const isTooMuch = (error: unknown): boolean => ['25P03', '57014'].includes(sqlState(error) ?? '');

/** Of the server (53100) or of this process (ENOSPC, EDQUOT). */
export const isFullDisk = (error: unknown): boolean =>
  ['53100', 'ENOSPC', 'EDQUOT'].includes(String((error as { code?: unknown } | null)?.code));

/** The error of a program of PostgreSQL that says in its output that a disk is full; null for any other output. */
export function fullDiskIn(output: string, folder: string): TroupeError | null {
  const [line] = /^.*(?:No space left on device|Disk quota exceeded).*$/m.exec(output) ?? [];
  if (line === undefined) return null;
  const reason = line.replace(/^.*?(?:FATAL|PANIC|ERROR|error): */, '').trim();
  return new TroupeError('disk_full', `The disk of ${folder} is full: ${reason}. Free some space, and try again.`, {
    got: reason,
  });
}

/**
 * The error for a failure of the environment, null for any other error. Codes: `disk_full`, `busy`, `unreachable`.
 * Nothing that failed so was half done: a transaction is whole or not there.
 */
export function environmentError(error: unknown): TroupeError | null {
  if (error instanceof TroupeError || !isTransient(error)) return null;
  const { message, path } = error as { readonly message: string; readonly path?: string };
  const [firstLine] = message.split('\n', 1);
  const detail = { cause: error, got: sqlState(error) ?? String((error as { code?: string }).code ?? firstLine) };
  const again = 'What was committed stays; run the command again.';
  if (isFullDisk(error)) {
    const where = sqlState(error) === null ? (path ?? 'this machine') : 'PostgreSQL';
    return new TroupeError(
      'disk_full',
      `The disk of ${where} is full: ${firstLine}. Free some space. ${again}`,
      detail,
    );
  }
  if (isOfBrokers(error))
    return new TroupeError(
      'unreachable',
      `The connection to the Kafka brokers was lost: ${firstLine}. Check the setting kafka_brokers, and whether they run. ${again}`,
      detail,
    );
  const state = sqlState(error) ?? '';
  if (/^(53|40|55)|^57014$/.test(state))
    return new TroupeError('busy', `PostgreSQL could not do it now: ${firstLine}. ${again}`, detail);
  return new TroupeError('unreachable', `The connection to PostgreSQL was lost: ${firstLine}. ${again}`, detail);
}

/** Nothing answers, or what answers starts, stops or recovers. */
const isAway = (code: string): boolean => /^(ECONNREFUSED|ECONNRESET|ENOENT|EPIPE|57P0[1-3])$/.test(code);

/** Where a database address points, its user and database, for messages. `at` is host:port or the path of a socket. The password is left out. */
export function addressOf(url: string): { at: string; user: string; database: string } {
  const parsed = parseAddress(url);
  const host = parsed.searchParams.get('host') || decodeURIComponent(parsed.hostname) || 'localhost';
  const port = parsed.searchParams.get('port') || parsed.port || '5432';
  return {
    at: host.startsWith('/') ? `${host}/.s.PGSQL.${port}` : `${host}:${port}`,
    user: decodeURIComponent(parsed.username),
    database: decodeURIComponent(parsed.pathname.slice(1)),
  };
}

/** @throws TroupeError `config_invalid` when the text is no PostgreSQL address; the text is not repeated, it may hold a password. */
export function parseAddress(url: string): URL {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !/^postgres(ql)?:$/.test(parsed.protocol)) {
    throw new TroupeError(
      'config_invalid',
      'The database address is not a PostgreSQL address; expected postgres://user:password@host:port/database.',
      { field: 'DATABASE_URL' },
    );
  }
  return parsed;
}

/** What PostgreSQL has to write ahead at least before it takes anything (a segment of its log). */
const WRITES_AHEAD = 16 * 1024 * 1024;

/** Bytes that this user may still write in a folder; null where that is not known. */
function bytesFree(folder: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return null;
  }
}

/**
 * The error of a failed connect, as one line. Codes: `unreachable`, `not_found` (no such database), `busy` (no connection slot left), and
 * `disk_full` where a server of this machine is away whose socket lies on a disk without space to start in.
 */
export function connectError(error: unknown, url: string, free = bytesFree): TroupeError {
  if (error instanceof TroupeError) return error;
  const { at: place, user, database } = addressOf(url);
  const at = `PostgreSQL at ${place}`;
  const code = String((error as { code?: unknown }).code ?? '');
  const message = error instanceof Error ? error.message.split('\n', 1)[0] : String(error);
  const detail = { cause: error, got: code || String(message) };
  const folder = place.startsWith('/') ? dirname(place) : null;
  const left = folder !== null && isAway(code) ? free(folder) : null;
  if (left !== null && left < WRITES_AHEAD)
    return new TroupeError(
      'disk_full',
      `${at} is away, and the disk of ${folder} has ${Math.floor(left / 1024)} KiB left, too little for it to start. Free some space; it then goes on by itself.`,
      detail,
    );
  switch (code) {
    case '3D000':
      return new TroupeError('not_found', `${at} has no database "${database}".`, detail);
    case '53300':
      return new TroupeError('busy', `${at} has no connection left; raise max_connections or stop a client.`, detail);
    case '28P01':
    case '28000':
      return new TroupeError('unreachable', `${at} refused the login of user "${user}": ${message}.`, detail);
    case 'ECONNREFUSED':
    case 'ENOENT':
      return new TroupeError('unreachable', `Cannot reach ${at}: nothing answers there. Is the server up?`, detail);
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new TroupeError('unreachable', `Cannot reach ${at}: the host name is not known.`, detail);
    default:
      return new TroupeError('unreachable', `Cannot reach ${at}: ${message}.`, detail);
  }
}

/** Data exceptions, broken constraints and limits of an index row; or a projection that met a shape it does not know. */
export const isAboutData = (error: unknown): boolean =>
  /^(?:22|23|54)/.test(sqlState(error) ?? '') || error instanceof TypeError || error instanceof RangeError;

/** What a value of more than `most` bytes is answered with. */
export function valueTooLarge(most: number): TroupeError {
  const size = `at most ${Math.floor(most / 1024 / 1024)} MiB`;
  return new TroupeError('too_large', `A value should have ${size}; one has more.`, {
    expected: size,
    hint: 'Select the beginning of long text: left(text, 1000).',
  });
}
