/**
 * How text is cut before bytes are merged into tokens: pieces that no token crosses, and how often each occurs.
 * The cut is the scheme of GPT-2 (Radford et al. 2019, section 2.2) as later models refine it: words with one character in
 * front, single digits, runs of punctuation, line breaks with the white space before them.
 */

/**
 * One expression that JavaScript and the readers of tokenizer.json understand alike: `\s` and `\w` differ between engines, and
 * so does ignoring case, so neither is used. Marks belong to their letters: scripts of India and South-East Asia need it.
 */
export const PIECE_PATTERN = [
  String.raw`'(?:[sdmtSDMT]|ll|LL|re|RE|ve|VE)(?![\p{L}\p{M}])`,
  String.raw`[^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}]+`,
  String.raw`\p{N}`,
  String.raw` ?[^\p{White_Space}\p{L}\p{M}\p{N}]+[\r\n]*`,
  String.raw`\p{White_Space}*[\r\n]+`,
  String.raw`\p{White_Space}+(?!\P{White_Space})`,
  String.raw`\p{White_Space}+`,
].join('|');

/** A longer piece is counted in parts of this many UTF-16 units: a base64 blob would else be walked once for each merge in it. */
const LONGEST = 256;

/**
 * Adds to `counts` how often each piece occurs in the texts. `special` tokens are cut out first, as a tokenizer does when it
 * reads. Memory grows with distinct pieces, not with text.
 */
export function countPieces(texts: Iterable<string>, special: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  const pieces = new RegExp(PIECE_PATTERN, 'gu');
  const cuts = special.length === 0 ? null : new RegExp(special.map(escaped).join('|'), 'u');
  const add = (piece: string): void => {
    const known = counts.get(piece);
    if (known !== undefined) counts.set(piece, known + 1);
    // A part of a text keeps the whole text in memory; a copy does not.
    else counts.set(Buffer.from(piece).toString(), 1);
  };
  for (const text of texts) {
    for (const part of cuts === null ? [text] : text.split(cuts)) {
      for (const piece of part.match(pieces) ?? []) {
        if (piece.length <= LONGEST) add(piece);
        else for (const short of shortened(piece)) add(short);
      }
    }
  }
  return counts;
}

function* shortened(piece: string): Generator<string> {
  for (let at = 0; at < piece.length; ) {
    const high = (piece.charCodeAt(at + LONGEST - 1) & 0xfc00) === 0xd800;
    const end = at + LONGEST - (high ? 1 : 0);
    yield piece.slice(at, end);
    at = end;
  }
}

const escaped = (text: string): string => text.replace(/[$()*+.?[\\\]^{|}/]/g, '\\$&');

/**
 * Where a long text can be cut without changing its pieces: the last place after a line break and before a character that is
 * no white space. 0 where there is none.
 */
export function safeCut(text: string): number {
  for (let at = text.length - 1; at > 0; at--) {
    const before = text.charCodeAt(at - 1);
    if ((before === 10 || before === 13) && !/\p{White_Space}/u.test(text.charAt(at))) return at;
  }
  return 0;
}

/**
 * The character that stands for each byte in a byte-level vocabulary (GPT-2): printable bytes stand for themselves, the others
 * for the characters from U+0100 on, so that no token holds white space or a control character.
 */
export const BYTE_CHARACTERS: readonly string[] = byteCharacters();

function byteCharacters(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    return String.fromCharCode(printable ? byte : next++);
  });
}
