/** Which partition of a log a key belongs to. The same in every process and release. */
import { createHash } from 'node:crypto';

/** Partitions of the embedded log. */
export const PARTITIONS = 16;

/** Of the embedded log: the first four bytes of the key's SHA-256, modulo. */
export const partitionOf = (key: string, partitions = PARTITIONS): number =>
  createHash('sha256').update(key).digest().readUInt32BE(0) % partitions;

/** Of a topic, as Kafka's own clients spread keys: murmur2 of its bytes without the sign, modulo. */
export const kafkaPartitionOf = (key: string, partitions: number): number =>
  (murmur2(Buffer.from(key)) & 0x7fffffff) % partitions;

/** MurmurHash2, 32 bits, with the seed of Kafka's `Utils.murmur2`. */
export function murmur2(bytes: Buffer): number {
  const M = 0x5bd1e995;
  let h = 0x9747b28c ^ bytes.length;
  const whole = bytes.length & ~3;
  for (let i = 0; i < whole; i += 4) {
    let k = Math.imul(bytes.readInt32LE(i), M);
    k ^= k >>> 24;
    h = Math.imul(h, M) ^ Math.imul(k, M);
  }
  if (whole < bytes.length) {
    h ^= bytes.readUIntLE(whole, bytes.length - whole);
    h = Math.imul(h, M);
  }
  h ^= h >>> 13;
  h = Math.imul(h, M);
  return h ^ (h >>> 15);
}
