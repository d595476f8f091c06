import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { bytesOf, bytesText } from '../../api/operations/bytes.ts';
import { trainingText } from '../../api/operations/model/training-text.ts';
import { countPieces } from '../../trainer/model/tokens/byte-pieces.ts';

const folder = mkdtempSync(join(tmpdir(), 'troupe-text-'));
afterAll(() => rmSync(folder, { recursive: true }));
let count = 0;
const file = (content: string | Uint8Array): string => {
  const path = join(folder, `${count++}`);
  writeFileSync(path, content);
  return path;
};
const render = (
  messages: readonly { readonly role: string; readonly content?: unknown }[],
  tools?: readonly unknown[],
) => `${tools ? `${tools.length} tools;` : ''}${messages.map(({ role, content }) => `${role}:${content}`).join(';')}`;
const read = (...paths: string[]) => {
  const seen: number[][] = [];
  const { texts, files, refused } = trainingText(paths, { render, onRead: (done, total) => seen.push([done, total]) });
  return { texts: [...texts], files, refused, seen };
};

describe('text to train a tokenizer on', () => {
  it('comes as it stands, in pieces whose cuts change nothing', () => {
    const long = 'Ein Absatz, „mit Zeichen“ von zwei Bytes.\r\n\r\n\tnoch einer 👍🏽 über 4096 Zeilen\n'.repeat(60_000);
    const path = file(long);
    const { texts, files, seen } = read(path);
    expect(texts.join('') === long).toBe(true);
    expect(texts.length).toBeGreaterThan(3);
    expect(countPieces(texts, [])).toEqual(countPieces([long], []));
    const bytes = Buffer.byteLength(long);
    expect(files).toEqual([{ file: path, format: 'text', bytes }]);
    expect(seen.at(-1)).toEqual([bytes, bytes]);
  });

  it('keeps a text without any line break whole enough to be read in bounded memory', () => {
    const { texts } = read(file('x'.repeat(20 << 20)));
    expect(texts.reduce((sum, text) => sum + text.length, 0)).toBe(20 << 20);
    expect(Math.max(...texts.map((text) => text.length))).toBeLessThan(12 << 20);
  });

  it('is the conversations of a chat file, recognised by its contents; lines that are none are listed and left out', () => {
    const chat = { messages: [{ role: 'user', content: 'q' }], tools: [1, 2] };
    const lines = [
      '',
      JSON.stringify(chat),
      'nonsense',
      '',
      '{"messages":[{"content":"x"}]}',
      '[]',
      JSON.stringify({ ...chat, tools: 0 }),
    ];
    const path = file(lines.join('\r\n'));
    const { texts, files, refused } = read(path, file('plain'));
    expect(texts).toEqual(['2 tools;user:q', 'user:q', 'plain']);
    expect(files.map(({ format }) => format)).toEqual(['chat', 'text']);
    expect(refused.map(({ line }) => line)).toEqual([3, 5, 6]);
    expect(refused[1]).toMatchObject({
      file: path,
      expected: expect.stringContaining('a role'),
      got: expect.stringContaining('"x"'),
    });
  });

  it('takes a chat whose first line is longer than what is read at once', () => {
    const chat = { messages: [{ role: 'user', content: 'ö'.repeat(2 << 20) }] };
    const { texts, files } = read(file(`${JSON.stringify(chat)}\n${JSON.stringify(chat)}\n`));
    expect(texts.map((text) => text.length)).toEqual([5 + (2 << 20), 5 + (2 << 20)]);
    expect(files[0]!.format).toBe('chat');
  });

  it('is refused by name where it is no text or not there', () => {
    expect(() => read(file(Uint8Array.of(0x61, 0xff, 0xfe)))).toThrow(/is not UTF-8 text/);
    expect(() => read(join(folder, 'nowhere'))).toThrow(expect.objectContaining({ code: 'not_found' }));
    expect(() => read(folder)).toThrow(/is not a file/);
    expect(read(file('')).texts.join('')).toBe('');
  });
});

describe('numbers of bytes', () => {
  it.each([
    ['500MB', 500e6],
    ['2GiB', 2 ** 31],
    ['2 gib', 2 ** 31],
    ['1.5k', 1500],
    ['12', 12],
    ['12B', 12],
  ])('%s is read as %d', (text, bytes) => {
    expect(bytesOf(text)).toBe(bytes);
  });

  it.each(['', 'many', '-1', '0', '5XB', '1e9'])('%j is none', (text) => {
    expect(() => bytesOf(text)).toThrow(/^should be/);
  });

  it.each([
    [0, '0 bytes'],
    [1023, '1023 bytes'],
    [1536, '1.5 KiB'],
    [250 * 2 ** 20, '250 MiB'],
    [5 * 2 ** 40, '5 TiB'],
  ])('%d is written as %s', (bytes, text) => {
    expect(bytesText(bytes)).toBe(text);
  });
});
