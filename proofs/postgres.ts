/** A PostgreSQL server for proofs that outlives nobody and may be killed: the embedded one, crash-safe, over an empty folder. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openPool } from '../store/db/pool.ts';
import { prepareBinaries } from '../store/server/binaries.ts';
import { ensureCluster } from '../store/server/cluster.ts';
import { clearLock, InUse, type Server, startServer } from '../store/server/launcher.ts';

export type Postgres = {
  /** The address of a database, the same after a restart. */
  readonly url: (database: string) => string;
  /** Ends the server's first process by kill -9; the others go with it. */
  readonly kill: () => Promise<void>;
  readonly start: () => Promise<void>;
  readonly stop: () => Promise<void>;
};

/** Starts a server with one database of the name given. */
export async function startPostgres(folder: string, database: string): Promise<Postgres> {
  const binaries = prepareBinaries();
  const cluster = await ensureCluster(binaries, folder, true);
  let server: Server = await startServer(binaries, cluster);
  const admin = openPool(server.url('postgres'), { max: 1 });
  await admin.query(`create database ${database}`);
  await admin.close();
  return {
    url: (name) => server.url(name),
    kill: async () => {
      process.kill(Number.parseInt(readFileSync(join(folder, 'cluster', 'postmaster.pid'), 'utf8'), 10), 'SIGKILL');
      await server.ended;
    },
    start: async () => {
      for (let attempt = 0; ; attempt++) {
        clearLock(binaries, cluster);
        try {
          server = await startServer(binaries, cluster);
          return;
        } catch (error) {
          // The last processes of the one that was killed are just ending.
          if (!(error instanceof InUse) || attempt > 100) throw error;
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
      }
    },
    stop: () => server.stop(),
  };
}
