/**
 * The program that holds the embedded server of one home. It is started, detached, by the first command that needs
 * the server, and counts its users by their open sockets: a socket closes however its process ends. When the last
 * has gone it waits a moment, stops the server and ends.
 *
 * One home never has two servers, because PostgreSQL locks its cluster; a keeper that finds it locked by the server
 * of a living keeper gives up, and by one that is just stopping waits.
 */
import { randomBytes } from 'node:crypto';
import { appendFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { TroupeError } from '../../errors.ts';
import { environmentError } from '../db/faults.ts';
import { prepareBinaries } from './binaries.ts';
import { ensureCluster } from './cluster.ts';
import { homeAt } from './home.ts';
import {
  joinKeeper,
  type KeeperOrder,
  type KeeperReport,
  keeperFile,
  keeperPid,
  type ServerAddress,
} from './keeping.ts';
import { clearLock, InUse, type Server, startServer } from './launcher.ts';
import { socketFolder } from './sockets.ts';

const FIRST_USER_MS = 15_000;
const LOCKED_MS = 60_000;
const CRASHES = 5;
const CRASH_WINDOW_MS = 60_000;
const LOG_BYTES = 4 * 1024 * 1024;

const order = JSON.parse(process.argv[2]!) as KeeperOrder;
const home = homeAt(order.home);
const logFile = join(home.run, 'postgres.log');

for (const signal of ['SIGINT', 'SIGHUP', 'SIGPIPE'] as const) process.on(signal, () => {});

/** Sends a message to the command that started this keeper, if it is still there. */
function report(what: KeeperReport): void {
  if (process.connected) process.send?.(what, () => process.connected && process.disconnect());
}

function onLog(text: string): void {
  try {
    if ((statSync(logFile, { throwIfNoEntry: false })?.size ?? 0) > LOG_BYTES) renameSync(logFile, `${logFile}.1`);
    appendFileSync(logFile, text, { mode: 0o600 });
  } catch {
    // A log that cannot be written must not stop the database.
  }
}

type RunningServer = { server: Server; restart: () => Promise<Server> };

/** Null when another keeper holds the cluster. */
async function launch(): Promise<RunningServer | null> {
  const binaries = prepareBinaries(order.base);
  const durable = order.durable ?? true;
  const cluster = await ensureCluster(binaries, home.data, durable);
  const start = () => startServer(binaries, cluster, { durable, ...(order.port ? { port: order.port } : {}), onLog });
  const deadline = performance.now() + LOCKED_MS;
  const patiently = async (): Promise<Server | null> => {
    for (;;) {
      try {
        return await start();
      } catch (error) {
        if (!(error instanceof InUse)) throw error;
      }
      const other = await joinKeeper(home);
      other?.socket.destroy();
      if (other !== null) return null;
      if (performance.now() > deadline) {
        throw new TroupeError(
          'busy',
          `Another server holds ${cluster.folder} and does not answer; stop it and try again.`,
        );
      }
      clearLock(binaries, cluster);
      await sleep(100);
    }
  };
  const server = await patiently();
  return server && { server, restart: () => restarted(start) };
}

/** After a crash the last processes of the dead server may hold its memory for a moment. */
async function restarted(start: () => Promise<Server>): Promise<Server> {
  const deadline = performance.now() + LOCKED_MS;
  for (;;) {
    try {
      return await start();
    } catch (error) {
      if (!(error instanceof InUse) || performance.now() > deadline) throw error;
      await sleep(100);
    }
  }
}

/** Keeps the server until nobody uses it. */
async function keep({ server: first, restart }: RunningServer): Promise<void> {
  let server = first;
  let stopping = false;
  let idle: NodeJS.Timeout | undefined;
  const sockets = new Set<Socket>();
  const token = randomBytes(24).toString('base64url');

  const desk = createServer((socket) => {
    sockets.add(socket);
    clearTimeout(idle);
    socket.setNoDelay(true).on('error', () => {});
    socket.once('close', () => {
      sockets.delete(socket);
      if (sockets.size === 0 && !stopping) idle = setTimeout(stop, order.idleMs);
    });
    const stranger = setTimeout(() => socket.destroy(), 5000);
    let received = '';
    const greet = (text: string) => {
      received += text;
      if (received.length <= token.length && !received.endsWith('\n')) return;
      socket.off('data', greet).resume();
      if (received !== `${token}\n`) return socket.destroy();
      clearTimeout(stranger);
      const address: ServerAddress = { url: server.url('postgres') };
      socket.write(`${JSON.stringify(address)}\n`);
    };
    socket.setEncoding('latin1').on('data', greet);
  });

  async function stop(): Promise<void> {
    if (stopping) return;
    stopping = true;
    // From here on no user can come in: whoever connects is refused and starts a keeper of its own.
    desk.close();
    if (keeperPid(home) === process.pid) rmSync(keeperFile(home), { force: true });
    for (const socket of sockets) socket.destroy();
    await server.stop();
    process.exit(0);
  }

  async function watch(): Promise<void> {
    for (let crashes: number[] = []; ; ) {
      await server.ended;
      if (stopping) return;
      crashes = [...crashes.filter((at) => performance.now() - at < CRASH_WINDOW_MS), performance.now()];
      if (crashes.length > CRASHES) return stop();
      onLog(`troupe: the server ended unexpectedly and is started again\n`);
      server = await restart();
    }
  }

  const path = join(socketFolder(home.run, 'keeper.sock'), 'keeper.sock');
  rmSync(path, { force: true }); // Left by a keeper that was killed: only the one that holds the cluster comes here.
  const file = keeperFile(home);
  const half = `${file}.${process.pid}`;
  try {
    await new Promise<void>((resolve, reject) => desk.once('error', reject).listen(path, resolve));
    writeFileSync(half, JSON.stringify({ path, token, pid: process.pid }), { mode: 0o600 });
    renameSync(half, file);
  } catch (error) {
    // Where nobody can find it, its server would hold the cluster for ever.
    rmSync(half, { force: true });
    desk.close();
    await server.stop();
    throw error;
  }
  process.on('SIGTERM', () => void stop());
  idle = setTimeout(stop, FIRST_USER_MS);
  report({ outcome: 'ready' });
  watch().catch((error: unknown) => {
    onLog(`troupe: ${error}\n`);
    return stop();
  });
}

try {
  const launched = await launch();
  if (launched === null) report({ outcome: 'another' });
  else await keep(launched);
} catch (error) {
  const known = error instanceof TroupeError ? error : environmentError(error);
  report({
    outcome: 'failed',
    code: known?.code ?? 'internal',
    message: known?.message ?? `The embedded PostgreSQL did not start: ${error}`,
  });
  onLog(`troupe: ${error}\n`);
  process.exitCode = 1;
}
