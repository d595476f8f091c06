/** A PostgreSQL of the system's packages, with the programs that the embedded one lacks, for proofs of what is done with them. */
import { execFile, spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { serverIdentity } from '../store/server/binaries.ts';
import { freePort } from '../test/support/free-port.ts';

const VERSIONS = '/usr/lib/postgresql';

export type CommandResult = { readonly ok: boolean; readonly output: string };

export type SystemPostgres = {
  readonly url: (database: string) => string;
  /** A folder of the server's user. */
  readonly folder: string;
  /** Where the cluster lies; pgBackRest makes it again. */
  readonly data: string;
  readonly port: number;
  /** Runs a shell line as the user of the server, its programs first in the path. */
  readonly run: (line: string, env?: Readonly<Record<string, string>>) => Promise<CommandResult>;
  readonly start: () => Promise<void>;
  /** Ends it at once, as a loss of power would, and removes the cluster. */
  readonly lose: () => Promise<void>;
  readonly stop: () => Promise<void>;
};

/** The newest version that is installed with its server and with pgBackRest, or how to get them. */
export function findSystemPostgres(): { readonly bin: string } | { readonly missing: string } {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a)) : [];
  const bins = versions.map((version) => join(VERSIONS, version, 'bin'));
  const bin = bins.find((folder) => ['initdb', 'pg_dump'].every((name) => existsSync(join(folder, name))));
  if (bin !== undefined && spawnSync('pgbackrest', ['version']).status === 0) return { bin };
  return { missing: 'no PostgreSQL server with pg_dump and pgBackRest; say: apt-get install postgresql pgbackrest' };
}

/** Makes and starts a server whose log goes to pgBackRest by the settings of `config`. */
export async function startSystemPostgres(bin: string, folder: string, config: string): Promise<SystemPostgres> {
  const identity = serverIdentity();
  mkdirSync(folder, { recursive: true });
  if (identity) chownSync(folder, identity.uid, identity.gid);
  const [data, port] = [join(folder, 'data'), await freePort()];
  const run: SystemPostgres['run'] = async (line, env = {}) => {
    const path = `${bin}:${process.env.PATH}`;
    const options = { ...identity, cwd: folder, env: { PATH: path, HOME: folder, LC_ALL: 'C', ...env } };
    try {
      const { stdout, stderr } = await promisify(execFile)('bash', ['-ec', line], options);
      return { ok: true, output: `${stdout}${stderr}`.trim() };
    } catch (error) {
      return { ok: false, output: (error as Error).message };
    }
  };
  const must = async (line: string): Promise<void> => {
    const { ok, output } = await run(line);
    if (!ok) throw new Error(`${line}: ${output}`);
  };
  const start = (): Promise<void> => must(`pg_ctl -D ${data} -l ${join(folder, 'log')} -w -t 60 start >/dev/null 2>&1`);
  await must(`initdb -D ${data} -U troupe --auth=trust --encoding=UTF8 --locale=C`);
  const settings = {
    port,
    listen_addresses: "'127.0.0.1'",
    unix_socket_directories: `'${folder}'`,
    archive_mode: 'on',
    archive_command: `'pgbackrest --config=${config} --stanza=troupe archive-push %p'`,
  };
  for (const [name, value] of Object.entries(settings))
    await must(`echo "${name} = ${value}" >> ${data}/postgresql.conf`);
  await start();
  return {
    url: (database) => `postgres://troupe@127.0.0.1:${port}/${database}`,
    folder,
    data,
    port,
    run,
    start,
    lose: async () => {
      await must(`pg_ctl -D ${data} -m immediate -w stop`);
      rmSync(data, { recursive: true });
    },
    stop: async () => void (await run(`pg_ctl -D ${data} -m immediate -w stop`)),
  };
}
