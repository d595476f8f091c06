/**
 * What a tokenizer.json does to a text before it is cut: the normalizers of huggingface/tokenizers (tokenizers/src/normalizers/), each a
 * function. White space, letters and marks are those of Unicode, as there, and not those of JavaScript.
 */
import { got } from '../../../errors.ts';
import { type PatternOf, partReader, type TokenizerPart } from './tokenizer-parts.ts';

export type Normalizer = (text: string) => string;

/** A normalizer from its JSON; one that is not known, or a field that has no meaning here, throws. */
export function normalizer(json: unknown, pattern: PatternOf): Normalizer {
  if (json == null) return (text) => text;
  const part = partReader('normalizer', json);
  switch (part.type) {
    case 'Sequence':
      return chained(part.list('normalizers').map((one) => normalizer(one, pattern)));
    case 'NFC':
    case 'NFD':
    case 'NFKC':
    case 'NFKD': {
      const form = part.type;
      return (text) => text.normalize(form);
    }
    case 'Lowercase':
      return lowercase;
    case 'StripAccents':
      return (text) => text.replace(/\p{M}/gu, '');
    case 'Strip':
      return strip(part);
    case 'Prepend': {
      const before = part.text('prepend');
      return (text) => (text === '' ? '' : before + text);
    }
    case 'Replace': {
      const [what, by] = [pattern(part.json.pattern), part.text('content')];
      return (text) => text.replace(what, () => by);
    }
    case 'Precompiled':
      return precompiled(part);
    case 'BertNormalizer':
      return bert(part);
    default:
      throw new Error(`the normalizer ${got(part.type)} is not known`);
  }
}

const chained =
  (all: readonly Normalizer[]): Normalizer =>
  (text) =>
    all.reduce((now, one) => one(now), text);

/** Letter by letter: JavaScript would write a sigma at the end of a word otherwise. */
const lowercase: Normalizer = (text) => text.replace(/\p{Changes_When_Lowercased}/gu, (letter) => letter.toLowerCase());

function strip(part: TokenizerPart): Normalizer {
  const ends = [
    ...(part.flag('strip_left', false) ? [/^\p{White_Space}+/u] : []),
    ...(part.flag('strip_right', false) ? [/\p{White_Space}+$/u] : []),
  ];
  return (text) => ends.reduce((now, end) => now.replace(end, ''), text);
}

/** The blocks of Chinese characters that `BertNormalizer` puts spaces around; the sixth begins where it does there. */
const CHINESE =
  /[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{f900}-\u{faff}\u{2f800}-\u{2fa1f}]/gu;

function bert(part: TokenizerPart): Normalizer {
  const lower = part.flag('lowercase', true);
  const accents = part.json.strip_accents == null ? lower : part.flag('strip_accents', lower);
  return chained([
    ...(part.flag('clean_text', true)
      ? [
          (text: string) =>
            text.replace(/(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\ufffd]/gu, '').replace(/\p{White_Space}/gu, ' '),
        ]
      : []),
    ...(part.flag('handle_chinese_chars', true) ? [(text: string) => text.replace(CHINESE, ' $& ')] : []),
    ...(accents ? [(text: string) => text.normalize('NFD').replace(/\p{Mn}/gu, '')] : []),
    ...(lower ? [lowercase] : []),
  ]);
}

/**
 * The table of SentencePiece's normalizations (`precompiled_charsmap`): a double-array trie in 32-bit units behind its length in bytes, and
 * the texts it leads to, each ended by a zero. A cluster of characters is looked up whole if it has fewer than six bytes, else and where
 * it is not found each character by itself (huggingface/spm_precompiled src/lib.rs).
 */
function precompiled(part: TokenizerPart): Normalizer {
  const bytes = Buffer.from(part.text('precompiled_charsmap'), 'base64');
  const size = bytes.length < 4 ? 0 : bytes.readUInt32LE(0);
  if (bytes.length < 4 + size || size % 4 !== 0 || size === 0) throw new Error('precompiled_charsmap is not whole');
  const units = Uint32Array.from({ length: size / 4 }, (_, i) => bytes.readUInt32LE(4 + 4 * i));
  const texts = bytes.subarray(4 + size);
  const offset = (unit: number): number => (unit >>> 10) << ((unit & 0x200) >>> 6);
  /** What the shortest prefix that the trie knows becomes; null where it knows none. */
  const found = (text: string): string | null => {
    let at = offset(units[0] as number);
    for (const byte of Buffer.from(text)) {
      if (byte === 0) return null;
      at ^= byte;
      const unit = units[at];
      if (unit === undefined || (unit & 0x800000ff) >>> 0 !== byte) return null;
      at ^= offset(unit);
      if (((unit >>> 8) & 1) === 0) continue;
      const start = (units[at] as number) & 0x7fffffff;
      return texts.subarray(start, texts.indexOf(0, start)).toString();
    }
    return null;
  };
  const clusters = new Intl.Segmenter();
  return (text) => {
    let normal = '';
    for (const { segment } of clusters.segment(text)) {
      const whole = Buffer.byteLength(segment) < 6 ? found(segment) : null;
      normal += whole ?? [...segment].map((character) => found(character) ?? character).join('');
    }
    return normal;
  };
}
