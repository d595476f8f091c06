import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bytesOfText, tokenTexts } from '../../trainer/model/tokens/token-text.ts';
import { openTokenizer, wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';

const words = ['alpha', 'beta', 'gamma', "don't", '.', '1', '0', '__proto__', 'é'];
const special = ['<pad>', '<end>', '<bos>', '<go>'];
const roles = { bos: '<bos>', eos: '<end>', pad: '<pad>' };
const open = () => openTokenizer(wordTokenizer(words, special, roles));

describe('a word-level tokenizer', () => {
  it('gives special tokens the ids from 0 and words those after', () => {
    const { id, token, vocabSize, bos, eos, pad } = open();
    expect([...special, ...words].map(id)).toEqual([...special, ...words].map((_, i) => i));
    expect({ vocabSize, bos, eos, pad }).toEqual({ vocabSize: 13, bos: 2, eos: 1, pad: 0 });
    expect([token(4), token(13), id('delta')]).toEqual(['alpha', null, null]);
  });

  it('cuts at white space, and special tokens also without it', () => {
    const tokenizer = open();
    expect(tokenizer.encode('alpha  beta\n1')).toEqual([4, 5, 9]);
    expect(tokenizer.encode('<go>alpha beta<end>')).toEqual([3, 4, 5, 1]);
    expect(tokenizer.encode('')).toEqual([]);
    expect(tokenizer.encode('  ')).toEqual([]);
  });

  it('separates words by single spaces', () => {
    expect(open().decode([3, 4, 8, 5, 1])).toBe('<go> alpha . beta <end>');
    expect(open().decode([])).toBe('');
  });

  it('encodes what it decoded to the same ids', () => {
    const tokenizer = open();
    fc.assert(
      fc.property(fc.array(fc.nat(tokenizer.vocabSize - 1)), (ids) => {
        expect(tokenizer.encode(tokenizer.decode(ids))).toEqual(ids);
      }),
    );
  });

  it('refuses an unknown word by name, or maps it where there is a token for it', () => {
    expect(() => open().encode('alpha delta')).toThrow(/"delta" is not a word of this model/);
    const lenient = openTokenizer(wordTokenizer(words, ['<unk>'], { unk: '<unk>' }));
    expect(lenient.encode('alpha delta')).toEqual([1, 0]);
  });

  it('refuses ids outside its vocabulary', () => {
    expect(() => open().decode([13])).toThrow(/Token id 13/);
  });

  it.each([
    ['', /empty/],
    ['a b', /white space/],
    ['\u0085', /white space/],
    ['alpha', /twice/],
    ['x<end>y', /special token/],
    ['\ud800', /white space/],
  ])('cannot have the word %j', (word, why) => {
    expect(() => wordTokenizer([...words, word], special)).toThrow(why);
  });

  it('refuses a role that is no special token', () => {
    expect(() => wordTokenizer(words, special, { eos: 'alpha' })).toThrow(/eos_token "alpha"/);
  });
});

/** A byte-level BPE tokenizer of 256 bytes and two merges, as a model of real size has it. */
function byteLevel() {
  const printable = [...Array(256).keys()].filter((b) => (b > 32 && b < 127) || (b > 160 && b !== 173));
  const others = [...Array(256).keys()].filter((b) => !printable.includes(b));
  const letters = new Map<number, string>([
    ...printable.map((b) => [b, String.fromCharCode(b)] as const),
    ...others.map((b, i) => [b, String.fromCharCode(256 + i)] as const),
  ]);
  const vocab: Record<string, number> = {};
  for (let b = 0; b < 256; b++) vocab[letters.get(b)!] = b;
  vocab.he = 256;
  vocab.hello = 259;
  vocab.ll = 257;
  vocab.llo = 258;
  return {
    tokenizer: {
      normalizer: null,
      pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
      post_processor: {
        type: 'TemplateProcessing',
        single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
        pair: [],
        special_tokens: { '<s>': { id: '<s>', ids: [260], tokens: ['<s>'] } },
      },
      decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
      model: { type: 'BPE', vocab, merges: ['h e', 'l l', 'll o', 'he llo'] },
      added_tokens: [
        { id: 260, content: '<s>', single_word: false, lstrip: false, rstrip: false, normalized: false, special: true },
      ],
    },
    config: { bos_token: { content: '<s>', __type: 'AddedToken' }, eos_token: null },
  };
}

describe('a byte-level tokenizer', () => {
  it('gives any text back', () => {
    const tokenizer = openTokenizer(byteLevel());
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
      }),
    );
  });

  it('adds the tokens around a raw prompt only where asked', () => {
    const tokenizer = openTokenizer(byteLevel());
    expect(tokenizer.encode('hello')).toEqual([259]);
    expect(tokenizer.encodePrompt('hello')).toEqual([260, 259]);
    expect(tokenizer).toMatchObject({ bos: 260, eos: null, vocabSize: 261 });
  });

  it('refuses a tokenizer of a kind it does not know', () => {
    expect(() =>
      openTokenizer({ tokenizer: { ...byteLevel().tokenizer, model: { type: 'Riddle' } }, config: {} }),
    ).toThrow(/cannot be read/);
  });
});

/** A vocabulary of pieces with `▁` for a space, and a token for each byte that no piece has, as Llama 2 has it. */
const withBytes = () => ({
  tokenizer: {
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        { type: 'Strip', content: ' ', start: 1, stop: 0 },
      ],
    },
    model: { type: 'BPE', vocab: { '▁the': 0, '<0xE2>': 1, '<0x80>': 2, '<0xA6>': 3, s: 4 }, merges: [] },
    added_tokens: [],
  },
  config: {},
});

describe('the text of a token', () => {
  const texts = (tokenizer: ReturnType<typeof open>, ids: readonly number[]) => {
    const text = tokenTexts(tokenizer);
    return ids.map((id, i) => text(id, i === 0));
  };

  it('gives, all tokens together, the bytes of any text', () => {
    const tokenizer = openTokenizer(byteLevel());
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const bytes = texts(tokenizer, tokenizer.encode(text)).flatMap((one) => bytesOfText(one)!);
        expect(Buffer.from(bytes).toString()).toBe(text);
      }),
    );
  });

  it('has its bytes where it is part of a character, and is U+FFFD only where that is its text', () => {
    const tokenizer = openTokenizer(byteLevel());
    expect(texts(tokenizer, [...tokenizer.encode('…'), ...tokenizer.encode(' hello'), 260])).toEqual([
      'bytes:\\xe2',
      'bytes:\\x80',
      'bytes:\\xa6',
      ' ',
      'hello',
      '<s>',
    ]);
    expect(bytesOfText('bytes:\\xe2\\x80')).toEqual([0xe2, 0x80]);
    expect(bytesOfText('…')).toEqual([0xe2, 0x80, 0xa6]);
  });

  it('has the space in front of it, but at the beginning of a text, as the tokenizer writes the whole', () => {
    expect(texts(open(), [4, 8, 1])).toEqual(['alpha', ' .', ' <end>']);
    expect(texts(openTokenizer(withBytes()), [0, 4, 0, 1, 2, 3])).toEqual([
      'the',
      's',
      ' the',
      'bytes:\\xe2',
      'bytes:\\x80',
      'bytes:\\xa6',
    ]);
  });

  it('is the name of the id where the tokenizer has no such token', () => {
    expect(texts(open(), [99])).toEqual(['token_id:99']);
    expect(bytesOfText('token_id:99')).toBe(null);
  });
});
