import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { writeBehind } from '../../../store/datasets/behind.ts';

const folder = mkdtempSync(join(tmpdir(), 'troupe-behind-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('Writing behind', () => {
  it('leaves the bytes in the order in which they came, large and small', async () => {
    const path = join(folder, 'in-order');
    const file = await open(path, 'wx');
    const behind = writeBehind(file);
    const parts = Array.from({ length: 400 }, (_, i) => Buffer.alloc(i % 7 === 0 ? 300_000 : i % 5, i));
    for (const part of parts) {
      behind.write(part);
      await behind.written(behind.bytes() - 1_000_000);
    }
    await behind.finish();
    await file.close();
    expect(readFileSync(path).equals(Buffer.concat(parts))).toBe(true);
    expect(behind.bytes()).toBe(parts.reduce((sum, part) => sum + part.length, 0));
  });

  it('has written what is waited for, and takes bytes from an array that is filled anew then', async () => {
    const path = join(folder, 'again');
    const file = await open(path, 'wx');
    const behind = writeBehind(file);
    const arrays = [Buffer.alloc(100_000), Buffer.alloc(100_000)];
    let before = 0;
    for (let i = 0; i < 60; i++) {
      behind.write(arrays[i % 2]!.fill(i));
      await behind.written(before);
      before = behind.bytes();
    }
    await behind.finish();
    await file.close();
    const wanted = Buffer.concat(Array.from({ length: 60 }, (_, i) => Buffer.alloc(100_000, i)));
    expect(readFileSync(path).equals(wanted)).toBe(true);
  });

  it('says what the disk refused, to whoever waits for it and at the end', async () => {
    const file = await open(join(folder, 'refused'), 'wx');
    await file.close();
    const behind = writeBehind(file);
    const more = async () => {
      for (let i = 0; i < 40; i++) {
        behind.write(Buffer.alloc(1024 * 1024));
        await behind.written(behind.bytes());
      }
    };
    await expect(more()).rejects.toMatchObject({ code: 'EBADF' });
    await expect(behind.finish()).rejects.toMatchObject({ code: 'EBADF' });
  });
});
