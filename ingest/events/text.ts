/**
 * Text that PostgreSQL cannot hold. U+0000 and lone surrogates are legal in JSON strings and occur in tool output; in text and
 * JSON they are kept by one reversible escape and given back as sent. The escape is the noncharacter U+FFFE followed by four hex
 * digits, and U+FFFE itself is escaped the same way, so every escaped text has exactly one origin.
 */

/** Flag of an event whose text holds the escape. */
export const ESCAPED_FLAG = 'escaped_text';

const MARK = '\uFFFE';
// biome-ignore lint/suspicious/noControlCharactersInRegex: U+0000 is what this file is about
const NEEDS_ESCAPE = /[\u0000\uFFFE]|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;
const ESCAPED = /\uFFFE([0-9A-F]{4})/g;

/** What may need it, found without looking around: a surrogate may be one of a pair. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const MIGHT_NEED_ESCAPE = /[\u0000\uFFFE\uD800-\uDFFF]/;

/** True where a string could not be stored as it is. */
export const needsEscape = (text: string): boolean => {
  if (!MIGHT_NEED_ESCAPE.test(text)) return false;
  NEEDS_ESCAPE.lastIndex = 0;
  return NEEDS_ESCAPE.test(text);
};

export const escapeText = (text: string): string =>
  text.replace(NEEDS_ESCAPE, (c) => MARK + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0'));

export const unescapeText = (text: string): string =>
  text.replace(ESCAPED, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/** The same JSON value with every string (not the keys) passed through `change`. */
export function mapStrings(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, mapStrings(member, change)]));
  }
  return value;
}

/** A text of 1 to 512 bytes without U+0000 and lone surrogates. */
export const isIdentifier = (value: unknown): value is string =>
  typeof value === 'string' &&
  value.length > 0 &&
  (value.length * 3 <= 512 || Buffer.byteLength(value) <= 512) &&
  !needsEscape(value);

const strict = new TextDecoder('utf-8', { fatal: true });

/** UTF-8 bytes as text (a byte order mark is dropped), or null where they are not UTF-8. */
export function utf8(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}
