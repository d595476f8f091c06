/**
 * Runs one PostgreSQL server on a cluster as a child that cannot outlive this process. It listens on a Unix socket that only its
 * owner can reach, so that nobody else can use up its connections; TCP only where a port is asked for.
 *
 * PostgreSQL's own lock on the cluster (postmaster.pid and its shared memory) is the only lock there is: it is right
 * also after kill -9, and a second server on the same cluster is refused by it.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { TroupeError } from '../../errors.ts';
import { fullDiskIn } from '../db/faults.ts';
import type { Binaries, Identity } from './binaries.ts';
import { type Cluster, SERVER_ENV, SUPERUSER } from './cluster.ts';
import { socketFolder } from './sockets.ts';

export type ServerOptions = {
  /** False gives up crash safety for speed: for tests only. */
  readonly durable?: boolean;
  /** A TCP port of 127.0.0.1 to listen on besides the socket, for programs that know only TCP; none by default. */
  readonly port?: number;
  /** Settings over the defaults. */
  readonly settings?: Readonly<Record<string, string>>;
  /** What the server writes to its log. */
  readonly onLog?: (text: string) => void;
};

export type Server = {
  /** The address of a database at the socket, with the password; the same for every server of a cluster that is given the same port. */
  url(database: string): string;
  /** Resolves when the server has ended, for whatever reason. */
  readonly ended: Promise<void>;
  /** Ends sessions, writes everything down and stops. */
  stop(): Promise<void>;
};

/** The cluster is in use by a server that is running or whose last process is just ending. */
export class InUse extends Error {
  override readonly name = 'InUse';
}

const DEFAULTS: Readonly<Record<string, string>> = {
  listen_addresses: '',
  unix_socket_permissions: '0700',
  password_encryption: 'scram-sha-256',
  max_connections: '200',
  shared_buffers: '256MB',
  max_wal_size: '2GB',
  // Old segments are removed, not kept for later: a home at rest holds 32 MB of them instead of up to 2 GB.
  wal_recycle: 'off',
  min_wal_size: '32MB',
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

/** PostgreSQL names its socket `.s.PGSQL.<port>`, also where it listens on no port. */
const SOCKET_PORT = 5432;
const LONGEST_NAME = '.s.PGSQL.65535';

const socketsOf = (cluster: Cluster, identity: Identity | null): string =>
  socketFolder(cluster.folder, LONGEST_NAME, identity);

/**
 * Starts the server and waits until it takes connections, however long its recovery takes.
 * @throws InUse when another server holds the cluster; TroupeError `disk_full`, `internal` when it does not start, `conflict` when there
 * is no safe folder for its socket
 */
export async function startServer(binaries: Binaries, cluster: Cluster, options: ServerOptions = {}): Promise<Server> {
  const port = options.port ?? SOCKET_PORT;
  const folder = socketsOf(cluster, binaries.identity);
  const child = launch(binaries, cluster, folder, options);
  const failure = await untilReady(child);
  if (failure === null) return serverOf(child, cluster, folder, port);
  if (HELD.test(failure)) throw new InUse(`${cluster.folder} is in use: ${reasonIn(failure)}`);
  const full = fullDiskIn(failure, cluster.folder);
  if (full !== null) throw full;
  const text = `The embedded PostgreSQL did not start: ${reasonIn(failure) || 'it printed no reason'}.`;
  throw new TroupeError('internal', text, { got: failure });
}

const HELD = /lock file "[^"]*" already exists|pre-existing shared memory block/;

const reasonIn = (output: string): string | undefined =>
  /(?:FATAL|PANIC): *(.*)/.exec(output)?.[1] ?? output.trim().split('\n').at(-1);

type Child = ChildProcessByStdio<Writable, null, Readable>;

function launch(binaries: Binaries, cluster: Cluster, sockets: string, options: ServerOptions): Child {
  const settings = {
    ...DEFAULTS,
    ...(options.port === undefined ? {} : { listen_addresses: '127.0.0.1' }),
    unix_socket_directories: `"${sockets.replaceAll('"', '""')}"`,
    ...(options.durable === false ? CARELESS : {}),
    ...options.settings,
  };
  const args = ['-D', join(cluster.folder, 'cluster'), '-p', String(options.port ?? SOCKET_PORT)];
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

/** Null when the server takes connections, else its last output. */
function untilReady(child: Child): Promise<string | null> {
  return new Promise((resolve) => {
    let output = '';
    const listen = (text: string) => {
      output += text;
      if (output.includes(READY)) settle(null);
    };
    const settle = (outcome: string | null) => {
      child.stderr.off('data', listen);
      resolve(outcome);
    };
    child.stderr.on('data', listen);
    child.once('close', () => settle(output));
    child.once('error', (error) => settle(error.message));
  });
}

function serverOf(child: Child, cluster: Cluster, sockets: string, port: number): Server {
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const release = () => child.stdin.end();
  void ended.then(release);
  const at = `${encodeURIComponent(sockets)}:${port}`;
  return {
    url: (database) => `postgres://${SUPERUSER}:${cluster.password}@${at}/${encodeURIComponent(database)}`,
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

const lockOwner = (cluster: Cluster): number | null => ownerOf(join(cluster.folder, 'cluster', 'postmaster.pid'));

/** The process id in the first line of a lock file, or null. */
function ownerOf(lock: string): number | null {
  try {
    const pid = Number.parseInt(readFileSync(lock, 'utf8'), 10);
    return pid > 0 ? pid : null;
  } catch {
    return null;
  }
}

/**
 * Clears what can hold a cluster though no keeper lives: lock files (of the cluster and of its socket) whose process id now belongs to
 * another program, which PostgreSQL cannot distinguish from a server, and a server whose keeper was killed together with its dead man's
 * shell, or with the part of it that waits for the keeper's end: it is stopped. Where /proc is missing nothing is done.
 */
export function clearLock({ identity }: Pick<Binaries, 'identity'>, cluster: Cluster): void {
  const sockets = socketsOf(cluster, identity);
  const names = readdirSync(sockets).filter((name) => /^\.s\.PGSQL\.\d+\.lock$/.test(name));
  for (const lock of [join(cluster.folder, 'cluster', 'postmaster.pid'), ...names.map((name) => join(sockets, name))]) {
    const pid = ownerOf(lock);
    const command = pid === null ? null : commandOf(pid);
    if (pid === null || command === null) continue;
    if (!command.includes('bin/postgres')) rmSync(lock, { force: true });
    else if (!isKept(pid, cluster)) process.kill(pid, 'SIGINT');
  }
}

/** Whether the shell that a server was started by is there, under a keeper that lives. */
function isKept(pid: number, cluster: Cluster): boolean {
  const shell = parentOf(pid);
  return commandOf(shell)?.includes(cluster.folder) === true && /keeper\.[tj]s/.test(commandOf(parentOf(shell)) ?? '');
}

/** Null where it cannot be known; PostgreSQL itself sees when a process is gone. */
function commandOf(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return null;
  }
}

/** 0 where there is none, or the process is gone. */
function parentOf(pid: number): number {
  try {
    return Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
