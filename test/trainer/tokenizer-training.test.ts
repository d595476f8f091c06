import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { countPieces, PIECE_PATTERN, safeCut } from '../../trainer/model/tokens/byte-pieces.ts';
import { openTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { type BpeOptions, trainBpe } from '../../trainer/model/tokens/tokenizer-training.ts';
import { anyCharacter } from '../support/character.ts';
import { expectBelow } from '../support/measured.ts';

const SPECIAL = ['<|pad|>', '<|im_start|>', '<|im_end|>'];
const train = (texts: readonly string[], options: Partial<BpeOptions> = {}) =>
  trainBpe(texts, { vocabSize: 400, special: SPECIAL, roles: { eos: '<|im_end|>', pad: '<|pad|>' }, ...options });
type Model = { readonly vocab: Record<string, number>; readonly merges: readonly string[] };
const modelOf = (files: ReturnType<typeof train>) => files.tokenizer.model as Model;

/** Text of many scripts, white space, contractions, digits, emoji and marks, with repetition enough to be merged. */
const TEXT = [
  'the cat sat on the mat, the cat that sat there',
  "it's what they'd said: we'll see, we've seen, I'M sure, 'some don't",
  'x = 12345 + 6.78; // 12345\r\n\r\n\tif (x) { return x; }\n\n\n',
  'Ünïcödé straße — „Anführung“ … наука и техника, наука',
  'हिन्दी में लिखा हुआ हिन्दी 中文字中文 日本語の文章 ไทยไทย',
  '👩‍👩‍👧 👍🏽 👩‍👩‍👧\u00a0\u2028\u0085 zero\u0000byte \ufeff',
  'aaaaaaaaaaaa aaaa aaa aaaaaa abababab ====== === -----',
];

const unicode = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: anyCharacter }),
  fc
    .array(fc.constantFrom(...TEXT.join(' ').split(/(?<= )/u), ...SPECIAL, "'s", '\n', '\r\n', '  ', 'ſ', '7'), {
      maxLength: 12,
    })
    .map((parts) => parts.join('')),
);

/** Byte-pair encoding written down again as it is defined, with none of what makes it fast. */
function plainMerges(
  texts: readonly string[],
  alphabet: readonly string[],
  byteIds: readonly number[],
  limit: number,
): string[] {
  const names = [...alphabet];
  const words = [...countPieces(texts, SPECIAL)].map(([piece, times]) => ({
    ids: [...Buffer.from(piece)].map((byte) => byteIds[byte]!),
    times,
  }));
  const merges: string[] = [];
  while (names.length < 256 + limit) {
    const counts = new Map<string, number>();
    for (const { ids, times } of words)
      for (const [i, id] of ids.slice(1).entries()) {
        const key = `${ids[i]} ${id}`;
        counts.set(key, (counts.get(key) ?? 0) + times);
      }
    const pair = (key: string) => key.split(' ').map(Number) as [number, number];
    const best = [...counts].sort(([a, m], [b, n]) => n - m || pair(a)[0] - pair(b)[0] || pair(a)[1] - pair(b)[1])[0];
    if (best === undefined || best[1] < 2) break;
    const [left, right] = pair(best[0]);
    merges.push(`${names[left]} ${names[right]}`);
    const name = `${names[left]}${names[right]}`;
    const id = names.includes(name) ? names.indexOf(name) : names.push(name) - 1;
    for (const word of words) {
      const joined: number[] = [];
      for (let i = 0; i < word.ids.length; i++) {
        const both = word.ids[i] === left && word.ids[i + 1] === right;
        joined.push(both ? id : word.ids[i]!);
        if (both) i++;
      }
      word.ids = joined;
    }
  }
  return merges;
}

