/**
 * One `troupe up` for each home and project, detected by a socket that it listens on: the kernel knows whether its process lives, also where
 * a number of a process means nothing, between containers. `troupe down` asks it to end over the same socket.
 */
import { renameSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { TroupeError } from '../../errors.ts';
import type { Home } from '../../store/server/home.ts';
import { listensAt, socketFolder } from '../../store/server/sockets.ts';

/** What `troupe down` writes. */
const END = 'end\n';

/**
 * Claims the home for this process until the returned function is called or it ends. `onEnd`: called when `endUp` asks.
 * @throws TroupeError `conflict` where another has it.
 */
export async function claimHome(home: Home, project: string, onEnd: () => void): Promise<() => void> {
  const path = socketOf(home, project);
  const taken = () =>
    new TroupeError(
      'conflict',
      `Another \`troupe up\` runs on the home ${home.root} for project ${project} already; stop that one, or use another --home or --project.`,
    );
  for (let tries = 0; tries < 5; tries++) {
    const server = createServer((socket) => answer(socket, onEnd)).unref();
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

/** Answers with the process that ends. The connection stays open, and its end says that the process is gone. */
function answer(socket: Socket, onEnd: () => void): void {
  socket.unref().on('error', () => {});
  let asked = '';
  socket.setEncoding('utf8').on('data', (text: string) => {
    asked = (asked + text).slice(-END.length);
    if (asked !== END) return;
    socket.write(`${process.pid}\n`);
    onEnd();
  });
}

/**
 * Ends the `troupe up` of a home and project, and resolves when its process is gone: with the number of it, null where none runs.
 * @throws TroupeError `busy` where it is still there after that time.
 */
export function endUp(home: Home, project: string, patienceMs: number): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketOf(home, project));
    let pid: number | null = null;
    const late = () =>
      new TroupeError(
        'busy',
        `The \`troupe up\`${pid === null ? '' : ` of process ${pid}`} on the home ${home.root} for project ${project} has not ended within ${patienceMs / 1000} s; try again, or kill it.`,
      );
    const patience = setTimeout(() => socket.destroy(late()), patienceMs);
    socket.once('connect', () => socket.write(END));
    socket.setEncoding('utf8').on('data', (text: string) => {
      pid ??= Number.parseInt(text, 10);
    });
    // One that is killed cuts the connection, and is gone as well.
    socket.once('error', (error) => (error instanceof TroupeError ? reject(error) : resolve(pid)));
    socket.once('close', () => {
      clearTimeout(patience);
      resolve(pid);
    });
  });
}

function socketOf(home: Home, project: string): string {
  const name = `up-${project}.sock`;
  // The name that it is moved aside to must fit too; no process has a number of more than seven digits.
  const folder = socketFolder(home.run, `${name}.${'0'.repeat(7)}`);
  return join(folder, folder === home.run ? name : 'up.sock');
}
