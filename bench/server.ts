/** A throw-away PostgreSQL for benchmarks, durable as in use, whose processor time can be counted with that of the process that asks it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { migrate } from '../migrations/migrate.ts';
import { prepareBinaries } from '../store/db/binaries.ts';
import { ensureCluster } from '../store/db/cluster.ts';
import { startServer } from '../store/db/launcher.ts';
import { type Db, openPool } from '../store/db/pool.ts';
import type { Measured } from './statistics.ts';

export type BenchServer = {
  readonly db: Db;
  readonly url: string;
  /** Work done by this process and the server together, until everything that was committed is on the disk. */
  measure(work: number, task: () => Promise<void>): Promise<Measured>;
  /** One more database on the same server; it ends with the first. */
  another(name: string): Promise<BenchServer>;
  close(): Promise<void>;
};

/** Starts it in a folder that the benchmark removes, with every migration applied. */
export async function startBenchServer(folder: string): Promise<BenchServer> {
  const binaries = prepareBinaries();
  const cluster = await ensureCluster(binaries, join(folder, 'data'), false);
  const server = await startServer(binaries, cluster);
  const postmaster = Number(readFileSync(join(cluster.folder, 'cluster', 'postmaster.pid'), 'utf8').split('\n')[0]);
  const opened: Db[] = [];
  const open = async (name: string): Promise<BenchServer> => {
    const admin = openPool(server.url('postgres'));
    await admin.query(`create database ${name}`);
    await admin.close();
    const url = server.url(name);
    const db = openPool(url);
    opened.push(db);
    await migrate(db);
    return {
      db,
      url,
      measure: async (work, task) => {
        const [own, its, start] = [process.cpuUsage(), cpuSecondsOf(postmaster), performance.now()];
        await task();
        // Only a commit that wrote something waits for the disk, and with it for all before it.
        await db.query(`select pg_logical_emit_message(true, 'bench', '')`);
        const seconds = (performance.now() - start) / 1000;
        const { user, system } = process.cpuUsage(own);
        return { work, seconds, cpuSeconds: (user + system) / 1e6 + cpuSecondsOf(postmaster) - its };
      },
      another: open,
      close: async () => {
        await Promise.all(opened.map((one) => one.close()));
        await server.stop();
      },
    };
  };
  return open('bench');
}

/** Ticks in which Linux counts processor time. */
const TICKS_A_SECOND = 100;

/** Seconds of a process, of its children that run, and of those that have ended. 0 where there is no /proc. */
export function cpuSecondsOf(parent: number): number {
  let ticks = 0;
  try {
    for (const entry of readdirSync('/proc')) {
      if (!/^\d+$/.test(entry)) continue;
      const stat = statOf(entry);
      if (stat === null) continue;
      const [, ppid, utime, stime, cutime, cstime] = stat;
      if (Number(entry) === parent) ticks += utime + stime + cutime + cstime;
      else if (ppid === parent) ticks += utime + stime;
    }
  } catch {
    return 0;
  }
  return ticks / TICKS_A_SECOND;
}

type Stat = readonly [state: number, ppid: number, utime: number, stime: number, cutime: number, cstime: number];

/** Fields 3, 4 and 14 to 17 of /proc/PID/stat; the name before them may hold anything. */
function statOf(pid: string): Stat | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return null;
  }
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  return [0, fields[1]!, fields[11]!, fields[12]!, fields[13]!, fields[14]!];
}
