/** A throw-away PostgreSQL for benchmarks, durable as in use, whose processor time can be counted with that of the process that asks it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { migrate } from '../migrations/migrate.ts';
import { type Db, openPool } from '../store/db/pool.ts';
import { prepareBinaries } from '../store/server/binaries.ts';
import { ensureCluster } from '../store/server/cluster.ts';
import { startServer } from '../store/server/launcher.ts';
import { cpuSecondsOf } from './cpu-seconds.ts';
import type { Measured } from './statistics.ts';

export type BenchServer = {
  readonly db: Db;
  readonly url: string;
  /** The server's first process. */
  readonly pid: number;
  /** Work done by this process, the server and these other ones together, until everything that was committed is on the disk. */
  measure(work: number, task: () => Promise<void>, others?: readonly number[]): Promise<Measured>;
  /** One more database on the same server; it ends with the first. */
  another(name: string): Promise<BenchServer>;
  close(): Promise<void>;
};

/** Starts it in a folder that the benchmark removes, with every migration applied; `port` for peers that know only TCP. */
export async function startBenchServer(folder: string, port?: number): Promise<BenchServer> {
  const binaries = prepareBinaries();
  const cluster = await ensureCluster(binaries, join(folder, 'data'), false);
  const server = await startServer(binaries, cluster, port === undefined ? {} : { port });
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
      pid: postmaster,
      measure: async (work, task, others = []) => {
        const theirs = () => [postmaster, ...others].reduce((sum, pid) => sum + cpuSecondsOf(pid), 0);
        const [own, before, start] = [process.cpuUsage(), theirs(), performance.now()];
        await task();
        // Only a commit that wrote something waits for the disk, and with it for all before it.
        await db.query(`select pg_logical_emit_message(true, 'bench', '')`);
        const seconds = (performance.now() - start) / 1000;
        const { user, system } = process.cpuUsage(own);
        return { work, seconds, cpuSeconds: (user + system) / 1e6 + theirs() - before };
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
