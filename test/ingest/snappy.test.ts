/** Snappy: what its elements mean, by hand from format_description.txt, and the blocks of snappy-java. */
import { expect, it } from 'vitest';
import { unsnappy } from '../../ingest/log/snappy.ts';

/** A length, then elements. */
const block = (size: number, ...elements: readonly (number | string)[]): Buffer =>
  Buffer.concat([
    Buffer.from(size < 128 ? [size] : [(size & 127) | 128, size >> 7]),
    ...elements.map((one) => (typeof one === 'string' ? Buffer.from(one) : Buffer.from([one]))),
  ]);
const literal = (text: string): readonly (number | string)[] => [(text.length - 1) << 2, text];

it('reads text, and text that is repeated from before by an offset of one, two or four bytes', () => {
  expect(unsnappy(block(3, ...literal('abc'))).toString()).toBe('abc');
  // 4 + 1 bytes from 3 before, so the copy repeats what it wrote itself.
  expect(unsnappy(block(8, ...literal('abc'), 0b000_001_01, 3)).toString()).toBe('abcabcab');
  expect(unsnappy(block(5, ...literal('abc'), (1 << 2) | 2, 2, 0)).toString()).toBe('abcbc');
  expect(unsnappy(block(5, ...literal('abc'), (1 << 2) | 3, 3, 0, 0, 0)).toString()).toBe('abcab');
  expect(unsnappy(block(0)).toString()).toBe('');
});

it('reads a text of more than 60 bytes, whose length stands in the bytes behind the tag', () => {
  const long = 'x'.repeat(300);
  expect(unsnappy(block(300, 61 << 2, (300 - 1) & 255, (300 - 1) >> 8, long)).toString()).toBe(long);
});

it('reads the blocks of snappy-java one after the other', () => {
  const framed = [block(3, ...literal('abc')), block(2, ...literal('de'))].flatMap((one) => [
    Buffer.from([0, 0, 0, one.length]),
    one,
  ]);
  const head = Buffer.from([0x82, ...Buffer.from('SNAPPY'), 0, 0, 0, 0, 1, 0, 0, 0, 1]);
  expect(unsnappy(Buffer.concat([head, ...framed])).toString()).toBe('abcde');
  expect(() => unsnappy(Buffer.concat([head, ...framed]).subarray(0, -1))).toThrow('damaged');
});

it.each([
  ['nothing', Buffer.alloc(0)],
  ['another length than it says', block(4, ...literal('abc'))],
  ['more than it says', block(2, ...literal('abc'))],
  ['a text that is cut', block(3, ...literal('abc')).subarray(0, -1)],
  ['a repetition from before its beginning', block(8, ...literal('abc'), 0b000_001_01, 4)],
  ['a repetition of nothing', block(8, ...literal('abc'), 0b000_001_01, 0)],
  ['a length of 4 GiB', Buffer.from([255, 255, 255, 255, 15, 0, 97])],
  ['a length without end', Buffer.from([255, 255, 255, 255, 255, 255, 255])],
])('refuses %s', (_, bytes) => {
  expect(() => unsnappy(bytes)).toThrow('not of Snappy');
});
