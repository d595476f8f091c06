/** Query strings, read by the TypeBox schema that also documents them: an unknown name or a wrong value is refused, never ignored. */
import type { Static, TObject } from 'typebox';
import { read } from '../../document.ts';
import { got, TroupeError } from '../../errors.ts';
import { needsEscape } from '../../ingest/events/text.ts';

/** The query by its schema. Throws `usage` naming the field. */
export const readQuery = <T extends TObject>(query: unknown, schema: T): Static<T> =>
  read({ ...schema, additionalProperties: false }, queryValues(query, schema), { called: 'The query' });

/** The values of a query, of the types that its schema has where they can be; one of a map is written `tag.phase=rl`. */
export function queryValues(query: unknown, { properties }: TObject): Readonly<Record<string, unknown>> {
  // Without prototypes: __proto__ is a name like any other.
  const values = Object.create(null) as Record<string, unknown>;
  for (const [name, written] of Object.entries(query as Record<string, unknown>)) {
    if (typeof written !== 'string') throw wrong(name, 'one value', written);
    if (needsEscape(name)) throw wrong(name, 'a name without U+0000', name);
    if (needsEscape(written)) throw wrong(name, 'text without U+0000', written);
    const [, map = '', key = ''] = /^([^.]+)\.(.+)$/s.exec(name) ?? [];
    if (Object.hasOwn(properties, map) && isMap(properties[map]!)) {
      values[map] ??= Object.create(null);
      (values[map] as Record<string, string>)[key] = written;
    } else values[name] = Object.hasOwn(properties, name) ? typed(properties[name]!, written) : written;
  }
  return { ...values };
}

const isMap = (schema: object): boolean => 'patternProperties' in schema;

/** How a field is written in a query string. */
export const queryName = (name: string, { properties }: TObject): string =>
  isMap(properties[name]!) ? `${name}.KEY` : name;

function typed({ type }: { readonly type?: unknown }, written: string): unknown {
  if (type === 'integer' || type === 'number') return /^-?\d+(?:\.\d+)?$/.test(written) ? Number(written) : written;
  if (type !== 'boolean') return written;
  return written === 'true' || written === '1' ? true : written === 'false' || written === '0' ? false : written;
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
