import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromLz4, toLz4 } from '../../ingest/log/lz4.ts';

/** What the command line tool of LZ4 makes of the text below, with its size, checksums of blocks and of the content. */
const BY_THE_TOOL =
  'BCJNGHxAVwUAAAAAAABWMgAAAPEFQSBzdGVwLCBpdHMgY2FsbCBhbmQNAJ9lcGlzb2RlLiAiAP//////IHB0aGUgZW5kMX7MHgAAAADXcXST';
const TEXT = `${'A step, its call and its episode. '.repeat(40)}the end`;

describe('a column in the form of LZ4', () => {
  it('holds the bytes that were put in, whatever they are', () => {
    const texts = fc.array(fc.constantFrom('a', 'bb', 'step ', 'call-1/0', '\uFFFF'), { maxLength: 400 });
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      texts.map((parts) => new Uint8Array(Buffer.from(parts.join('')))),
    );
    fc.assert(
      fc.property(bytes, (one) => {
        expect(Buffer.from(fromLz4(toLz4(one)))).toEqual(Buffer.from(one));
      }),
      { numRuns: 500 },
    );
  });

  it('holds more than one block, and what does not repeat takes no more than itself', () => {
    const long = Buffer.alloc(9 * 1024 * 1024);
    for (let i = 0, x = 1; i < long.length; i++) {
      x = (Math.imul(x, 1_664_525) + 1_013_904_223) >>> 0;
      long[i] = i < 5_000_000 ? x >>> 24 : i % 251;
    }
    const frame = toLz4(long);
    expect(frame.length).toBeLessThan(5_200_000);
    expect(Buffer.compare(fromLz4(frame), long)).toBe(0);
  });

  it('has the same bytes in every version: the files of frozen datasets are known by their hashes', () => {
    const all = createHash('sha256');
    for (const step of [1, 7, 64, 1000]) {
      const line = (_: unknown, i: number) => `${(i * 7919) % 1013} said ${i % step} of ${'it '.repeat(i % 40)}\n`;
      all.update(toLz4(Buffer.from(Array.from({ length: 20_000 }, line).join(''))));
    }
    expect(all.digest('hex')).toBe('38c7c09b3d38355534bffc5016ca711a1697ee948172da60ffa0a8026880daa3');
  });

  it('ends a match five bytes before the end of a block, as the format asks, however long it is', () => {
    for (let length = 32; length < 1100; length++) {
      const frame = toLz4(new Uint8Array(length).fill(7));
      // Before the mark of the end: five bytes as they are, and no match.
      expect([...frame.subarray(-10, -4)], `${length} bytes`).toEqual([0x50, 7, 7, 7, 7, 7]);
      expect(Buffer.compare(fromLz4(frame), Buffer.alloc(length, 7))).toBe(0);
    }
  });

  it('is read as other programs write it', () => {
    expect(Buffer.from(fromLz4(Buffer.from(BY_THE_TOOL, 'base64'))).toString()).toBe(TEXT);
    expect(toLz4(Buffer.from(TEXT)).length).toBeLessThan(100);
  });

  it('is refused when it is cut or no frame', () => {
    const frame = toLz4(Buffer.from(TEXT));
    for (const wrong of [frame.subarray(0, -4), frame.subarray(0, 5), Buffer.from(TEXT), new Uint8Array(0)])
      expect(() => fromLz4(wrong)).toThrow('damaged');
  });
});
