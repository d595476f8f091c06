/**
 * Where a recorder keeps events while the server is away: a folder of files, a line for each event, in the form that the server and
 * `troupe import` read. A file that has its name is whole, on disk, and never changes again, so any process may send it, and remove it
 * once the server has answered for every line; two that send the same one send duplicates. Its name carries its hash.
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { EventLine } from './send.ts';

const WHOLE = /^\d{15}-\d{6}-[0-9a-f]{8}-([0-9a-f]{32})\.ndjson$/;
/** A file still being written after this long belongs to a process that was killed; it was never reported as stored. */
const ABANDONED_MS = 60_000;

let written = 0;

/** @throws where the folder cannot be made. */
export function openSpill(dir: string, maxBytes: number) {
  mkdirSync(dir, { recursive: true });
  let damaged = 0;
  const aside = (name: string, why: string): void => {
    damaged++;
    renameSync(join(dir, name), join(dir, `${name}.damaged`));
    process.stderr.write(`${join(dir, name)} ${why}; it is moved aside. troupe import takes what is good in it.\n`);
  };
  for (const name of readdirSync(dir)) {
    if (!name.endsWith('.part') || Date.now() - statSync(join(dir, name)).mtimeMs < ABANDONED_MS) continue;
    ifThere(() => aside(name, 'was never finished'));
  }

  return {
    /** Answers once the events are on disk: true, or false where the folder would grow beyond its bound or cannot be written. */
    keep: (entries: readonly EventLine[]): boolean => {
      const body = Buffer.from(entries.map(({ json }) => `${json}\n`).join(''));
      if (sizeOf(dir) + body.length > maxBytes) return false;
      const stamp = `${Date.now()}`.padStart(15, '0');
      const number = `${written++ % 1e6}`.padStart(6, '0');
      const name = `${stamp}-${number}-${randomBytes(4).toString('hex')}-${digest(body)}.ndjson`;
      try {
        publish(dir, name, body);
        return true;
      } catch (error) {
        process.stderr.write(`Events could not be kept in ${dir}: ${(error as Error).message}\n`);
        return false;
      }
    },
    /** The oldest whole file; a damaged one on the way is moved aside and counted. Null when there is none. */
    oldest: () => {
      for (const name of wholeFiles(dir)) {
        const body = ifThere(() => readFileSync(join(dir, name)));
        if (body === null) continue;
        const entries = digest(body) === WHOLE.exec(name)![1] ? entriesOf(body) : null;
        if (entries !== null) return { name, entries };
        ifThere(() => aside(name, 'was damaged'));
      }
      return null;
    },
    remove: (name: string): void => rmSync(join(dir, name), { force: true }),
    /** Files moved aside by this recorder. */
    damaged: (): number => damaged,
  };
}

/** By name, which begins with the time: the oldest is sent first. */
const wholeFiles = (dir: string): string[] =>
  readdirSync(dir)
    .filter((name) => WHOLE.test(name))
    .sort();

const sizeOf = (dir: string): number =>
  wholeFiles(dir).reduce((sum, name) => sum + (ifThere(() => statSync(join(dir, name)).size) ?? 0), 0);

const digest = (body: Buffer): string => createHash('sha256').update(body).digest('hex').slice(0, 32);

function entriesOf(body: Buffer): EventLine[] | null {
  try {
    return body
      .toString('utf8')
      .split('\n')
      .slice(0, -1)
      .map((json) => {
        const { id, type } = JSON.parse(json) as EventLine;
        return { id, type, json };
      });
  } catch {
    return null;
  }
}

/** The file and then its folder reach the disk before it counts as kept. */
function publish(dir: string, name: string, body: Buffer): void {
  const part = join(dir, `${name}.part`);
  try {
    const file = openSync(part, 'wx', 0o600);
    try {
      for (let at = 0; at < body.length; ) at += writeSync(file, body, at);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(part, join(dir, name));
  } catch (error) {
    rmSync(part, { force: true });
    throw error;
  }
  const folder = openSync(dir, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Another process may have sent and removed the file meanwhile. */
function ifThere<T>(work: () => T): T | null {
  try {
    return work();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
