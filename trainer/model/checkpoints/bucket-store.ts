/**
 * Checkpoints in a bucket: `<prefix>/<id>/<file>`, which is a model's directory as it lies on disk, and `<prefix>/latest`.
 * troupe.json is put last and removed first, and a checkpoint without it is not there: a transfer that ends in the
 * middle shows nothing, and the next one goes on where it ended.
 */
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { got, TroupeError } from '../../../errors.ts';
import type { FileFacts } from '../files/atomic.ts';
import { readSmallFile, withFile } from '../files/read-file.ts';
import { isCheckpointId, verifyCheckpoint } from './checkpoint.ts';
import { checkpointDamaged, type Identity, MANIFEST, readManifest } from './checkpoint-format.ts';
import {
  type CheckpointStore,
  checkId,
  isLatest,
  type Latest,
  latestMoved,
  localStore,
  publishFetched,
} from './checkpoint-store.ts';
import { type ObjectAccess, type Objects, openObjects } from './object-store.ts';

/** Larger files go in parts, of this size or what makes 9,000 of them (S3 takes 10,000). */
const PART = 16 << 20;

/**
 * The store at an address: `s3://bucket/prefix`, or else a folder. `access` is asked for only where it is needed.
 * Throws `usage` for an address that is none, and as `openObjects` does.
 */
export async function openCheckpointStore(address: string, access: () => ObjectAccess): Promise<CheckpointStore> {
  if (!address.includes('://')) return localStore(address);
  const { objects, prefix } = await bucketAt(address, access);
  return bucketStore(objects, prefix);
}

/** The bucket of `s3://bucket/prefix`, and the prefix; '' is the whole bucket. Throws `usage` and as `openObjects` does. */
export async function bucketAt(
  address: string,
  access: () => ObjectAccess,
): Promise<{ readonly objects: Objects; readonly prefix: string }> {
  const [, bucket, prefix] = /^s3:\/\/([^/]+)\/?(.*?)\/*$/.exec(address) ?? [];
  if (bucket === undefined || prefix === undefined || /(^|\/)\.{0,2}(\/|$)/.test(prefix || 'x')) {
    throw new TroupeError('usage', `${got(address)} is not the address of a store.`, {
      expected: 's3://bucket/prefix or a folder',
    });
  }
  return { objects: await openObjects(bucket, access()), prefix };
}

/** Checkpoints under a prefix of a bucket; '' is the whole bucket. */
export function bucketStore(objects: Objects, prefix: string): CheckpointStore {
  const under = (...names: readonly string[]): string => [...(prefix === '' ? [] : [prefix]), ...names].join('/');
  const address = prefix === '' ? objects.address : `${objects.address}/${prefix}`;

  async function manifestOf(id: string): Promise<{ identity: Identity; content: Uint8Array }> {
    checkId(id);
    const found = await objects.small(under(id, MANIFEST));
    if (!found) throw new TroupeError('not_found', `There is no checkpoint ${id} in ${address}.`);
    const { identity } = readManifest(found.content);
    if (identity.id !== id) throw checkpointDamaged(`what lies at ${address}/${id} is ${identity.id}`);
    return { identity, content: found.content };
  }

  async function latest(): Promise<Latest | null> {
    const found = await objects.small(under('latest'));
    if (!found) return null;
    const id = new TextDecoder().decode(found.content.subarray(0, 64)).trim();
    if (!isCheckpointId(id)) throw checkpointDamaged(`latest in ${address} holds ${got(id)}`);
    return { id, version: found.version };
  }

  return {
    address,
    async put(dir) {
      const { id, files } = await verifyCheckpoint(dir);
      const manifest = await readSmallFile(join(dir, MANIFEST));
      const [sent, kept]: [string[], string[]] = [[], []];
      let bytes = 0;
      for (const [name, facts] of [...Object.entries(files), [MANIFEST, manifest.facts] as const]) {
        const key = under(id, name);
        const there = await objects.facts(key);
        if (there?.sha256 === facts.sha256 && there.bytes === facts.bytes) {
          kept.push(name);
          continue;
        }
        await send(objects, key, join(dir, name), facts);
        sent.push(name);
        bytes += facts.bytes;
      }
      return { id, sent, kept, bytes };
    },
    async list() {
      const start = under('').length;
      const keys = await objects.list(under(''));
      const ids = keys
        .filter((key) => key.endsWith(`/${MANIFEST}`))
        .map((key) => key.slice(start, -MANIFEST.length - 1));
      return ids.filter(isCheckpointId).sort();
    },
    async get(id, folder) {
      const { identity, content } = await manifestOf(id);
      return publishFetched(folder, identity, content, (name, path) =>
        fetchFile(objects, under(id, name), path, identity.files[name]!.bytes),
      );
    },
    latest,
    async pointLatest(id, expected) {
      await manifestOf(id);
      const content = new TextEncoder().encode(`${id}\n`);
      const condition = expected === undefined ? {} : { ifVersion: expected };
      try {
        await objects.put(under('latest'), content, createHash('sha256').update(content).digest('hex'), condition);
      } catch (error) {
        const { code } = error as TroupeError;
        const missing = code === 'not_found' && expected !== undefined;
        throw code === 'conflict' || missing ? latestMoved(address) : error;
      }
    },
    async remove(id) {
      checkId(id);
      if ((await latest())?.id === id) throw isLatest(id, address);
      const keys = await objects.list(under(id, ''));
      if (keys.length === 0) throw new TroupeError('not_found', `There is no checkpoint ${id} in ${address}.`);
      const manifest = under(id, MANIFEST);
      if (keys.includes(manifest)) await objects.remove(manifest);
      for (const key of keys) if (key !== manifest) await objects.remove(key);
    },
  };
}

/** Sends a file, which is compared with its hash on the way: one that was changed meanwhile does not arrive. */
async function send(objects: Objects, key: string, path: string, { bytes, sha256 }: FileFacts): Promise<void> {
  const hash = createHash('sha256');
  const compare = (): void => {
    if (hash.digest('hex') !== sha256) throw checkpointDamaged(`${path} was changed while it was sent`);
  };
  await withFile(path, async ({ file }) => {
    const step = Math.max(PART, Math.ceil(bytes / 9000));
    async function* parts(): AsyncGenerator<Uint8Array> {
      for (let at = 0; at < bytes; at += step) {
        const part = new Uint8Array(Math.min(step, bytes - at));
        for (let done = 0; done < part.length; ) {
          const { bytesRead } = await file.read(part, done, part.length - done, at + done);
          if (bytesRead === 0) throw checkpointDamaged(`${path} became shorter while it was sent`);
          done += bytesRead;
        }
        hash.update(part);
        if (at + step >= bytes) compare();
        yield part;
      }
    }
    if (bytes > step) return objects.putParts(key, parts(), sha256);
    const first = await parts().next();
    await objects.put(key, first.value ?? new Uint8Array(0), sha256);
  });
}

/** Writes an object to a new file, flushed, and answers what arrived. */
async function fetchFile(objects: Objects, key: string, path: string, bytes: number): Promise<FileFacts> {
  const hash = createHash('sha256');
  const file = await open(path, 'wx');
  try {
    let writing = Promise.resolve();
    for (let at = 0; at < bytes; at += PART) {
      const part = await objects.read(key, at, Math.min(bytes, at + PART));
      await writing;
      hash.update(part);
      writing = file.writeFile(part);
      writing.catch(() => {});
    }
    await writing;
    await file.sync();
  } finally {
    await file.close();
  }
  return { bytes, sha256: hash.digest('hex') };
}
