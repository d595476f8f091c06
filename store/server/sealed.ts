/**
 * Small facts that a process needs while the database is away, as last read from it. They lie in the home under a seal, an HMAC whose
 * key is the database's own address or password: what was torn, changed, or written for another database is taken for nothing.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder } from '../../ingest/files/make-folder.ts';

export type SealedFile<T> = {
  /** What was written last; null where there is nothing, or the seal is broken. */
  readonly read: () => T | null;
  /** Writes what changed, whole and durable. Throws what the disk refuses. */
  readonly write: (facts: T) => void;
};

/** `secret` is asked for each time; without one nothing is read or written. */
export function sealedFile<T>(path: string, secret: () => string | null): SealedFile<T> {
  let last: string | null = null;
  const sealOf = (text: string, key: string): Buffer => createHmac('sha256', key).update(text).digest();
  return {
    read: () => {
      const key = secret();
      if (key === null) return null;
      try {
        const [seal = '', text = ''] = readFileSync(path, 'utf8').split('\n', 2);
        const found = Buffer.from(seal, 'hex');
        const right = sealOf(text, key);
        return found.length === right.length && timingSafeEqual(found, right) ? (JSON.parse(text) as T) : null;
      } catch {
        return null;
      }
    },
    write: (facts) => {
      const key = secret();
      const text = JSON.stringify(facts);
      if (key === null || text === last) return;
      makeFolder(dirname(path), 0o700);
      const aside = `${path}.${process.pid}`;
      rmSync(aside, { force: true });
      const file = openSync(aside, 'wx', 0o600);
      try {
        writeSync(file, `${sealOf(text, key).toString('hex')}\n${text}\n`);
        fsyncSync(file);
      } finally {
        closeSync(file);
      }
      renameSync(aside, path);
      last = text;
    },
  };
}
