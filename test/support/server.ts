/**
 * One throw-away PostgreSQL server for a whole run of the tests, started when the first test asks for a database, so
 * that tests without one pay nothing. It lives in this process; the workers ask for it over a socket.
 */
import { mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { migrate } from '../../migrations/migrate.ts';
import { openPool } from '../../store/db/pool.ts';
import { prepareBinaries } from '../../store/server/binaries.ts';
import { ensureCluster } from '../../store/server/cluster.ts';
import { type Server, startServer } from '../../store/server/launcher.ts';

declare module 'vitest' {
  interface ProvidedContext {
    testServerPort: number;
  }
}

/** What a worker receives: the address of the database `template`, or why there is no server. */
export type TestServer = { readonly template: string } | { readonly error: string };

const FOLDER = 'troupe-test-';

/**
 * Where the cluster lies: in memory where there is room. Each database is a copy of 500 files, which took 15 to 330 ms of processor time
 * on an ext4 that was four fifths full, and takes 15 in memory.
 */
const BASE = hasRoom('/dev/shm') ? '/dev/shm' : tmpdir();

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = join(BASE, `${FOLDER}${process.pid}`);
  let server: Server | undefined;
  const start = async (): Promise<TestServer> => {
    sweep();
    rmSync(folder, { recursive: true, force: true });
    const base = mkdtempSync(`${folder}-`);
    const binaries = prepareBinaries();
    const cluster = await ensureCluster(binaries, join(base, 'data'), false);
    server = await startServer(binaries, cluster, { durable: false });
    const admin = openPool(server.url('postgres'));
    await admin.query('create database template_troupe');
    await admin.close();
    const template = openPool(server.url('template_troupe'));
    try {
      await migrate(template);
    } finally {
      await template.close();
    }
    return { template: server.url('template_troupe') };
  };

  let starting: Promise<TestServer> | undefined;
  const answer = async (socket: Socket): Promise<void> => {
    socket.on('error', () => {});
    starting ??= start().catch((error: unknown) => ({ error: String(error) }));
    socket.end(JSON.stringify(await starting));
  };
  const desk = createServer((socket) => void answer(socket));
  await new Promise<void>((resolve) => desk.listen(0, '127.0.0.1', resolve));
  project.provide('testServerPort', (desk.address() as { port: number }).port);

  return async () => {
    desk.close();
    await starting;
    await server?.stop();
    removeOf(process.pid);
  };
}

/** 2 GiB, both of the file system and of memory; three workers' databases took 0.4 at most. A container often has 64 MiB there. */
function hasRoom(folder: string): boolean {
  const needed = 2 * 2 ** 30;
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize > needed && process.availableMemory() > needed;
  } catch {
    return false;
  }
}

/** Folders of runs that were killed. */
function sweep(): void {
  for (const name of readdirSync(BASE)) {
    const pid = Number(new RegExp(`^${FOLDER}(\\d+)-`).exec(name)?.[1]);
    if (pid && !isAlive(pid)) removeOf(pid);
  }
}

function removeOf(pid: number): void {
  for (const name of readdirSync(BASE)) {
    if (name.startsWith(`${FOLDER}${pid}-`)) rmSync(join(BASE, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
