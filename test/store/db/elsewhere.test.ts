/** Databases that lie outside their home, because the server's user cannot reach it. */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { prepareBinaries } from '../../../store/server/binaries.ts';
import { ensureCluster } from '../../../store/server/cluster.ts';
import { leftBehind, madeElsewhere, nameHome } from '../../../store/server/elsewhere.ts';
import { removeFolder } from '../../support/remove-folder.ts';
import { isRoot } from './processes.ts';

let folder: string;
let base: string;
beforeEach(() => {
  // 0700, so that a home two folders below cannot be reached by another user.
  folder = mkdtempSync(join(tmpdir(), 'troupe-elsewhere-'));
  base = mkdtempSync(join(tmpdir(), 'troupe-base-'));
});
afterEach(() => {
  for (const one of [folder, base]) rmSync(one, { recursive: true, force: true });
});

const homeNamed = (name: string): string => {
  const home = join(folder, name);
  mkdirSync(home);
  return home;
};

const databaseOf = (home: string | null, name: string): string => {
  const made = join(base, name);
  mkdirSync(join(made, 'cluster'), { recursive: true });
  writeFileSync(join(made, 'cluster', 'table'), Buffer.alloc(100_000, 1));
  if (home !== null) nameHome(made, home);
  return made;
};

describe('a database outside its home', () => {
  test('is left behind where its home is gone, with its size, and where the home has another one', () => {
    const [here, gone, renewed] = ['here', 'gone', 'renewed'].map(homeNamed) as [string, string, string];
    for (const home of [here, gone, renewed])
      symlinkSync(databaseOf(home, `data-${home.split('/').at(-1)}`), join(home, 'data'));
    expect(leftBehind(here, base)).toEqual([]);
    rmSync(gone, { recursive: true });
    rmSync(join(renewed, 'data'));
    const left = leftBehind(here, base);
    expect(left.map(({ folder, home }) => [folder, home])).toEqual([
      [join(base, 'data-gone'), gone],
      [join(base, 'data-renewed'), renewed],
    ]);
    expect(left[0]!.bytes).toBeGreaterThan(100_000);
    expect(left[0]!.server).toBeNull();
    expect(existsSync(join(base, 'data-gone', 'cluster', 'table'))).toBe(true);
  });

  test('of an older Troupe is of unknown home, but not where a server runs on it or the asking home links to it', () => {
    const home = homeNamed('old');
    const made = databaseOf(null, 'data-old');
    const pid = join(made, 'cluster', 'postmaster.pid');
    writeFileSync(pid, `${process.pid}\n`);
    expect(leftBehind(home, base)).toEqual([]);
    rmSync(pid);
    expect(leftBehind(home, base)).toMatchObject([{ folder: made, home: null }]);
    symlinkSync(made, join(home, 'data-17'));
    expect(leftBehind(home, base)).toEqual([]);
  });

  test('on which a server runs is named with its process', () => {
    const made = databaseOf(join(folder, 'gone'), 'data-live');
    writeFileSync(join(made, 'cluster', 'postmaster.pid'), `${process.pid}\n`);
    expect(leftBehind(folder, base)).toMatchObject([{ server: process.pid }]);
  });

  test('goes with the folder of a test or a proof that its home is in, and no other does', () => {
    databaseOf(join(folder, 'home'), 'data-mine');
    const other = databaseOf(`${folder}-other/home`, 'data-other');
    removeFolder(folder, base);
    expect(madeElsewhere(base).map((one) => one.folder)).toEqual([other]);
    expect(existsSync(folder)).toBe(false);
  });

  test.runIf(isRoot)(
    'names its home from the first start, and again once the home was moved',
    async () => {
      const home = homeNamed('home');
      chmodSync(base, 0o711);
      const binaries = { ...prepareBinaries(), base };
      const { folder: made } = await ensureCluster(binaries, join(home, 'data'), false);
      expect(madeElsewhere(base)).toEqual([{ folder: made, home }]);
      const moved = join(folder, 'moved');
      renameSync(home, moved);
      await ensureCluster(binaries, join(moved, 'data'), false);
      expect(madeElsewhere(base)).toEqual([{ folder: made, home: moved }]);
      expect(leftBehind(folder, base)).toEqual([]);
    },
    60_000,
  );
});
