/** Which partition of the log a key belongs to: the first four bytes of its SHA-256, modulo. The same in every process and release. */
import { createHash } from 'node:crypto';

/** Partitions of the embedded log. */
export const PARTITIONS = 16;

export const partitionOf = (key: string, partitions = PARTITIONS): number =>
  createHash('sha256').update(key).digest().readUInt32BE(0) % partitions;
