/**
 * The parts of a tokenizer.json. What is expected is what the Python package tokenizers 0.23.3 gives: `normalize_str`, `pre_tokenize_str`,
 * `decode` of the part, or `encode(…).ids` of the whole.
 */
import { describe, expect, it } from 'vitest';
import { decoder } from '../../trainer/model/tokens/decoders.ts';
import { normalizer } from '../../trainer/model/tokens/normalizers.ts';
import { preTokenizer } from '../../trainer/model/tokens/pre-tokenizers.ts';
import { patternOf } from '../../trainer/model/tokens/token-models.ts';
import { openTokenizer } from '../../trainer/model/tokens/tokenizer.ts';

const DIGIT = { Regex: '\\d' };
const bert = { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null };

describe('a normalizer', () => {
  it.each([
    [{ type: 'Lowercase' }, 'ΟΔΟΣ İ', 'οδοσ i\u0307'],
    [{ type: 'Strip', strip_left: true, strip_right: true }, '\u0085\ufeffa \u3000', '\ufeffa'],
    [{ type: 'StripAccents' }, 'e\u0301\u0903 \u00f1', 'e \u00f1'],
    [{ type: 'Replace', pattern: { Regex: '\\s+' }, content: '$&' }, 'a\u0085b\ufeffc', 'a$&b\ufeffc'],
    [{ ...bert, lowercase: true }, 'Ña\u200b\ue000\u0085\u{20000}Σ', 'na \u{20000} σ'],
    [{ ...bert, lowercase: false }, 'Ñ漢\t', 'Ñ 漢  '],
    [{ type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, { type: 'NFKC' }] }, 'ﬁ', '▁fi'],
  ])('%j changes a text as in tokenizers', (json, text, expected) => {
    expect(normalizer(json, patternOf)(text)).toBe(expected);
  });

  it('reads the table of SentencePiece: a cluster whole, else letter by letter', () => {
    // A trie of two entries: "a" becomes "b", and "é" of two bytes becomes "e". Offsets are chosen so that no two nodes meet.
    const units = new Uint32Array(1024);
    const node = (at: number, byte: number, offset: number, leaf: boolean) => {
      units[at] = (offset << 10) | (leaf ? 0x100 : 0) | byte;
    };
    units[0] = 256 << 10;
    node(256 ^ 0x61, 0x61, 256 ^ 0x61 ^ 600, true);
    units[600] = 0x80000000;
    node(256 ^ 0xc3, 0xc3, 256 ^ 0xc3 ^ 768, false);
    node(768 ^ 0xa9, 0xa9, 768 ^ 0xa9 ^ 601, true);
    units[601] = 0x80000002;
    const head = Buffer.alloc(4);
    head.writeUInt32LE(units.byteLength);
    const charsmap = Buffer.concat([head, Buffer.from(units.buffer), Buffer.from('b\0e\0')]).toString('base64');
    expect(normalizer({ type: 'Precompiled', precompiled_charsmap: charsmap }, patternOf)('caéx')).toBe('cbex');
    expect(() => normalizer({ type: 'Precompiled', precompiled_charsmap: 'AAAA' }, patternOf)).toThrow(/not whole/);
  });
});

describe('a pre-tokenizer', () => {
  it.each([
    [{ type: 'ByteLevel', add_prefix_space: false, use_regex: true }, 'a \u0085 \ufeffb', ['a', 'ĠÂħ', 'Ġï»¿', 'b']],
    [{ type: 'Digits', individual_digits: true }, 'a1²Ⅷ', ['a', '1', '²', 'Ⅷ']],
    [{ type: 'Digits', individual_digits: false }, 'a12²Ⅷb', ['a', '12²Ⅷ', 'b']],
    [{ type: 'Whitespace' }, 'é_a\u200d-٣ 漢\ufeff!', ['é_a\u200d', '-', '٣', '漢', '\ufeff!']],
    [{ type: 'WhitespaceSplit' }, 'a\ufeffb\u0085c', ['a\ufeffb', 'c']],
    [{ type: 'BertPreTokenizer' }, 'a.b«c$€', ['a', '.', 'b', '«', 'c', '$', '€']],
    [{ type: 'FixedLength', length: 2 }, 'a😀b😀c', ['a😀', 'b😀', 'c']],
    [{ type: 'Punctuation', behavior: 'Removed' }, '..a,b!?', ['a', 'b']],
    [{ type: 'Punctuation', behavior: 'Isolated' }, '..a,b!?', ['.', '.', 'a', ',', 'b', '!', '?']],
    [{ type: 'Punctuation', behavior: 'MergedWithPrevious' }, '..a,b!?', ['.', '.', 'a,', 'b!', '?']],
    [{ type: 'Punctuation', behavior: 'MergedWithNext' }, '..a,b!?', ['.', '.a', ',b', '!', '?']],
    [{ type: 'Punctuation', behavior: 'Contiguous' }, '..a,b!?', ['..', 'a', ',', 'b', '!?']],
    [{ type: 'Split', pattern: DIGIT, behavior: 'Removed', invert: true }, '12ab3', ['1', '2', '3']],
    [{ type: 'Split', pattern: DIGIT, behavior: 'Isolated', invert: true }, '12ab3', ['1', '2', 'ab', '3']],
    [{ type: 'Split', pattern: DIGIT, behavior: 'MergedWithPrevious', invert: true }, '12ab3', ['1', '2ab', '3']],
    [{ type: 'Split', pattern: DIGIT, behavior: 'MergedWithNext', invert: false }, '12ab3', ['1', '2ab', '3']],
    [{ type: 'Split', pattern: DIGIT, behavior: 'Contiguous', invert: false }, '12ab3', ['12', 'ab', '3']],
    [{ type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true }, 'a b  c', ['▁a', '▁b', '▁', '▁c']],
    [{ type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false }, 'a b  c', ['▁a▁b▁▁c']],
    [{ type: 'Metaspace', replacement: '▁', prepend_scheme: 'never', split: true }, ' a b', ['▁a', '▁b']],
  ])('%j cuts a text as in tokenizers', (json, text, expected) => {
    expect(preTokenizer(json, patternOf)(text, true)).toEqual(expected);
  });
});

