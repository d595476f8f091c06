import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { guardJson } from '../../ingest/events/json.ts';
import type { FileRecord } from '../../ingest/files/parse-piece.ts';
import { openRecordFile, readRecords, shapeOf } from '../../ingest/files/read-file.ts';

const cut = (bytes: Uint8Array, at: readonly number[]): Uint8Array[] => {
  const places = [...new Set(at.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...places].map((from, i) => bytes.subarray(from, places[i] ?? bytes.length));
};
const read = async (chunks: Iterable<Uint8Array>): Promise<FileRecord[]> => {
  const held = [...chunks];
  return collect(readRecords(held, await shapeOf(held)));
};
async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
const readText = (text: string): Promise<FileRecord[]> => read([Buffer.from(text)]);
const values = (records: readonly FileRecord[]): unknown[] => records.map((record) => record.value);

describe('records of a file', () => {
  it('come from a file packed with gzip, up to where it can be unpacked, and the rest is refused', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'troupe-gzip-'));
    const lines = Array.from({ length: 5000 }, (_, n) => JSON.stringify({ n, text: String(Math.sin(n)) }));
    const packed = gzipSync(lines.join('\n'));
    const file = async (bytes: Uint8Array): Promise<FileRecord[]> => {
      await writeFile(join(folder, 'x'), bytes);
      return collect((await openRecordFile(join(folder, 'x'))).records);
    };
    expect(values(await file(packed))).toEqual(lines.map((line) => JSON.parse(line) as unknown));
    expect(values(await file(Buffer.concat([gzipSync('{"a":1}\n'), gzipSync('{"a":2}')])))).toEqual([
      { a: 1 },
      { a: 2 },
    ]);
    const cutOff = await file(packed.subarray(0, packed.length / 2));
    expect(cutOff.length).toBeGreaterThan(1000);
    expect(cutOff.at(-1)).toMatchObject({ refusal: { code: 'bad_shape', got: 'unexpected end of file' } });
    expect((await file(Buffer.from([0x1f, 0x8b, 1, 2]))).map(({ refusal }) => refusal?.code)).toEqual(['bad_shape']);
    await rm(folder, { recursive: true });
  });

  it('come from a file packed with zstd, up to where it can be unpacked, and the rest is refused', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'troupe-zstd-'));
    const lines = Array.from({ length: 20_000 }, () => '{"text":"a word"}');
    // Of these lines, by the command zstd 1.5.
    const packed = Buffer.from(
      'KLUv/aA/fgUA1AAAkHsidGV4dCI6ImEgd29yZCJ9CgEA1v8rn2FEAAAAAQD9/5VPIEUAAAABADx+OQAC',
      'base64',
    );
    const file = async (bytes: Uint8Array): Promise<FileRecord[]> => {
      await writeFile(join(folder, 'x'), bytes);
      return collect((await openRecordFile(join(folder, 'x'))).records);
    };
    expect(values(await file(packed))).toEqual(lines.map((line) => JSON.parse(line) as unknown));
    // A frame of stored bytes: one may follow another.
    const stored = Buffer.concat([
      Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x20, 9, 0x49, 0, 0]),
      Buffer.from('\n{"a":1}\n'),
    ]);
    expect(values(await file(Buffer.concat([packed, stored]))).at(-1)).toEqual({ a: 1 });
    const cutOff = await file(Buffer.concat([stored, packed.subarray(0, packed.length - 9)]));
    expect(cutOff[0]).toMatchObject({ value: { a: 1 } });
    expect(cutOff.at(-1)).toMatchObject({ refusal: { code: 'bad_shape', expected: expect.stringContaining('zstd') } });
    await rm(folder, { recursive: true });
  });

  it('come from lines, with a byte order mark, CRLF and blank lines, each with its line', async () => {
    const records = await readText('\ufeff{"a":1}\r\n\r\n  \n{"a":"2\\n"}\r\n{"a":3}');
    expect(values(records)).toEqual([{ a: 1 }, { a: '2\n' }, { a: 3 }]);
    expect(records.map((record) => record.line)).toEqual([1, 4, 5]);
    expect(records[1]!.raw.toString()).toBe('{"a":"2\\n"}');
  });

  it('come from a top-level array in any white space, with strings and nesting respected', async () => {
    const records = await readText('\ufeff [\n {"a": "]},{[\\"\\\\"},\n\n\t{"b": [1, {"c": []}]} , 7, "x,]" ]\n');
    expect(values(records)).toEqual([{ a: ']},{["\\' }, { b: [1, { c: [] }] }, 7, 'x,]']);
    expect(records.map((record) => record.line)).toEqual([2, 4, 4, 4]);
  });

  it('come from one document, however it is printed', async () => {
    for (const text of ['{"a":1}', '{\n "a": 1\n}\n', '\n\n{\n"a"\n:\n1}']) {
      expect(values(await readText(text))).toEqual([{ a: 1 }]);
    }
  });

  it.each([
    ['short objects on lines of their own', '{\n  "a": [\n    { "b": 1 },\n    { "b": 2 }\n  ]\n}\n'],
    ['a line for each bracket', '{\n"a":\n[\n{"b":1}\n,\n{"b":2}\n]\n}'],
    ['an object after its name', '{\r\n  "a": [ { "b": 1 },\r\n    { "b": 2 } ]\r\n}'],
  ])('come from a document that has %s', async (_, text) => {
    expect(await readText(text)).toMatchObject([{ value: { a: [{ b: 1 }, { b: 2 }] } }]);
  });

  it.each([
    ['before another', '{"a": [\n{"b": 1}\n{"b": 2}\n{"b": 3}\n'],
    ['at the end', '{"a": [\n{"b": 1}\n'],
    ['after a number', '{"a": 1\n{"b": 1}\n{"b": 2}\n'],
  ])('come from lines where a whole object stands %s after a line that was cut', async (_, text) => {
    const [cut, ...others] = await readText(text);
    expect(cut?.refusal?.code).toBe('bad_json');
    expect(others.map(({ value }) => value)).toEqual(
      [...text.matchAll(/\{"b": \d\}/g)].map(([object]) => JSON.parse(object)),
    );
  });

  it('are the same wherever the bytes are cut, also inside a character', async () => {
    const value = fc
      .jsonValue({ maxDepth: 3, stringUnit: 'grapheme' })
      .filter((one) => guardJson(JSON.stringify(one)) === null);
    const record = fc.dictionary(fc.string({ unit: 'grapheme', maxLength: 4 }), value, { minKeys: 1, maxKeys: 3 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(record, { minLength: 1, maxLength: 6 }),
        fc.constantFrom('lines', 'array', 'pretty array', 'crlf'),
        fc.array(fc.nat(), { maxLength: 12 }),
        async (list, form, at) => {
          const rows = list.map((one) => JSON.stringify(one));
          const text = {
            lines: rows.join('\n'),
            crlf: `${rows.join('\r\n')}\r\n`,
            array: JSON.stringify(list),
            'pretty array': `\n${JSON.stringify(list, null, 3)}\n`,
          }[form];
          const bytes = Buffer.from(text);
          const expected = list.map((one) => JSON.parse(JSON.stringify(one)));
          const whole = await read([bytes]);
          expect(values(whole)).toEqual(expected);
          const pieces = await read(cut(bytes, at));
          expect(pieces.map(({ line, end, value: v }) => ({ line, end, v }))).toEqual(
            whole.map(({ line, end, value: v }) => ({ line, end, v })),
          );
          const single = await read(Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)));
          expect(values(single)).toEqual(expected);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('that cannot be read are named and the others kept', async () => {
    const deep = `${'['.repeat(200)}${']'.repeat(200)}`;
    const bytes = Buffer.concat([
      Buffer.from(`{"ok":1}\n{"cut": "\nnot json\n{"deep":${deep}}\n{"n":9007199254740993}\n`),
      Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d, 0x0a]),
      Buffer.from('{"ok":2}'),
    ]);
    const records = await read([bytes]);
    expect(records.map((record) => [record.line, record.refusal?.code ?? 'kept'])).toEqual([
      [1, 'kept'],
      [2, 'bad_json'],
      [3, 'bad_json'],
      [4, 'too_deep'],
      [5, 'bad_number'],
      [6, 'bad_json'],
      [7, 'kept'],
    ]);
    expect(records[5]!.refusal!.got).toContain('UTF-8');
  });

  it('have long integers as text in the results of chats of AG2, whose ids have 128 bits', async () => {
    const [chat, other] = await readText(
      '{"chat_id":58316318035343063904607408882314838081,"chat_history":[]}\n{"n":12345678901234567890}',
    );
    expect(chat!.value).toEqual({ chat_id: '58316318035343063904607408882314838081', chat_history: [] });
    expect(other!.refusal?.code).toBe('bad_number');
  });

  it('before a cut in an array are kept', async () => {
    const records = await readText('[{"a":1},\n{"a":2},\n{"a":"cu');
    expect(records.map((record) => record.refusal?.code ?? record.value)).toEqual([{ a: 1 }, { a: 2 }, 'bad_json']);
    expect(records[2]!.line).toBe(3);
  });

  it('in lines are lines also where the first of them is broken', async () => {
    for (const first of ['{"a": "cut', '{"a": [1,', 'words']) {
      const records = await readText(`${first}\n{"a":2}\n{"a":3}`);
      expect(values(records)).toEqual([undefined, { a: 2 }, { a: 3 }]);
    }
  });

  it('of 50 MB are refused without being held, and the lines around them kept', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'troupe-read-'));
    try {
      const path = join(dir, 'large.jsonl');
      const large = `{"a":"${'x'.repeat(50 * 1024 * 1024)}"}`;
      for (const lines of [
        `{"a":1}\n${large}\n{"a":2}\n`,
        `${large}\n{"a":1}\n{"a":2}\n`,
        `[{"a":1},${large},\n{"a":2}]`,
      ]) {
        await writeFile(path, lines);
        const file = await openRecordFile(path);
        let held = 0;
        const kept: unknown[] = [];
        for await (const record of file.records) {
          held = Math.max(held, record.raw.length);
          kept.push(record.refusal?.code ?? record.value);
        }
        expect([...kept].sort()).toEqual([{ a: 1 }, { a: 2 }, 'too_large'].sort());
        expect(held).toBeLessThanOrEqual(64 * 1024);
      }
    } finally {
      await rm(dir, { recursive: true });
    }
  });
});
