import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  canonicalJson,
  guardJson,
  inCanonicalOrder,
  MAX_DEPTH,
  MAX_MEMBERS,
  MAX_RECORD_BYTES,
  notJson,
  ownOf,
  parseRecord,
  stringify,
} from '../../ingest/events/json.ts';
import { keepWritten, settled } from '../../ingest/events/known-json.ts';
import { parseBody } from '../../ingest/events/parse-body.ts';
import { anyCharacter } from '../support/character.ts';

const codeOf = (text: string): string | null => {
  const parsed = parseRecord(text);
  return 'refusal' in parsed ? parsed.refusal.code : null;
};

describe('JSON of a request', () => {
  it('P44: takes nesting up to the limit and refuses one level more, without parsing it', () => {
    expect(codeOf('['.repeat(MAX_DEPTH) + ']'.repeat(MAX_DEPTH))).toBeNull();
    expect(codeOf('['.repeat(MAX_DEPTH + 1) + ']'.repeat(MAX_DEPTH + 1))).toBe('too_deep');
    expect(codeOf('{"a":'.repeat(200) + 1 + '}'.repeat(200))).toBe('too_deep');
    expect(codeOf('['.repeat(100_000))).toBe('too_deep');
    expect(codeOf(JSON.stringify('[{'.repeat(10_000)))).toBeNull();
    expect(codeOf(JSON.stringify({ 'a\\"[[[': ['\\"{'.repeat(500)] }))).toBeNull();
  });

  it('P44: takes so many members in an object and refuses one more, however many objects there are', () => {
    const object = (members: number) => `{${Array.from({ length: members }, (_, i) => `"${i}":"a:b"`).join()}}`;
    expect(codeOf(object(MAX_MEMBERS))).toBeNull();
    expect(codeOf(`[${object(60_000)},${object(60_000)}]`)).toBeNull();
    expect(codeOf(`{"a":${object(60_000)},"b":${object(60_000)}}`)).toBeNull();
    expect(codeOf(`{"a":[${object(MAX_MEMBERS + 1)}]}`)).toBe('too_large');
  });

  it('P43: takes a number that a 64-bit float holds, and refuses one that it would change', () => {
    for (const text of [
      '9007199254740991',
      '-9007199254740991',
      '1e308',
      '0.1',
      '1e22',
      '0.000',
      '0e999',
      '-0',
      '123456789012345.5',
    ])
      expect(codeOf(text), text).toBeNull();
    for (const text of [
      '9007199254740993',
      '-9223372036854775809',
      '18446744073709551616',
      '1e400',
      '-1e400',
      '1e999999999',
      '1e-400',
      '0.5e-999',
      '[1,{"a":1e400}]',
    ])
      expect(codeOf(text), text).toBe('bad_number');
    expect(codeOf('"9007199254740993"')).toBeNull();
  });

  it('refuses what is not JSON with the words of the parser', () => {
    for (const text of [
      '',
      'NaN',
      '-Infinity',
      '{"a":NaN}',
      '{',
      '"open',
      '[1,]',
      '{"a":1}{"b":2}',
      'undefined',
      '\u0000',
    ])
      expect(codeOf(text), text).toBe('bad_json');
  });

  it('P44: counts bytes, not characters', () => {
    const room = MAX_RECORD_BYTES - 2;
    const wide = Math.floor(room / 3);
    expect(codeOf(`"${'€'.repeat(wide)}${'x'.repeat(room - wide * 3)}"`)).toBeNull();
    expect(codeOf(`"${'€'.repeat(wide)}${'x'.repeat(room - wide * 3 + 1)}"`)).toBe('too_large');
  });

  it('never refuses what JSON.stringify wrote, and gives it back unchanged', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const text = JSON.stringify(value);
        expect(parseRecord(text)).toEqual({ value: JSON.parse(text) });
      }),
    );
  });

  it('never throws, whatever the text', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: anyCharacter }),
          fc.json().map((t) => t.slice(0, -1)),
          fc.json().map((t) => t.replace(/\d/, '9e9')),
        ),
        (text) => {
          guardJson(text);
          const parsed = parseRecord(text);
          if ('refusal' in parsed) expect(parsed.refusal.expected).not.toBe('');
        },
      ),
    );
  });
});

describe('JSON that is sent', () => {
  it('is refused where an object has a member twice, by the name of the member', () => {
    for (const [text, name] of [
      ['{"a":1,"b":[],"a":2}', 'a'],
      ['[{"a":{"b":1, "b" :1}}]', 'b'],
      ['{"a":1,"\\u0061":2}', 'a'],
      ['{"":1,"x":{"":1},"":2}', ''],
      ['{"__proto__":1,"__proto__":1}', '__proto__'],
    ] as const)
      expect(parseBody(text)).toMatchObject({ refusal: { code: 'bad_json', got: `${JSON.stringify(name)} twice` } });
  });

  it('is what JSON.stringify wrote, whatever its texts hold', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(undefined, 1), (value, space) => {
        const text = JSON.stringify({ value, 'a"b:': '{"a":1,"a":1}' }, null, space);
        const parsed = parseBody(text);
        if (guardJson(text) === null) expect(parsed).toEqual({ value: JSON.parse(text) });
      }),
    );
  });
});

