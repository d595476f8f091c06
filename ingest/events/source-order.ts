/**
 * What canonical JSON loses of a value, beside it as a text: the order of members and the spelling of numbers. The log keeps a span as
 * canonical JSON, and the arguments of the calls in it are learnt as they were sent.
 */
import { parseOwn, spellingIn } from './spelling.ts';

/**
 * For each object and list, in the order of canonical JSON, one part: of an object the places that its members have there, of either the
 * numbers that are spelled otherwise (`2,0=1.0;;1=1e3`). Empty where canonical JSON loses nothing.
 */
export function orderOf(value: unknown): string {
  const parts: string[] = [];
  const walk = (one: unknown): void => {
    if (typeof one !== 'object' || one === null) return;
    const spelling = spellingIn(one);
    const numbers = [...(spelling?.numbers ?? [])];
    if (Array.isArray(one)) {
      parts.push(numbers.map(([place, written]) => `${place}=${written}`).join(','));
      for (const item of one) walk(item);
      return;
    }
    const record = one as Record<string, unknown>;
    const sorted = Object.keys(record).sort();
    const places = new Map(sorted.map((key, place) => [key, place]));
    const keys = spelling?.keys ?? Object.keys(record);
    const isPlain = numbers.length === 0 && keys.every((key, place) => sorted[place] === key);
    const place = (key: string): string => {
      const written = spelling?.numbers.get(key);
      return `${places.get(key)}${written === undefined ? '' : `=${written}`}`;
    };
    parts.push(isPlain ? '' : keys.map(place).join(','));
    for (const key of sorted) walk(record[key]);
  };
  walk(value);
  return parts.join(';').replace(/;+$/, '');
}

/** The value with the order and the numbers that {@link orderOf} wrote of it; the value itself where the text is of another. */
export function inOrderOf(value: unknown, order: string): unknown {
  const parts = order.split(';');
  let next = 0;
  const write = (one: unknown): string => {
    if (typeof one !== 'object' || one === null) return JSON.stringify(one);
    const part = parts[next++] ?? '';
    const named = part === '' ? [] : part.split(',').map((text) => text.split('='));
    if (Array.isArray(one)) {
      const numbers = new Map(named.map(([place, written]) => [Number(place), written]));
      return `[${one.map((item, place) => spelled(item, write(item), numbers.get(place))).join(',')}]`;
    }
    const record = one as Record<string, unknown>;
    const sorted = Object.keys(record).sort();
    const texts = sorted.map((key) => write(record[key]));
    const places = part === '' ? sorted.map((_, place) => [String(place)]) : named;
    if (new Set(places.map(([place]) => sorted[Number(place)])).size !== sorted.length) throw new Foreign();
    return `{${places.map(([place, written]) => member(sorted, texts, record, Number(place), written)).join(',')}}`;
  };
  try {
    return parseOwn(write(value));
  } catch (error) {
    if (error instanceof Foreign || error instanceof SyntaxError) return value;
    throw error;
  }
}

/** The text says the order of another value. */
class Foreign extends Error {}

function member(
  keys: readonly string[],
  texts: readonly string[],
  record: Readonly<Record<string, unknown>>,
  place: number,
  written: string | undefined,
): string {
  const key = keys[place];
  if (key === undefined) throw new Foreign();
  return `${JSON.stringify(key)}:${spelled(record[key], texts[place]!, written)}`;
}

/** The number as it was spelled, if it is that number still. */
function spelled(value: unknown, text: string, written: string | undefined): string {
  if (written === undefined) return text;
  const isSame = typeof value === 'number' ? Number(written) === value : value === written;
  if (!isSame || !/^-?\d[\d.eE+-]*$/.test(written)) throw new Foreign();
  return written;
}
