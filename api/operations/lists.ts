/** Lists: how many rows there are, in which order, and one page of them, which costs the same however deep it is. */
import { type TObject, Type } from 'typebox';
import { got, TroupeError } from '../../errors.ts';
import { asText } from '../../ingest/events/json.ts';
import { needsEscape } from '../../ingest/events/text.ts';
import { defaulted, written } from './operation.ts';

/** The fields that every list takes; the first of `sort` is the order where none is given, and `-name` is from the last. */
export const listInput = (sort: readonly [string, ...string[]], limit = 50) => ({
  sort: defaulted(
    Type.Enum([...new Set(sort.flatMap((name) => [name, name.startsWith('-') ? name.slice(1) : `-${name}`]))], {
      description: 'the order; -name is from the last',
    }),
    sort[0],
  ),
  limit: defaulted(Type.Integer({ minimum: 1, maximum: 500, description: 'maximum number of rows' }), limit),
  after: Type.Optional(Type.String({ maxLength: 4096, description: 'the `next` of the page before' })),
});

/** The grammar of recipes over the fields of a list. */
export const filter = Type.Optional(
  written(
    Type.String({
      maxLength: 8192,
      description: 'only these: a filter as in a recipe, such as reward >= 0.5 and tags.phase = rl',
    }),
    { flag: 'where' },
  ),
);

/** One page of a list. */
export const listOf = <R extends TObject>(row: R) =>
  Type.Object({
    items: Type.Array(row),
    total: Type.Integer({ description: 'rows of all pages' }),
    next: Type.Union([Type.String(), Type.Null()], {
      description: 'pass it as `after` for the next page; null on the last',
    }),
    warnings: Type.Optional(Type.Array(Type.String(), { description: 'a sentence on each thing to look at' })),
  });

export type PageRequest = { readonly sort: string; readonly limit: number; readonly after?: string | undefined };
export type Page<R> = { readonly items: readonly R[]; readonly total: number; readonly next: string | null };
export type Place = { readonly value: string; readonly id: string };

/** One page of rows that are all there; `id` is the field that no two share. */
export function pageOf<R extends Readonly<Record<string, unknown>>>(
  rows: readonly R[],
  id: keyof R,
  { sort, limit, after }: PageRequest,
): Page<R> {
  const [name, sign] = sort.startsWith('-') ? [sort.slice(1), -1] : [sort, 1];
  const placeOf = (row: R): Place => ({ value: sortable(row[name]), id: sortable(row[id]) });
  const order = (a: Place, b: Place) => sign * (compare(a.value, b.value) || compare(a.id, b.id));
  const sorted = rows.toSorted((a, b) => order(placeOf(a), placeOf(b)));
  const place = after === undefined ? null : readCursor(after);
  const left = place === null ? sorted : sorted.filter((row) => order(placeOf(row), place) > 0);
  const items = left.slice(0, limit);
  return { items, total: rows.length, next: left.length > limit ? writeCursor(placeOf(items.at(-1)!)) : null };
}

/** Texts in the order of the values; numbers count something. */
const sortable = (value: unknown): string =>
  typeof value === 'number' ? String(value).padStart(20, '0') : asText(value ?? '');

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

export const writeCursor = ({ value, id }: Place): string =>
  Buffer.from(JSON.stringify([value, id])).toString('base64url');

export function readCursor(text: string): Place {
  try {
    const place: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    if (
      Array.isArray(place) &&
      place.length === 2 &&
      place.every((one) => typeof one === 'string' && !needsEscape(one))
    )
      return { value: place[0], id: place[1] };
  } catch {
    // Reported below.
  }
  throw wrongCursor(text);
}

export const wrongCursor = (text: string): TroupeError =>
  new TroupeError('usage', `after should be the next of an earlier page, but it is ${got(text)}.`, {
    field: 'after',
    expected: 'the `next` of an earlier page',
    got: got(text),
  });
