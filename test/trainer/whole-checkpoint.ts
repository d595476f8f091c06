/** A checkpoint as bytes in memory: what saving one must write. */
import { sha256 } from '../../ingest/events/json.ts';
import {
  type CheckpointContents,
  type CheckpointMeta,
  checkpointParts,
  type Identity,
  identityOf,
  MANIFEST,
  manifestBytes,
} from '../../trainer/model/checkpoints/checkpoint-format.ts';
import type { Files } from '../../trainer/model/files/atomic.ts';
import { joined } from '../../trainer/model/files/safetensors.ts';

export const identify = (bytes: Files, meta: CheckpointMeta): Identity =>
  identityOf(
    Object.fromEntries([...bytes].map(([name, file]) => [name, { bytes: file.length, sha256: sha256(file) }])),
    meta,
  );

export function encodeCheckpoint(contents: CheckpointContents): { readonly identity: Identity; readonly bytes: Files } {
  const bytes = new Map([...checkpointParts(contents)].map(([name, parts]) => [name, joined(parts)]));
  const identity = identify(bytes, contents.meta);
  return { identity, bytes: bytes.set(MANIFEST, manifestBytes(identity, contents.meta)) };
}