describe('a decoder', () => {
  it.each([
    [
      { type: 'ByteFallback' },
      ['<0x41>', '<0xC3>', 'a', '<0xC3>', '<0xA9>', '<0xEF>', '<0xBB>', '<0xBF>'],
      '\ufffd\ufffdaé\ufeff',
    ],
    [{ type: 'ByteLevel' }, ['Ã', '©', '｜x▁', 'Ġa'], 'é｜x▁ a'],
    [{ type: 'Metaspace', replacement: '▁', prepend_scheme: 'always' }, ['▁a▁b', '▁c'], 'ab c'],
    [{ type: 'Metaspace', replacement: '▁', prepend_scheme: 'never' }, ['▁a', '▁c'], ' a c'],
    [{ type: 'Replace', pattern: { String: '▁' }, content: '$&' }, ['▁a'], '$&a'],
    [{ type: 'Strip', content: ' ', start: 1, stop: 1 }, ['  a '], ' a'],
    [{ type: 'WordPiece', prefix: '##', cleanup: true }, ['a', '##b', "'", 's', '.'], "ab ' s."],
    [{ type: 'BPEDecoder', suffix: '</w>' }, ['a</w>', 'b</w>'], 'a b'],
    [null, ['a', 'b'], 'a b'],
  ])('%j gives the text of tokens as in tokenizers', (json, tokens, expected) => {
    expect(decoder(json, patternOf)(tokens).join('')).toBe(expected);
  });
});

const LETTERS = Object.fromEntries([...'abcdef ▁'].map((letter, id) => [letter, id]));
const added = (id: number, content: string, how: object) => ({
  id,
  content,
  special: false,
  normalized: false,
  ...how,
});

/** Single letters, and added tokens of every kind; 9 is the unknown one. */
const letters = () =>
  openTokenizer({
    tokenizer: {
      normalizer: { type: 'Lowercase' },
      pre_tokenizer: {
        type: 'Sequence',
        pretokenizers: [
          { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false },
          { type: 'Split', pattern: { Regex: '' }, behavior: 'Isolated', invert: false },
        ],
      },
      model: { type: 'WordLevel', vocab: { ...LETTERS, '<l>': 8, '<unk>': 9 }, unk_token: '<unk>' },
      added_tokens: [
        added(8, '<l>', { lstrip: true, special: true }),
        added(10, '<r>', { rstrip: true, special: true }),
        added(11, 'de', { single_word: true }),
        added(12, 'F', { normalized: true }),
        added(13, 'fF', { normalized: true }),
      ],
      post_processor: null,
      decoder: null,
    },
    config: {},
  });

describe('a whole tokenizer', () => {
  it.each([
    ['a <l>b', [7, 0, 8, 1]],
    ['<r> \u0085b', [10, 1]],
    ['\ufeff<l>', [7, 9, 8]],
    ['ade de', [7, 0, 3, 4, 7, 11]],
    ['de.', [11, 9]],
    ['fab', [12, 0, 1]],
    ['FFa', [13, 0]],
    ['F<r>F a', [12, 10, 12, 7, 0]],
  ])('finds the added tokens of %j as in tokenizers', (text, ids) => {
    expect(letters().encode(text)).toEqual(ids);
  });

  const unigram = (model: object) =>
    openTokenizer({ tokenizer: { model: { type: 'Unigram', ...model }, added_tokens: [] }, config: {} });
  const scores: [string, number][] = [
    ['<unk>', 0],
    ['a', -1],
    ['<0xC3>', -9],
    ['<0xA9>', -9],
    ['ab', -1],
  ];

  it('gives a run of unknown characters of a unigram model one unknown token, or the tokens of its bytes', () => {
    expect(unigram({ vocab: scores, unk_id: 0 }).encode('aéüab')).toEqual([1, 0, 4]);
    expect(unigram({ vocab: scores, unk_id: 0, byte_fallback: true }).encode('aéab')).toEqual([1, 2, 3, 4]);
    expect(unigram({ vocab: scores, unk_id: 0, byte_fallback: true }).encode('aéüab')).toEqual([1, 0, 4]);
    expect(() => unigram({ vocab: scores, unk_id: null }).encode('aé')).toThrow(/"é" is not a word/);
  });

  const bpe = { type: 'BPE', vocab: { a: 0 }, merges: [] };
  it.each([
    ['model', { ...bpe, continuing_subword_prefix: '##' }, /continuing_subword_prefix/],
    ['model', { ...bpe, dropout: 0.1 }, /dropout/],
    ['normalizer', { type: 'Nmt' }, /normalizer "Nmt"/],
    ['pre_tokenizer', { type: 'UnicodeScripts' }, /pre-tokenizer "UnicodeScripts"/],
    ['pre_tokenizer', { type: 'Split', pattern: DIGIT, behavior: 'Shuffled' }, /behavior "Shuffled"/],
    ['decoder', { type: 'CTC' }, /decoder "CTC"/],
    ['post_processor', { type: 'Mirror' }, /post-processor "Mirror"/],
  ])('refuses a %s %j that it would read otherwise than it is meant', (field, part, why) => {
    const tokenizer = { model: bpe, added_tokens: [], [field]: part };
    expect(() => openTokenizer({ tokenizer, config: {} })).toThrow(why);
  });
});
