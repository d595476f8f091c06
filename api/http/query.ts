/** Query strings, read by the TypeBox schema that also documents them: an unknown name or a wrong value is refused, never ignored. */
import { type Static, type TObject, type TSchema, Type } from 'typebox';
import { Check } from 'typebox/value';
import { got, TroupeError } from '../../errors.ts';
import { normaliseTime } from '../../ingest/events/decode.ts';
import { needsEscape } from '../../ingest/events/text.ts';

/** Filters by tag: `tag.phase=rl`. */
const TAG = 'tag.';

export const PAGE = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 500,
      description: 'rows of the page at most, 50 if left out; a page of more than 2 MiB ends sooner',
    }),
  ),
  after: Type.Optional(Type.String({ maxLength: 4096, description: 'the `next` of the page before' })),
};
export const PAGE_SIZE = 50;

/** The query by its schema; `tags` are the values of `tag.*`, where the schema has a `tag.KEY`. Throws `usage` naming the field. */
export function readQuery<T extends TObject>(
  query: unknown,
  schema: T,
): { readonly values: Static<T>; readonly tags: Readonly<Record<string, string>> } {
  const values: Record<string, unknown> = {};
  // Without a prototype: __proto__ is a tag like any other.
  const tags = Object.create(null) as Record<string, string>;
  const names = Object.keys(schema.properties);
  for (const [name, written] of Object.entries(query as Record<string, unknown>)) {
    if (typeof written !== 'string') throw wrong(name, 'one value', written);
    if (needsEscape(name)) throw wrong(name, 'a name without U+0000', name);
    if (needsEscape(written)) throw wrong(name, 'text without U+0000', written);
    if (name.startsWith(TAG) && name.length > TAG.length && names.includes(`${TAG}KEY`)) {
      tags[name.slice(TAG.length)] = written;
      continue;
    }
    const expected = schema.properties[name] as FieldSchema;
    if (!names.includes(name) || name === `${TAG}KEY`) throw wrong(name, `one of ${names.join(', ')}`, name);
    const value = typed(expected, written);
    if (!Check(expected, value)) throw wrong(name, typeText(expected), written);
    values[name] = value;
  }
  const missing = (schema.required as readonly string[] | undefined)?.find((name) => !Object.hasOwn(values, name));
  if (missing !== undefined) throw wrong(missing, typeText(schema.properties[missing] as FieldSchema), undefined);
  return { values: values as Static<T>, tags };
}

type FieldSchema = TSchema & Record<string, unknown>;

function typed(schema: Record<string, unknown>, written: string): unknown {
  if (schema.type === 'integer' || schema.type === 'number')
    return /^-?\d+(?:\.\d+)?$/.test(written) ? Number(written) : written;
  if (schema.type === 'boolean')
    return written === 'true' || written === '1' ? true : written === 'false' || written === '0' ? false : written;
  return written;
}

function typeText({ type, minimum, maximum, enum: allowed }: Record<string, unknown>): string {
  if (Array.isArray(allowed)) return `one of ${allowed.join(', ')}`;
  if (type === 'integer') return `a whole number${minimum === undefined ? '' : ` from ${minimum} to ${maximum}`}`;
  return `a ${String(type)}`;
}

const wrong = (field: string, expected: string, value: unknown): TroupeError =>
  new TroupeError('usage', `The query parameter ${field} should be ${expected}; it is ${got(value)}.`, {
    field,
    expected,
    got: got(value),
  });

/** An id of a path. Throws `usage` for one that nothing can have. */
export function readId(written: string): string {
  if (written !== '' && !needsEscape(written)) return written;
  throw wrong('id', 'a text without U+0000', written);
}

/** The time of rows without one, in the order of a list. */
export const UNKNOWN_TIME = '-infinity';

/** A place in a list: the time (UTC, or {@link UNKNOWN_TIME}) and the id of the last row seen. */
export type Place = { readonly at: string; readonly id: string };

export const writeCursor = ({ at, id }: Place): string => Buffer.from(JSON.stringify([at, id])).toString('base64url');

/** Throws `usage` for a cursor that no page gave. */
export function readCursor(text: string): Place {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    if (Array.isArray(value) && value.length === 2) {
      const [at, id] = value as unknown[];
      const time = at === UNKNOWN_TIME ? at : normaliseTime(at);
      if (time !== undefined && typeof id === 'string' && !needsEscape(id)) return { at: time, id };
    }
  } catch {
    // Reported below.
  }
  throw wrong('after', 'the `next` of an earlier page', text);
}
