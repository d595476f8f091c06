/** How a command comes to the embedded server of its home: it joins the keeper that lives, or starts one. */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { TroupeError } from '../../errors.ts';
import type { Home } from './home.ts';
import { joinKeeper, type KeeperOrder, type KeeperReport } from './keeping.ts';

export type ShareOptions = {
  /** False only for tests, and only heeded by the one that starts the server. */
  readonly durable?: boolean;
  /** A TCP port of 127.0.0.1 to listen on besides the socket, only heeded by the one that starts the server. Default: none. */
  readonly port?: number;
  /** How long the server outlives its last user; 2000 ms. */
  readonly idleMs?: number;
  /** Where binaries and data go that cannot lie in the checkout or the home. */
  readonly base?: string;
};

/** The right to use the server. It ends with `close` or with the process. */
export type Lease = {
  /** Address of the server's maintenance database now, with the password. */
  readonly url: string;
  close(): void;
};

const PATIENCE_MS = 90_000;

/**
 * Makes this process a user of the home's server, starting it if nobody has. If its keeper is killed while the lease
 * is held, another is started, and tried for as long as it does not start; the address stays the same.
 * @throws TroupeError `platform_unsupported`, `conflict`, `busy` or `internal` when the server cannot be started
 */
export async function shareServer(home: Home, options: ShareOptions = {}): Promise<Lease> {
  const order: KeeperOrder = { idleMs: 2000, ...options, home: home.root };
  let closed = false;
  let { socket, address } = await enter(home, order);
  const guard = () => {
    socket.unref();
    socket.once('close', () => {
      if (!closed) void again();
    });
  };
  /** For ever: meanwhile statements fail as unreachable, and whoever waits them out goes on once there is a server again. */
  const again = async () => {
    for (let pause = 200; !closed; pause = Math.min(5000, pause * 2)) {
      const entered = await enter(home, order).catch(() => null);
      if (entered !== null) {
        ({ socket, address } = entered);
        if (closed) socket.destroy();
        else guard();
        return;
      }
      await sleep(pause, undefined, { ref: false });
    }
  };
  guard();
  return {
    get url() {
      return address.url;
    },
    close: () => {
      closed = true;
      socket.destroy();
    },
  };
}

/** Whether a server runs on this home now, started by whomever. */
export async function isServing(home: Home): Promise<boolean> {
  const entered = await joinKeeper(home);
  entered?.socket.destroy();
  return entered !== null;
}

async function enter(home: Home, order: KeeperOrder) {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const entered = await joinKeeper(home);
    if (entered !== null) return entered;
    const report = await startKeeper(order);
    if (report.outcome === 'failed') throw new TroupeError(report.code, report.message);
    if (performance.now() > deadline) {
      throw new TroupeError('busy', `The embedded PostgreSQL of ${home.root} starts and stops and cannot be entered.`);
    }
  }
}

/** In a checkout this is TypeScript and the keeper needs the same loader; a built package is plain JavaScript. */
function keeperCommand(): string[] {
  const checkout = import.meta.url.endsWith('.ts');
  const program = fileURLToPath(new URL(checkout ? './keeper.ts' : './keeper.js', import.meta.url));
  if (!checkout) return [program];
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx'));
  return ['--import', loader.href, program];
}

function startKeeper(order: KeeperOrder): Promise<KeeperReport> {
  return new Promise((resolve) => {
    const { NODE_OPTIONS: _, NODE_V8_COVERAGE: __, ...env } = process.env;
    const child = spawn(process.execPath, [...keeperCommand(), JSON.stringify(order)], {
      cwd: '/',
      env,
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    child.once('message', (report) => resolve(report as KeeperReport));
    const gone = (why: string) =>
      resolve({ outcome: 'failed', code: 'internal', message: `The keeper of the embedded PostgreSQL ${why}.` });
    child.once('error', (error) => gone(`could not be started: ${error.message}`));
    child.once('exit', (code, signal) => gone(`ended with ${signal ?? code}`));
    child.unref();
    child.once('disconnect', () => child.removeAllListeners());
  });
}
