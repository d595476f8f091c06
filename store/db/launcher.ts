/**
 * Runs one PostgreSQL server on a cluster, on 127.0.0.1 only, as a child that cannot outlive this process.
 *
 * PostgreSQL's own lock on the cluster (postmaster.pid and its shared memory) is the only lock there is: it is right
 * also after kill -9, and a second server on the same cluster is refused by it.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { TroupeError } from '../../errors.ts';
import type { Binaries } from './binaries.ts';
import { type Cluster, SERVER_ENV, SUPERUSER } from './cluster.ts';
import { freePort } from './free-port.ts';

export type ServerOptions = {
  /** False gives up crash safety for speed: for tests only. */
  readonly durable?: boolean;
  /** The port to try first; any free one is taken when it is not free. */
  readonly port?: number;
  /** No other port will do, because users have the address already. */
  readonly samePort?: boolean;
  /** Settings over the defaults. */
  readonly settings?: Readonly<Record<string, string>>;
  /** What the server writes to its log. */
  readonly onLog?: (text: string) => void;
};

export type Server = {
  readonly port: number;
  /** The address of a database, with the password. */
  url(database: string): string;
  /** Resolves when the server has ended, for whatever reason. */
  readonly ended: Promise<void>;
  /** Ends sessions, writes everything down and stops. */
  stop(): Promise<void>;
};

/** The cluster, or the only port that will do, is in use by a server that is running or whose last process is just ending. */
export class InUse extends Error {
  override readonly name = 'InUse';
}

const DEFAULTS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  password_encryption: 'scram-sha-256',
  max_connections: '200',
  shared_buffers: '256MB',
  max_wal_size: '2GB',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_destination: 'stderr',
  logging_collector: 'off',
  log_checkpoints: 'off',
  lc_messages: 'C',
};

const CARELESS: Readonly<Record<string, string>> = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  autovacuum: 'off',
  max_wal_size: '4GB',
};

/**
 * The server runs under a shell that holds the reading end of a pipe whose only writer is this process. When this
 * process ends, even by kill -9, the pipe closes and the shell stops the server. Signals meant for a terminal's
 * foreground group must not reach the shell.
 */
const DEAD_MAN = `
trap "" INT TERM HUP
exec 3<&0
"$0" "$@" </dev/null 3<&- &
server=$!
(read -r _ <&3; kill -INT $server) 2>/dev/null &
wait $server`;

const READY = 'database system is ready to accept connections';
const STOP_MS = 30_000;
const ATTEMPTS = 5;

/**
 * Starts the server and waits until it takes connections, however long its recovery takes.
 * @throws InUse when another server holds the cluster; TroupeError `internal` when it does not start
 */
export async function startServer(binaries: Binaries, cluster: Cluster, options: ServerOptions = {}): Promise<Server> {
  let port = options.port ?? (await freePort());
  for (let attempt = 1; ; attempt++) {
    const child = launch(binaries, cluster, port, options);
    const failure = await untilReady(child);
    if (failure === null) return serverOf(child, cluster, port);
    const portTaken = /could not create any TCP\/IP sockets/.test(failure);
    if (HELD.test(failure) || (portTaken && options.samePort)) {
      throw new InUse(`${cluster.folder} or port ${port} is in use: ${reasonIn(failure)}`);
    }
    if (!portTaken || attempt === ATTEMPTS) {
      const text = `The embedded PostgreSQL did not start: ${reasonIn(failure) || 'it said nothing'}.`;
      throw new TroupeError('internal', text, { got: failure });
    }
    port = await freePort();
  }
}

const HELD = /lock file "postmaster.pid" already exists|pre-existing shared memory block/;

const reasonIn = (said: string): string | undefined =>
  /(?:FATAL|PANIC): *(.*)/.exec(said)?.[1] ?? said.trim().split('\n').at(-1);

type Child = ChildProcessByStdio<Writable, null, Readable>;

function launch(binaries: Binaries, cluster: Cluster, port: number, options: ServerOptions): Child {
  const settings = { ...DEFAULTS, ...(options.durable === false ? CARELESS : {}), ...options.settings };
  const args = ['-D', join(cluster.folder, 'cluster'), '-p', String(port)];
  for (const [name, value] of Object.entries(settings)) args.push('-c', `${name}=${value}`);
  const child = spawn('/bin/sh', ['-c', DEAD_MAN, join(binaries.bin, 'postgres'), ...args], {
    ...binaries.identity,
    cwd: '/',
    env: SERVER_ENV,
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  child.stdin.on('error', () => {});
  child.stderr.setEncoding('utf8').on('data', (text: string) => options.onLog?.(text));
  return child;
}

/** Null when the server takes connections, else what it said before it ended. */
function untilReady(child: Child): Promise<string | null> {
  return new Promise((resolve) => {
    let said = '';
    const listen = (text: string) => {
      said += text;
      if (said.includes(READY)) settle(null);
    };
    const settle = (outcome: string | null) => {
      child.stderr.off('data', listen);
      resolve(outcome);
    };
    child.stderr.on('data', listen);
    child.once('close', () => settle(said));
    child.once('error', (error) => settle(error.message));
  });
}

function serverOf(child: Child, cluster: Cluster, port: number): Server {
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const release = () => child.stdin.end();
  void ended.then(release);
  return {
    port,
    url: (database) => `postgres://${SUPERUSER}:${cluster.password}@127.0.0.1:${port}/${encodeURIComponent(database)}`,
    ended,
    stop: async () => {
      release();
      const late = setTimeout(() => stopAtOnce(cluster), STOP_MS);
      await ended;
      clearTimeout(late);
    },
  };
}

/** What a polite stop could not end. The cluster recovers at its next start. */
function stopAtOnce(cluster: Cluster): void {
  const pid = lockOwner(cluster);
  if (pid !== null) process.kill(pid, 'SIGQUIT');
}

function lockOwner(cluster: Cluster): number | null {
  try {
    const pid = Number.parseInt(readFileSync(join(cluster.folder, 'cluster', 'postmaster.pid'), 'utf8'), 10);
    return pid > 0 ? pid : null;
  } catch {
    return null;
  }
}

/**
 * Clears what can hold a cluster though no keeper lives: a lock file whose process id now belongs to another program,
 * which PostgreSQL cannot tell from a server, and a server whose dead man's shell was killed with its keeper, which is
 * told to stop. Where /proc is missing nothing is done.
 */
export function clearLock(cluster: Cluster): void {
  const pid = lockOwner(cluster);
  const command = pid === null ? null : commandOf(pid);
  if (pid === null || command === null) return;
  if (!command.includes('bin/postgres')) rmSync(join(cluster.folder, 'cluster', 'postmaster.pid'), { force: true });
  else if (!commandOf(parentOf(pid))?.includes(cluster.folder)) process.kill(pid, 'SIGINT');
}

/** Null where it cannot be known; PostgreSQL itself sees when a process is gone. */
function commandOf(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return null;
  }
}

const parentOf = (pid: number): number =>
  Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
