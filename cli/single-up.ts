/**
 * One `troupe up` for each home and project, detected by a socket that it listens on: the kernel knows whether its process lives, also where
 * a number of a process means nothing, between containers.
 */
import { renameSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { TroupeError } from '../errors.ts';
import type { Home } from '../store/db/home.ts';
import { listensAt, socketFolder } from '../store/db/sockets.ts';

/** Claims the home for this process until the returned function is called or it ends. @throws TroupeError `conflict` where another has it. */
export async function claimHome(home: Home, project: string): Promise<() => void> {
  const path = socketOf(home, project);
  const taken = () =>
    new TroupeError(
      'conflict',
      `Another \`troupe up\` runs on the home ${home.root} for project ${project} already; stop that one, or use another --home or --project.`,
    );
  for (let tries = 0; tries < 5; tries++) {
    const server = createServer((socket) => socket.destroy()).unref();
    const listening = await new Promise<boolean>((resolve, reject) => {
      server.once('error', (error: NodeJS.ErrnoException) =>
        error.code === 'EADDRINUSE' ? resolve(false) : reject(error),
      );
      server.listen(path, () => resolve(true));
    });
    if (listening) return () => server.close();
    if (await listensAt(path)) throw taken();
    // Left by one that was killed. It is moved before it is removed: another may just have taken its place, and gets it back.
    const aside = `${path}.${process.pid}`;
    try {
      renameSync(path, aside);
    } catch {
      continue;
    }
    if (await listensAt(aside)) {
      renameSync(aside, path);
      throw taken();
    }
    rmSync(aside, { force: true });
  }
  throw taken();
}

function socketOf(home: Home, project: string): string {
  const name = `up-${project}.sock`;
  // The name that it is moved aside to must fit too; no process has a number of more than seven digits.
  const folder = socketFolder(home.run, `${name}.${'0'.repeat(7)}`);
  return join(folder, folder === home.run ? name : 'up.sock');
}
