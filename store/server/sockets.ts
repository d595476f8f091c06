/** Where Unix sockets lie: in a folder that only their owner can enter, at a path that the system can hold. */
import { createHash } from 'node:crypto';
import { chmodSync, chownSync, mkdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { claimBase, type Identity } from './binaries.ts';

/** `sun_path` has 108 bytes on Linux and 104 on macOS, of which the last ends the path. */
const LONGEST_PATH = 103;

/** Whether a process listens at this path, also one that is stopped. */
export const listensAt = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });

/** True where a socket can be bound at this path. */
const fitsSocket = (path: string): boolean => Buffer.byteLength(path) <= LONGEST_PATH;

/**
 * The folder for the socket `name`, with mode 0700: `folder` itself, or where its path is too long one below /tmp whose name is a hash
 * of it, so that all who know the folder find the same socket. `owner` is who binds it, if that is not this user.
 * @throws TroupeError `conflict` where somebody else could have prepared the folder below /tmp
 */
export function socketFolder(folder: string, name: string, owner: Identity | null = null): string {
  if (fitsSocket(join(folder, name))) {
    chmodSync(folder, 0o700);
    return folder;
  }
  const base = claimBase(`/tmp/troupe-${process.getuid?.() ?? 0}`);
  const short = join(base, createHash('sha256').update(join(folder, name)).digest('hex').slice(0, 24));
  mkdirSync(short, { recursive: true, mode: 0o700 });
  chmodSync(short, 0o700);
  if (owner) chownSync(short, owner.uid, owner.gid);
  return short;
}
