/**
 * How a tokenizer.json makes text of tokens: the decoders of huggingface/tokenizers (tokenizers/src/decoders/), each a function from
 * pieces to pieces.
 */
import { got } from '../../../errors.ts';
import { BYTE_CHARACTERS } from './byte-pieces.ts';
import { type PatternOf, partReader, type TokenizerPart } from './tokenizer-parts.ts';

export type Decoder = (tokens: readonly string[]) => readonly string[];

/** A decoder from its JSON; without one tokens are put one space apart. One that is not known throws. */
export function decoder(json: unknown, pattern: PatternOf): Decoder {
  if (json == null) return (tokens) => tokens.map((token, i) => (i === 0 ? token : ` ${token}`));
  const part = partReader('decoder', json);
  switch (part.type) {
    case 'Sequence': {
      const all = part.list('decoders').map((one) => decoder(one, pattern));
      return (tokens) => all.reduce((now, one) => one(now), tokens);
    }
    case 'ByteLevel':
      return byteLevel;
    case 'ByteFallback':
      return byteFallback;
    case 'Fuse':
      return (tokens) => [tokens.join('')];
    case 'Replace': {
      const [what, by] = [pattern(part.json.pattern), part.text('content')];
      return (tokens) => tokens.map((token) => token.replace(what, () => by));
    }
    case 'Strip':
      return strip(part);
    case 'Metaspace':
      return metaspace(part);
    case 'WordPiece':
      return wordPiece(part);
    case 'BPEDecoder': {
      const suffix = part.text('suffix', '</w>');
      return (tokens) => tokens.map((token, i) => token.replaceAll(suffix, i === tokens.length - 1 ? '' : ' '));
    }
    default:
      throw new Error(`the decoder ${got(part.type)} is not known`);
  }
}

const BYTE_OF = new Map(BYTE_CHARACTERS.map((character, byte) => [character, byte]));

/** A token that holds a character which stands for no byte, such as an added one, is its own bytes. */
const byteLevel: Decoder = (tokens) => {
  const bytes = tokens.flatMap((token) => {
    const found = [...token].map((character) => BYTE_OF.get(character));
    return found.includes(undefined) ? [...Buffer.from(token)] : (found as number[]);
  });
  return [Buffer.from(bytes).toString()];
};

const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;

/** A run of bytes that are no text gives one U+FFFD for each of them. */
const byteFallback: Decoder = (tokens) => {
  const pieces: string[] = [];
  let run: number[] = [];
  const end = (): void => {
    const text = Buffer.from(run).toString();
    if (Buffer.from(text).equals(Buffer.from(run))) pieces.push(text);
    else pieces.push(...run.map(() => '\ufffd'));
    run = [];
  };
  for (const token of tokens) {
    const [, byte] = BYTE_TOKEN.exec(token) ?? [];
    if (byte !== undefined) {
      run.push(Number.parseInt(byte, 16));
      continue;
    }
    if (run.length > 0) end();
    pieces.push(token);
  }
  if (run.length > 0) end();
  return pieces;
};

function strip(part: TokenizerPart): Decoder {
  const [content, start, stop] = [part.text('content', ' '), part.count('start', 0), part.count('stop', 0)];
  return (tokens) =>
    tokens.map((token) => {
      const characters = [...token];
      let [from, to] = [0, characters.length];
      while (from < start && characters[from] === content) from++;
      while (characters.length - to < stop && to > from && characters[to - 1] === content) to--;
      return characters.slice(from, to).join('');
    });
}

function metaspace(part: TokenizerPart): Decoder {
  const mark = part.text('replacement', '▁');
  const scheme = part.text('prepend_scheme', part.flag('add_prefix_space', true) ? 'always' : 'never');
  return (tokens) => tokens.map((token, i) => token.replaceAll(mark, i === 0 && scheme !== 'never' ? '' : ' '));
}

function wordPiece(part: TokenizerPart): Decoder {
  const [prefix, cleans] = [part.text('prefix', '##'), part.flag('cleanup', true)];
  return (tokens) =>
    tokens.map((token, i) => {
      const text = i === 0 ? token : token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`;
      return cleans ? cleaned(text) : text;
    });
}

/** No space before punctuation and English contractions, as the first tokenizers of this kind wrote them. */
export const cleaned = (text: string): string =>
  [' .', ' ?', ' !', ' ,', " ' ", " n't", " 'm", ' do not', " 's", " 've", " 're"].reduce(
    (now, found) => now.replaceAll(found, found === ' do not' ? " don't" : found.trim()),
    text,
  );
