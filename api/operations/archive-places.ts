/**
 * Where archives of pruned episodes lie, as commands name it: a folder, or `s3://BUCKET/PREFIX`. In a bucket the manifest is put last and
 * removed first, so half an archive is none.
 */
import { createHash } from 'node:crypto';
import type { Draft, FileSink } from '../../store/datasets/publish.ts';
import { type ArchivePlace, folders, MANIFEST, type Places } from '../../store/keep/places.ts';
import type { Objects } from '../../trainer/model/checkpoints/object-store.ts';

/** A part of an upload, and of a download. */
const PART_BYTES = 16 * 1024 * 1024;

/** @throws TroupeError `usage` for an address that is none, and where the environment gives no access to buckets */
export const archivePlaces: Places = async (address) => {
  if (!address.includes('://')) return folders;
  const [{ bucketAt }, { objectAccess }] = await Promise.all([
    import('../../trainer/model/checkpoints/bucket-store.ts'),
    import('../../trainer/model/checkpoints/object-store.ts'),
  ]);
  const { objects } = await bucketAt(address, () => objectAccess(process.env));
  return bucketPlace(objects);
};

function bucketPlace(objects: Objects): ArchivePlace {
  const keyOf = (uri: string): string => uri.slice(objects.address.length + 1).replace(/\/+$/, '');
  const addressOf = (key: string): string => `${objects.address}/${key}`;
  const prefixOf = (uri: string): string => (keyOf(uri) === '' ? '' : `${keyOf(uri)}/`);
  const within = (uri: string): Promise<string[]> => objects.list(prefixOf(uri));
  const isManifest = (key: string): boolean => key.endsWith(`/${MANIFEST}`);

  const place: ArchivePlace = {
    at: (uri) => ({ uri, read: (name) => readWhole(objects, `${keyOf(uri)}/${name}`) }),
    async find(address) {
      if (/\.(parquet|json)$/.test(address)) return place.find(address.slice(0, address.lastIndexOf('/')));
      const start = prefixOf(address).length;
      return (await within(address))
        .filter((key) => isManifest(key) && key.slice(start).split('/').length <= 2)
        .map((key) => addressOf(key.slice(0, -MANIFEST.length - 1)));
    },
    draftOf: () => null,
    begin: async (uri) => bucketDraft(objects, keyOf(uri), () => place.remove(uri)),
    async remove(uri) {
      const keys = await within(uri);
      for (const key of [...keys.filter(isManifest), ...keys.filter((one) => !isManifest(one))])
        await objects.remove(key);
    },
  };
  return place;
}

const bucketDraft = (objects: Objects, prefix: string, discard: () => Promise<void>): Draft => ({
  path: `${objects.address}/${prefix}`,
  file: async (name) => objectSink(objects, `${prefix}/${name}`, name),
  publish: async () => true,
  discard,
});

/** Held until it is whole: a file of an archive has some 16 MiB. */
function objectSink(objects: Objects, key: string, name: string): FileSink {
  const pieces: Uint8Array[] = [];
  return {
    write: (bytes) => void pieces.push(bytes),
    async finish() {
      const content = Buffer.concat(pieces);
      const sha256 = createHash('sha256').update(content).digest('hex');
      if (content.length <= PART_BYTES) await objects.put(key, content, sha256);
      else await objects.putParts(key, partsOf(content), sha256);
      return { name, sha256, bytes: content.length };
    },
  };
}

async function* partsOf(content: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < content.length; at += PART_BYTES) yield content.subarray(at, at + PART_BYTES);
}

async function readWhole(objects: Objects, key: string): Promise<Uint8Array | null> {
  const facts = await objects.facts(key);
  if (facts === null) return null;
  const parts: Uint8Array[] = [];
  for (let at = 0; at < facts.bytes; at += PART_BYTES)
    parts.push(await objects.read(key, at, Math.min(facts.bytes, at + PART_BYTES)));
  return Buffer.concat(parts);
}
