/** Any character of Unicode, for texts of any characters: `fc.string({ unit: anyCharacter })`. */
import fc from 'fast-check';

const SURROGATES = [0xd800, 0xdfff] as const;
const COUNT = SURROGATES[1] - SURROGATES[0] + 1;

/** As fast-check's unit `binary`, which takes a second of processor time and a table of a million entries in each process that asks for it. */
export const anyCharacter: fc.Arbitrary<string> = fc.nat(0x10ffff - COUNT).map(
  (n) => String.fromCodePoint(n < SURROGATES[0] ? n : n + COUNT),
  (text) => {
    const code = typeof text === 'string' ? (text.codePointAt(0) ?? -1) : -1;
    if (code < 0 || text !== String.fromCodePoint(code) || (code >= SURROGATES[0] && code <= SURROGATES[1]))
      throw new Error(`${text} is not one character`);
    return code < SURROGATES[0] ? code : code - COUNT;
  },
);