describe('a tokenizer trained on text', () => {
  it('gives every string back', () => {
    const tokenizer = openTokenizer(train(TEXT));
    fc.assert(
      fc.property(unicode, (text) => {
        expect(tokenizer.decode(tokenizer.encode(text))).toBe(text.toWellFormed());
      }),
      { numRuns: 500 },
    );
    const everyByte = Array.from({ length: 0x800 }, (_, code) => String.fromCodePoint(code)).join('');
    expect(tokenizer.decode(tokenizer.encode(everyByte))).toBe(everyByte);
  });

  it('has the special tokens, the 256 bytes and the merges, in that order, and no more than asked for', () => {
    const files = train(TEXT, { vocabSize: 300 });
    const { vocab, merges } = modelOf(files);
    expect(Object.values(vocab).sort((a, b) => a - b)).toEqual([...Array(300).keys()]);
    expect(SPECIAL.map((token) => vocab[token])).toEqual([0, 1, 2]);
    expect(merges.length).toBeGreaterThanOrEqual(300 - 256 - SPECIAL.length);
    const tokenizer = openTokenizer(files);
    expect(tokenizer).toMatchObject({ vocabSize: 300, eos: 2, pad: 0, bos: null });
    expect(tokenizer.encode('<|im_start|> the<|im_end|>')).toEqual([1, tokenizer.id('Ġthe'), 2]);
    // A word that occurs once is not worth a token.
    expect(openTokenizer(train(['once']))).toMatchObject({ vocabSize: 259 });
    expect(openTokenizer(train(['once'], { minFrequency: 1 })).encode('once')).toHaveLength(1);
  });

  it('merges what byte-pair encoding as defined would merge, in the same order', () => {
    const alphabet = openTokenizer(train([]));
    const names = Array.from({ length: 256 }, (_, id) => alphabet.token(SPECIAL.length + id)!);
    const byteIds = Array.from({ length: 256 }, () => 0);
    // What a byte is called is read off the encoding of texts that hold it.
    for (let code = 0; code < 0x800; code++) {
      const text = String.fromCodePoint(code);
      const ids = alphabet.encode(text);
      for (const [i, byte] of [...Buffer.from(text)].entries()) byteIds[byte] = ids[i]! - SPECIAL.length;
    }
    for (const code of [
      0x800, 0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000, 0x7000, 0x8000, 0x9000, 0xa000, 0xb000, 0xc000, 0xd000,
      0xe000, 0xf000, 0x10000, 0x40000, 0x80000, 0xc0000, 0x100000,
    ]) {
      const text = String.fromCodePoint(code);
      const ids = alphabet.encode(text);
      for (const [i, byte] of [...Buffer.from(text)].entries()) byteIds[byte] = ids[i]! - SPECIAL.length;
    }
    const small = fc.array(
      fc
        .array(fc.constantFrom('a', 'b', 'aa', 'ab', 'é', ' ', '=', '\n'), { maxLength: 30 })
        .map((parts) => parts.join('')),
    );
    for (const texts of [TEXT, [TEXT.join('\n')], ...fc.sample(small, { numRuns: 60, seed: 3 })]) {
      const limit = 120;
      expect(modelOf(train(texts, { vocabSize: 256 + SPECIAL.length + limit })).merges).toEqual(
        plainMerges(texts, names, byteIds, limit),
      );
    }
  });

  it('reads text as its merges say, piece by piece, in the order they were learnt', () => {
    const files = train(TEXT);
    const { vocab, merges } = modelOf(files);
    const tokenizer = openTokenizer(files);
    const bytes = openTokenizer(train([]));
    const encode = (text: string): number[] =>
      text.split(/(<\|pad\|>|<\|im_start\|>|<\|im_end\|>)/).flatMap((part) => {
        if (SPECIAL.includes(part)) return [vocab[part]!];
        return [...part.matchAll(new RegExp(PIECE_PATTERN, 'gu'))].flatMap(([piece]) => {
          let tokens = bytes.encode(piece!).map((id) => bytes.token(id)!);
          for (const merge of merges) {
            const [left, right] = merge.split(' ');
            const joined: string[] = [];
            for (let i = 0; i < tokens.length; i++) {
              const both = tokens[i] === left && tokens[i + 1] === right;
              joined.push(both ? `${left}${right}` : tokens[i]!);
              if (both) i++;
            }
            tokens = joined;
          }
          return tokens.map((token) => vocab[token]!);
        });
      });
    fc.assert(
      fc.property(unicode, (text) => {
        expect(tokenizer.encode(text)).toEqual(encode(text));
      }),
      { numRuns: 150 },
    );
  });

  it('is the same for the same texts in any order', () => {
    const files = train(TEXT);
    expect(train([...TEXT].reverse())).toEqual(files);
    expect(JSON.stringify(train(TEXT))).toBe(JSON.stringify(files));
  });

  it('never learns from a special token that stands in the text', () => {
    const { vocab } = modelOf(train(Array(9).fill('<|im_start|>im_start<|im_end|>')));
    expect(Object.keys(vocab).filter((token) => token.includes('|') && !SPECIAL.includes(token))).toEqual(['|']);
  });

  it('reports how far it is', () => {
    const seen: number[][] = [];
    const files = train(TEXT, { vocabSize: 300, onMerge: (done, total) => seen.push([done, total]) });
    expect(seen.at(-1)).toEqual([41, 41]);
    expect(seen).toHaveLength(modelOf(files).merges.length);
  });

  it('counts a piece without end in parts, so that it cannot stall the training', () => {
    const started = performance.now();
    const files = train(['𝔸'.repeat(50_000), 'ab'.repeat(100_000)], { vocabSize: 300 });
    expectBelow(performance.now() - started, 5000);
    const tokenizer = openTokenizer(files);
    expect(tokenizer.decode(tokenizer.encode('𝔸b𝔸'))).toBe('𝔸b𝔸');
  });

  it.each([
    [{ vocabSize: 258 }, /needs 259 tokens at least \(256 bytes and 3 special ones\), not 258/],
    [{ vocabSize: 300.5 }, /not 300.5/],
    [{ special: ['<a>', '<a>'], roles: {} }, /"<a>": it occurs twice/],
    [{ special: ['<a>', '<a>b'], roles: {} }, /"<a>b": it holds another one/],
    [{ special: [''], roles: {} }, /is empty/],
    [{ special: ['Ġ'], roles: {} }, /already stands for a byte/],
    [{ roles: { eos: '<end>' } }, /eos_token "<end>" is not one of the special tokens/],
  ] as [Partial<BpeOptions>, RegExp][])('refuses %j', (options, why) => {
    expect(() => train(TEXT, options)).toThrow(why);
    expect(() => train(TEXT, options)).toThrow(expect.objectContaining({ code: 'usage' }));
  });
});

describe('a place where text can be cut', () => {
  it('leaves the pieces as they are', () => {
    const pieces = (text: string): string[] => text.match(new RegExp(PIECE_PATTERN, 'gu')) ?? [];
    const lines = fc.array(fc.oneof(unicode, fc.constantFrom('\n', '\r\n', ' \n ', '\n\n', '.\n', "'\n's")), {
      maxLength: 20,
    });
    let cut = 0;
    fc.assert(
      fc.property(lines, (parts) => {
        const text = parts.join('').toWellFormed();
        const at = safeCut(text);
        if (at > 0) cut++;
        expect([...pieces(text.slice(0, at)), ...pieces(text.slice(at))]).toEqual(pieces(text));
        expect(pieces(text).join('')).toBe(text);
      }),
      { numRuns: 500 },
    );
    expect(cut).toBeGreaterThan(100);
    expect([safeCut(''), safeCut('one line'), safeCut('a\n'), safeCut('a\nb\n '), safeCut('a\n\n\nb')]).toEqual([
      0, 0, 0, 2, 4,
    ]);
  });
});
