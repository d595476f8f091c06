/**
 * How a tokenizer.json cuts a text into the pieces that its model encodes one by one: the pre-tokenizers of huggingface/tokenizers
 * (tokenizers/src/pre_tokenizers/), each a function.
 */
import { got } from '../../../errors.ts';
import { BYTE_CHARACTERS } from './byte-pieces.ts';
import { type PatternOf, partReader, type TokenizerPart } from './tokenizer-parts.ts';

/** The pieces of a piece; `first`: the text begins with it. */
export type PreTokenizer = (piece: string, first: boolean) => readonly string[];

/** What becomes of the matches of a pattern and of what lies between them. */
type Behavior = 'Removed' | 'Isolated' | 'MergedWithPrevious' | 'MergedWithNext' | 'Contiguous';
const BEHAVIORS: readonly Behavior[] = ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'];

/** Punctuation of ASCII, its symbols included, and of Unicode. */
const PUNCTUATION = /[\p{P}!-/:-@[-`{-~]/gu;
const WORD = String.raw`\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}`;
const WORDS = new RegExp(String.raw`[${WORD}]+|[^${WORD}\p{White_Space}]+`, 'gu');
const SPACE = /\p{White_Space}/gu;
const BYTE_LEVEL =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

/** A pre-tokenizer from its JSON; one that is not known, or a field that has no meaning here, throws. */
export function preTokenizer(json: unknown, pattern: PatternOf): PreTokenizer {
  if (json == null) return (piece) => [piece];
  const part = partReader('pre-tokenizer', json);
  switch (part.type) {
    case 'Sequence':
      return inTurn(part.list('pretokenizers').map((one) => preTokenizer(one, pattern)));
    case 'ByteLevel':
      return byteLevel(part);
    case 'Split':
      return cut(pattern(part.json.pattern), behavior(part), part.flag('invert', false));
    case 'Metaspace':
      return metaspace(part);
    case 'Whitespace':
      return cut(WORDS, 'Removed', true);
    case 'WhitespaceSplit':
      return cut(SPACE, 'Removed');
    case 'BertPreTokenizer':
      return inTurn([cut(SPACE, 'Removed'), cut(PUNCTUATION, 'Isolated')]);
    case 'Punctuation':
      return cut(PUNCTUATION, behavior(part));
    case 'Digits':
      return cut(/\p{N}/gu, part.flag('individual_digits', false) ? 'Isolated' : 'Contiguous');
    case 'CharDelimiterSplit':
      return cut(pattern({ String: part.text('delimiter') }), 'Removed');
    case 'FixedLength': {
      const length = Math.max(1, part.count('length', 5));
      return cut(new RegExp(`[^]{1,${length}}`, 'gu'), 'Isolated');
    }
    default:
      throw new Error(`the pre-tokenizer ${got(part.type)} is not known`);
  }
}

/** Each piece of one is cut by the next; only the first of all pieces begins the text. */
const inTurn =
  (all: readonly PreTokenizer[]): PreTokenizer =>
  (piece, first) =>
    all.reduce<readonly string[]>((pieces, one) => pieces.flatMap((each, i) => one(each, first && i === 0)), [piece]);

function behavior(part: TokenizerPart): Behavior {
  const named = part.text('behavior', 'Isolated');
  const known = BEHAVIORS.find((one) => one === named);
  if (known === undefined) throw new Error(`the behavior ${got(named)} of the ${part.type} is not known`);
  return known;
}

/** Cuts at the matches of a pattern, or with `invert` at what lies between them. */
function cut(pattern: RegExp, how: Behavior, invert = false): PreTokenizer {
  return (piece) => {
    const spans: { text: string; match: boolean }[] = [];
    let at = 0;
    for (const found of piece.matchAll(pattern)) {
      if (found.index > at) spans.push({ text: piece.slice(at, found.index), match: invert });
      spans.push({ text: found[0], match: !invert });
      at = found.index + found[0].length;
    }
    if (at < piece.length) spans.push({ text: piece.slice(at), match: invert });
    // An empty match cuts too, and is no piece.
    return joined(spans, how).filter((text) => text !== '');
  };
}

function joined(spans: readonly { readonly text: string; readonly match: boolean }[], how: Behavior): string[] {
  if (how === 'Isolated') return spans.map(({ text }) => text);
  if (how === 'Removed') return spans.flatMap(({ text, match }) => (match ? [] : [text]));
  const pieces: string[] = [];
  if (how === 'MergedWithNext') {
    for (const [i, { text, match }] of [...spans.entries()].reverse()) {
      if (match && pieces.length > 0 && spans[i + 1]?.match === false) pieces.push(text + pieces.pop());
      else pieces.push(text);
    }
    return pieces.reverse();
  }
  for (const [i, { text, match }] of spans.entries()) {
    const before = spans[i - 1]?.match;
    const joins = how === 'Contiguous' ? match === before : match && before === false;
    if (joins) pieces.push(pieces.pop() + text);
    else pieces.push(text);
  }
  return pieces;
}

function byteLevel(part: TokenizerPart): PreTokenizer {
  const [prefix, cuts] = [part.flag('add_prefix_space', true), part.flag('use_regex', true)];
  return (piece) => {
    const text = prefix && !piece.startsWith(' ') ? ` ${piece}` : piece;
    const pieces = cuts ? (text.match(BYTE_LEVEL) ?? []) : [text];
    return pieces.map((each) => {
      let characters = '';
      for (const byte of Buffer.from(each)) characters += BYTE_CHARACTERS[byte];
      return characters;
    });
  };
}

/** Spaces become `▁`, one stands before the text or before every part of it, and each begins a piece. */
function metaspace(part: TokenizerPart): PreTokenizer {
  const mark = part.text('replacement', '▁');
  // Older files say `add_prefix_space` in place of a scheme.
  const scheme = part.text('prepend_scheme', part.flag('add_prefix_space', true) ? 'always' : 'never');
  if (!['always', 'first', 'never'].includes(scheme)) throw new Error(`the prepend_scheme ${got(scheme)} is not known`);
  const pieces = part.flag('split', true)
    ? cut(new RegExp(mark.replace(/[$()*+.?[\\\]^{|}/]/g, '\\$&'), 'gu'), 'MergedWithNext')
    : (piece: string) => [piece];
  return (piece, first) => {
    const text = piece.replaceAll(' ', () => mark);
    const prepends = scheme === 'always' || (scheme === 'first' && first);
    return pieces(prepends && !text.startsWith(mark) ? mark + text : text, first);
  };
}