describe('canonical JSON', () => {
  it('is one text whatever the order of keys, and reads back as the same value', () => {
    const shuffled = (value: unknown, seed: number): unknown => {
      if (Array.isArray(value)) return value.map((item) => shuffled(item, seed));
      if (typeof value !== 'object' || value === null) return value;
      const entries = Object.entries(value).map(([key, member]) => [key, shuffled(member, seed)] as const);
      return Object.fromEntries(seed % 2 ? entries.reverse() : entries.sort(() => (seed % 3) - 1));
    };
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(), (value, seed) => {
        expect(canonicalJson(shuffled(value, seed))).toBe(canonicalJson(value));
        expect(JSON.parse(canonicalJson(value))).toEqual(value);
      }),
    );
  });

  it('keeps the sign of zero and the key __proto__, and leaves out what is undefined', () => {
    expect(canonicalJson([-0, 0])).toBe('[-0,0]');
    expect(canonicalJson(JSON.parse('{"b":1,"__proto__":{"a":2}}'))).toBe('{"__proto__":{"a":2},"b":1}');
    expect(canonicalJson({ a: undefined, b: null })).toBe('{"b":null}');
  });

  it('gives the order of the canonical text to a value without writing it, and leaves alone what has it', () => {
    const value = fc.oneof(fc.jsonValue({ depthSize: 'large' }), fc.dictionary(fc.string(), fc.option(fc.jsonValue())));
    fc.assert(
      fc.property(value, fc.boolean(), (made, odd) => {
        // Keys that are numbers come before others, and in their own order, in every object.
        const given = odd
          ? { z: [made, { '10': 1, '9': made, ['__proto__']: made }], absent: undefined, a: made }
          : made;
        const ordered = inCanonicalOrder(given);
        const read = JSON.parse(canonicalJson(given));
        expect(JSON.stringify(ordered)).toBe(JSON.stringify(read));
        expect(JSON.stringify(inCanonicalOrder(read))).toBe(JSON.stringify(read));
      }),
    );
    const inOrder = { a: [{ b: 1, c: { d: null } }], e: 'f' };
    expect(inCanonicalOrder(inOrder)).toBe(inOrder);
  });

  it('writes, orders and checks a value whose text is known as one whose text is not', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.boolean(), fc.nat(8), (made, odd, depth) => {
        const text = canonicalJson(odd ? { ...made, '10': -0, '9': { b: 1, a: made } } : made);
        const [known, plain] = [JSON.parse(text), JSON.parse(text)];
        keepWritten(known, text);
        const isSettled = settled(known, depth);
        if (odd || notJson(plain, '', depth) !== null) expect(isSettled).toBe(false);
        const around = { a: 1, known, none: undefined, z: ['x'] };
        expect(stringify(around)).toBe(JSON.stringify({ ...around, known: plain }));
        expect(canonicalJson(around)).toBe(canonicalJson({ ...around, known: plain }));
        expect(JSON.stringify(inCanonicalOrder(around))).toBe(
          JSON.stringify(inCanonicalOrder({ ...around, known: plain })),
        );
        for (const limit of [depth, depth + 1, depth + 2])
          expect(notJson({ known }, '', limit)).toEqual(notJson({ known: plain }, '', limit));
      }),
    );
    const known = { a: { b: 'c' } };
    keepWritten(known, '{"a":{"b":"c"}}');
    expect(settled(known, 1)).toBe(false);
    expect(settled(known, 2)).toBe(true);
    expect(inCanonicalOrder(known)).toBe(known);
    expect(settled(JSON.parse('{"a":1}'), 2)).toBe(false);
  });

  it('names where a value of a program is not JSON', () => {
    const cases: [unknown, string | null][] = [
      [{ a: [1, Number.NaN] }, 'data.a[1]'],
      [{ a: { b: Number.POSITIVE_INFINITY } }, 'data.a.b'],
      [{ a: 1n }, 'data.a'],
      [{ a: () => 1 }, 'data.a'],
      [{ a: new Date(0) }, 'data.a'],
      [{ a: [undefined, null, 'x', 1, true, { toJSON: 'a text' }] }, null],
    ];
    for (const [value, field] of cases) expect(notJson(value, 'data', 5)?.field ?? null).toBe(field);
    expect(notJson([[[1]]], 'data', 3)).toBeNull();
    expect(notJson([[[1]]], 'data', 2)?.code).toBe('too_deep');
  });
});

it.each(['constructor', 'toString', '__proto__', 'other'])('a table has no entry %s but of its own', (name) => {
  expect(ownOf({ end_turn: 'stop' }, name)).toBeUndefined();
  expect(ownOf({ [name]: 'own' } as Record<string, string>, name)).toBe('own');
});
