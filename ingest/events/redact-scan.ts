/**
 * Looking for many short literals at once, nearly always in vain. The text is written as bytes, one for each of its code units, and read
 * two bytes at a time: of three neighbouring characters of a literal two lie in one such pair, wherever it stands. Takes under 1 ns a
 * character; a loop over the characters themselves takes 3 to 7.
 */

/** Bytes that are looked at together. */
const CHUNK = 1 << 16;
/** Pairs that are looked at before one is asked for. */
const AT_ONCE = 4;
/** Room for the zeros behind a chunk, which are no pair of a literal. */
const BYTES = Buffer.alloc(CHUNK + 2 * AT_ONCE);
const PAIRS = new Uint16Array(BYTES.buffer, BYTES.byteOffset, BYTES.length / 2);

/** Letters of prose from the most frequent on; anything else is rarer. */
const FREQUENT = ' etaoinsrhldcumfpgwybvkxjqz';
const rarity = (c: string): number => (FREQUENT.indexOf(c) + FREQUENT.length + 1) % (FREQUENT.length + 1);

/** Where in a literal its three rarest neighbours stand. */
function rarestThree(literal: string): number {
  const rarities = [...literal].map(rarity);
  const sums = rarities.slice(2).map((last, i) => rarities[i]! + 2 * rarities[i + 1]! + last);
  return sums.indexOf(Math.max(...sums));
}

/** True for texts that hold one of these literals, each ASCII and of three characters or more. */
export function finderOf(literals: readonly string[]): (text: string) => boolean {
  const candidates: { readonly literal: string; readonly first: number; readonly at: number }[][] = [[]];
  const list = new Uint8Array(1 << 16);
  for (const literal of literals) {
    const three = rarestThree(literal);
    for (const at of [three, three + 1]) {
      BYTES.write(literal.slice(at, at + 2), 0, 'latin1');
      const pair = PAIRS[0]!;
      if (list[pair] === 0) list[pair] = candidates.push([]) - 1;
      candidates[list[pair]!]!.push({ literal, first: literal.charCodeAt(0), at });
    }
  }
  const holds = (text: string, pair: number, place: number): boolean => {
    for (const { literal, first, at } of candidates[list[pair]!]!) {
      // Other than ASCII was cut to a byte: what is found is looked at again.
      if (text.charCodeAt(place - at) === first && text.startsWith(literal, place - at)) return true;
    }
    return false;
  };
  return (text) => {
    // Chunks have two characters in common: three neighbours are in one of them.
    for (let from = 0; from === 0 || from + 2 < text.length; from += CHUNK - 2) {
      const written = BYTES.write(from === 0 ? text : text.slice(from, from + CHUNK), 0, CHUNK, 'latin1');
      for (let k = 0; k < 2 * AT_ONCE; k++) BYTES[written + k] = 0;
      const pairs = (written + 1) >> 1;
      for (let i = 0; i < pairs; i += AT_ONCE) {
        const any = list[PAIRS[i]!]! | list[PAIRS[i + 1]!]! | list[PAIRS[i + 2]!]! | list[PAIRS[i + 3]!]!;
        if (any === 0) continue;
        for (let k = i; k < i + AT_ONCE; k++) {
          const pair = PAIRS[k]!;
          if (list[pair] !== 0 && holds(text, pair, from + 2 * k)) return true;
        }
      }
    }
    return false;
  };
}
