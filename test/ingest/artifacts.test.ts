import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'troupe-artifacts-'));
});
afterEach(() => rm(dir, { recursive: true }));

// printf 'abc' | sha256sum
const ABC = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad';

describe('artifacts in a folder', () => {
  it('are named by the hash of their bytes and given back as they were', async () => {
    const store = fileArtifacts(join(dir, 'new'));
    const bytes = Uint8Array.from([0, 255, 10]);
    const put = await store.put(['abc', bytes, 'abc']);
    expect(put[0]).toEqual({ sha256: ABC, size: 3 });
    expect(put[2]).toEqual(put[0]);
    expect(await readFile(join(dir, 'new', 'ba', ABC.slice(2)), 'utf8')).toBe('abc');
    expect([...(await store.get(put[1]!.sha256))]).toEqual([0, 255, 10]);
  });

  it('leave no parts behind, in many at once and put twice', async () => {
    const store = fileArtifacts(dir);
    const bodies = Array.from({ length: 200 }, (_, i) => `body ${i % 150}`);
    await Promise.all([store.put(bodies), store.put(bodies)]);
    const files = (await readdir(dir, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
    expect(files).toHaveLength(150);
    expect(files.filter((file) => file.name.endsWith('.part'))).toEqual([]);
  });

  it('that changed on disk are not given out', async () => {
    const store = fileArtifacts(dir);
    await store.put(['abc']);
    await writeFile(join(dir, 'ba', ABC.slice(2)), 'abd');
    await expect(store.get(ABC)).rejects.toMatchObject({ code: 'dataset_damaged' });
    await expect(store.get('0'.repeat(64))).rejects.toMatchObject({ code: 'not_found' });
    await expect(store.get('../../etc/passwd')).rejects.toMatchObject({ code: 'not_found' });
  });
});
