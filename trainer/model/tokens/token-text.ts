/**
 * The text of single tokens. A token may hold part of a character only; its bytes are then written as the OpenAI interface writes them,
 * `bytes:\xe2\x80`, so that the bytes of all tokens of a text are those of the text.
 */
import { BYTE_CHARACTERS } from './byte-pieces.ts';
import type { Tokenizer } from './tokenizer.ts';

const NO_CHARACTER = '\ufffd';
const BYTE_OF = new Map(BYTE_CHARACTERS.map((character, byte) => [character, byte]));

/** The texts of a tokenizer's tokens, each made once. An id that has no token is named `token_id:N`. */
export function tokenTexts(tokenizer: Tokenizer): (id: number, first: boolean) => string {
  const known = new Map<string, string>();
  return (id, first) => {
    const key = `${id} ${first}`;
    let text = known.get(key);
    if (text === undefined) {
      text = textOf(tokenizer, id, first);
      known.set(key, text);
    }
    return text;
  };
}

export const tokenName = (id: number): string => `token_id:${id}`;

function textOf(tokenizer: Tokenizer, id: number, first: boolean): string {
  const piece = tokenizer.token(id);
  if (piece === null) return tokenName(id);
  const alone = tokenizer.decode([id]);
  // Twice the token is the only text that needs no other one: what comes after the first is how it reads within a text.
  const twice = first ? alone : tokenizer.decode([id, id]);
  const text = first || !twice.startsWith(alone) ? alone : twice.slice(alone.length);
  if (!alone.includes(NO_CHARACTER) && !text.includes(NO_CHARACTER)) return text;
  const bytes = bytesOfPiece(piece);
  if (bytes === null) return text;
  const whole = bytes.toString('utf8');
  return Buffer.from(whole).equals(bytes) ? whole : `bytes:${[...bytes].map(escaped).join('')}`;
}

const escaped = (byte: number): string => `\\x${byte.toString(16).padStart(2, '0')}`;

/** The bytes of a token of a byte-level vocabulary, or of one that falls back to bytes (`<0xE2>`); null for any other. */
function bytesOfPiece(piece: string): Buffer | null {
  const [, byte] = /^<0x([0-9A-Fa-f]{2})>$/.exec(piece) ?? [];
  if (byte !== undefined) return Buffer.from([Number.parseInt(byte, 16)]);
  const bytes = [...piece].map((character) => BYTE_OF.get(character));
  return bytes.every((each) => each !== undefined) ? Buffer.from(bytes) : null;
}

/** The bytes of a token by its text, as `TokenText` gives it; null for a token without text. */
export function bytesOfText(text: string): number[] | null {
  if (/^token_id:\d+$/.test(text)) return null;
  if (/^bytes:(\\x[0-9a-f]{2})+$/.test(text))
    return text
      .split('\\x')
      .slice(1)
      .map((byte) => Number.parseInt(byte, 16));
  return [...Buffer.from(text)];
}
