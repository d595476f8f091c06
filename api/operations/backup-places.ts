/** Where a backup lies, as commands name it: a file, or an object `s3://BUCKET/KEY`. */
import type { Readable } from 'node:stream';
import { TroupeError } from '../../errors.ts';
import { type BackupTarget, fileTarget } from '../../store/server/backup/backup.ts';
import { type BackupSource, fileSource } from '../../store/server/backup/restore.ts';
import type { Objects } from '../../trainer/model/checkpoints/object-store.ts';

/** A part of an upload, and of a download. */
const PART_BYTES = 16 * 1024 * 1024;
/** Servers take no more parts of one object. */
const MOST_PARTS = 10_000;

/** Where `troupe backup` writes. @throws TroupeError `usage` */
export async function backupTarget(place: string): Promise<BackupTarget> {
  if (!place.includes('://')) return fileTarget(place);
  const { objects, key } = await objectAt(place);
  return {
    name: place,
    isThere: async () => (await objects.facts(key)) !== null,
    write: async (bytes) => {
      let size = 0;
      const counted = async function* () {
        for await (const part of partsOf(bytes)) {
          size += part.length;
          yield part;
        }
      };
      await objects.putParts(key, counted(), null);
      return size;
    },
  };
}

/** Where `troupe restore` reads. @throws TroupeError `usage`, `not_found` */
export async function backupSource(place: string): Promise<BackupSource> {
  if (!place.includes('://')) return fileSource(place);
  const { objects, key } = await objectAt(place);
  const facts = await objects.facts(key);
  if (facts === null) throw new TroupeError('not_found', `There is no backup ${place}.`);
  return async function* () {
    for (let at = 0; at < facts.bytes; at += PART_BYTES)
      yield await objects.read(key, at, Math.min(facts.bytes, at + PART_BYTES));
  };
}

async function objectAt(place: string): Promise<{ readonly objects: Objects; readonly key: string }> {
  const [, bucket, key] = /^s3:\/\/([^/]+)\/(.*[^/])$/.exec(place) ?? [];
  if (bucket === undefined || key === undefined)
    throw new TroupeError('usage', `${place} is no place for a backup; expected a file, or s3://BUCKET/KEY.`);
  const { objectAccess, openObjects } = await import('../../trainer/model/checkpoints/object-store.ts');
  return { objects: await openObjects(bucket, objectAccess(process.env)), key };
}

async function* partsOf(bytes: Readable): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let size = 0;
  let parts = 0;
  for await (const piece of bytes as AsyncIterable<Buffer>) {
    held.push(piece);
    size += piece.length;
    if (size < PART_BYTES) continue;
    const whole = Buffer.concat(held);
    if (++parts === MOST_PARTS)
      throw new TroupeError('too_large', 'A backup in a bucket has at most 160 GB; write it to a file instead.');
    yield whole.subarray(0, PART_BYTES);
    held = [whole.subarray(PART_BYTES)];
    size = held[0]!.length;
  }
  if (size > 0) yield Buffer.concat(held);
}
