/** A number as people and models write it at the end of an answer, where it can be read in one way only. Our rules. */

/** A plain decimal. Each digit is read once, also of a text that is none. */
export const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/;
const FRACTION = /^([+-]?\d+) ?\/ ?(\d+)$/;
/** `\frac{3}{4}`, `-\dfrac{3}{4}`, `\frac34`. */
const LATEX_FRACTION = /^([+-]?) ?\\[dt]?frac ?(?:\{ ?([+-]?\d+) ?\} ?\{ ?(\d+) ?\}|(\d)(\d))$/;
/** `1 1/2`, `-1\frac{1}{2}`. */
const MIXED = /^([+-]?)(\d+) ?(\\[dt]?frac ?.+|(?<= )\d+ ?\/ ?\d+)$/;
/**
 * `1,234,567`, `1,234.5`, `1{,}234`. Not `1,234`: where a comma is the decimal sign it is a little more than one.
 */
const THOUSANDS = /^[+-]?\d{1,3}(?:(?:,\d{3}){2,}(?:\.\d+)?|(?:,\d{3})+\.\d+|(?:\{,\}\d{3})+(?:\.\d+)?)$/;

/** The number that the whole text writes; null where it writes none, writes more than one, or one that is too large for a double. */
export function writtenNumber(text: string): number | null {
  const value = plain(text) ?? mixed(text);
  return value !== null && Number.isFinite(value) ? value : null;
}

function plain(text: string): number | null {
  if (DECIMAL.test(text)) return Number(text);
  if (THOUSANDS.test(text)) return Number(text.replaceAll(/\{,\}|,/g, ''));
  const slash = FRACTION.exec(text);
  if (slash) return quotient(Number(slash[1]), Number(slash[2]));
  const latex = LATEX_FRACTION.exec(text);
  if (!latex) return null;
  const [, sign, top, bottom, digit, other] = latex;
  const value = quotient(Number(top ?? digit), Number(bottom ?? other));
  return value !== null && sign === '-' ? -value : value;
}

/** A whole number and a proper fraction behind it. */
function mixed(text: string): number | null {
  const [, sign, whole, rest] = MIXED.exec(text) ?? [];
  const part = rest === undefined ? null : plain(rest);
  if (part === null || part <= 0 || part >= 1) return null;
  return (sign === '-' ? -1 : 1) * (Number(whole) + part);
}

const quotient = (top: number, bottom: number): number | null => (bottom === 0 ? null : top / bottom);
