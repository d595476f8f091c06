import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { escapeText, mapStrings, needsEscape, unescapeText } from '../../ingest/events/text.ts';
import { anyCharacter } from '../support/character.ts';

/** Any text, with what PostgreSQL cannot hold occurring often. */
const anyText = fc
  .array(
    fc.oneof(
      fc.constantFrom('\u0000', '\uFFFE', '\uD83D', '\uDE00', '\uFFFE0041', '😀', '\\u0000', '\uFFFF', '\uFEFF'),
      fc.string({ unit: anyCharacter }),
    ),
  )
  .map((parts) => parts.join(''));

describe('text that PostgreSQL cannot hold', () => {
  it('P43: is escaped into text that it can hold, and comes back as it was', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const escaped = escapeText(text);
        expect(escaped.includes('\u0000')).toBe(false);
        expect(escaped.isWellFormed()).toBe(true);
        expect(unescapeText(escaped)).toBe(text);
        if (!needsEscape(text)) expect(escaped).toBe(text);
      }),
      { numRuns: 500 },
    );
  });

  it('has exactly one origin for each escaped text', () => {
    fc.assert(
      fc.property(anyText, anyText, (a, b) => {
        expect(escapeText(a) === escapeText(b)).toBe(a === b);
      }),
    );
  });

  it('leaves alone what only looks strange: emoji, a byte order mark, U+FFFF, an escape written out', () => {
    for (const text of ['😀', '\uFEFF', '\uFFFF', '\\u0000', '', '\u202E', 'e\u0301'.repeat(100)])
      expect(needsEscape(text)).toBe(false);
    for (const text of ['\u0000', '\uD83D', '\uDE00', '\uDE00\uD83D', '\uFFFE']) expect(needsEscape(text)).toBe(true);
  });

  it('maps the strings of a value and never its keys, also the key __proto__', () => {
    const value = JSON.parse('{"__proto__":{"a":"x"},"b":["x",1,null]}');
    expect(JSON.stringify(mapStrings(value, (text) => `${text}!`))).toBe('{"__proto__":{"a":"x!"},"b":["x!",1,null]}');
    expect(({} as { a?: unknown }).a).toBeUndefined();
  });
});
