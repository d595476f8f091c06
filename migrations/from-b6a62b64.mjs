/**
 * Moves the events of a home that a Troupe up to commit b6a62b64 made into a new home of this one, and says whether all are there:
 * `node migrations/from-b6a62b64.mjs CHECKOUT OLD_HOME NEW_HOME [PROJECT]`. CHECKOUT is a checkout of that commit, built once
 * (`npm ci`). The old home stays as it is; checkpoints and datasets are read where they lie in it.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [checkout, from, to, project = 'troupe'] = process.argv.slice(2);
if (to === undefined) {
  console.error('usage: node migrations/from-b6a62b64.mjs CHECKOUT OLD_HOME NEW_HOME [PROJECT]');
  process.exit(2);
}
if (existsSync(to)) {
  console.error(`${to} is there already; name a folder that is not.`);
  process.exit(2);
}
const troupe = (root, home, ...words) =>
  execFileSync(
    process.execPath,
    [join(resolve(root), 'bin/troupe.js'), ...words, '--home', resolve(home), '--project', project],
    { encoding: 'utf8', maxBuffer: 2 ** 30, stdio: ['ignore', 'pipe', 'inherit'] },
  );
const here = join(import.meta.dirname, '..');
const idsIn = (file) =>
  readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
    .map(({ source, id }) => `${source} ${id}`)
    .sort();

const scratch = mkdtempSync(join(tmpdir(), 'troupe-upgrade-'));
try {
  const [before, after] = ['before.jsonl', 'after.jsonl'].map((name) => join(scratch, name));
  troupe(checkout, from, 'export', '--out', before);
  if (project !== 'troupe') troupe(here, to, 'project', 'create', project);
  troupe(here, to, 'import', before, '--format', 'troupe-events');
  troupe(here, to, 'export', '--out', after);
  const [old, now] = [idsIn(before), idsIn(after)];
  const kept = old.length === now.length && old.every((id, i) => id === now[i]);
  const uris = `select uri from traj.datasets where uri is not null union select uri from traj.checkpoints where uri is not null`;
  const { rows } = JSON.parse(troupe(here, to, 'sql', uris, '--json'));
  const gone = rows.map(([uri]) => uri).filter((uri) => uri.startsWith('/') && !existsSync(uri));
  console.log(`${old.length} events before, ${now.length} after, ${kept ? 'with the same ids' : 'NOT the same'}.`);
  console.log(
    `${rows.length} folders of checkpoints and datasets, ${gone.length} not there${gone.map((uri) => `\n  ${uri}`).join('')}`,
  );
  process.exitCode = kept && gone.length === 0 ? 0 : 1;
} finally {
  rmSync(scratch, { recursive: true });
}
