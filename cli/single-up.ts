/**
 * One `troupe up` for each home and project, told by a socket that it listens on: the kernel knows whether its process lives, also where
 * a number of a process means nothing, between containers.
 */
import { createHash } from 'node:crypto';
import { renameSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TroupeError } from '../errors.ts';
import type { Home } from '../store/db/home.ts';
import { fitsSocket, listensAt } from '../store/db/sockets.ts';

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
  const inHome = join(home.run, `up-${project}.sock`);
  // The name that it is moved aside to must fit too.
  if (fitsSocket(`${inHome}.${process.pid}`)) return inHome;
  return join(tmpdir(), `troupe-up-${createHash('sha256').update(inHome).digest('hex').slice(0, 24)}.sock`);
}
