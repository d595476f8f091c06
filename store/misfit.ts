/** What is wrong with a value that a person wrote, where a JSON Schema refuses it: where, what was expected, what came. Pure. */
import { got } from '../errors.ts';
import { isRecord } from '../ingest/events/json.ts';
import { nearest } from '../nearest.ts';

export type SchemaError = {
  readonly keyword: string;
  readonly schemaPath: string;
  readonly instancePath: string;
  readonly params: object;
  readonly message: string;
};

export type Misfit = {
  /** Its path, with dots; empty for the value itself. */
  readonly field: string;
  /** A sentence. */
  readonly message: string;
  readonly expected: string;
  readonly got: string;
};

/**
 * The deepest of the errors: of a union the alternatives complain too.
 * @param errors of TypeBox, about `value`
 * @param what the value is called, such as "The plan"
 */
export function misfitOf(schema: object, errors: readonly SchemaError[], value: unknown, what: string): Misfit {
  const error = [...errors].sort((a, b) => b.instancePath.split('/').length - a.instancePath.split('/').length)[0];
  const path = partsOf(error?.instancePath ?? '');
  const field = path.join('.');
  const came = got(at(value, path));
  if (error?.keyword === 'boolean') {
    const name = path.at(-1)!;
    const of = path.slice(0, -1).join('.');
    const around = at(schema, partsOf(error.schemaPath).slice(0, -1));
    const known = isRecord(around) && isRecord(around.properties) ? Object.keys(around.properties) : [];
    const meant = nearest(name, known);
    return {
      field,
      message: `${of || what} has no ${got(name)}. ${meant === null ? `It has ${known.join(', ')}.` : `Did you mean ${meant}?`}`,
      expected: `one of ${known.join(', ')}`,
      got: got(name),
    };
  }
  const expected = expectedBy(error);
  const { allowedValues } = (error?.params ?? {}) as Readonly<Record<string, unknown>>;
  const meant = Array.isArray(allowedValues) ? meantBy(at(value, path), allowedValues.map(String)) : '';
  return { field, message: `${field || what} should ${expected}, but it is ${came}.${meant}`, expected, got: came };
}

/** The question after a sentence that refuses a name: the nearest of those that there are, or nothing. Pure. */
export function meantBy(name: unknown, known: readonly string[]): string {
  const meant = typeof name === 'string' ? nearest(name, known) : null;
  return meant === null ? '' : ` Did you mean ${meant}?`;
}

/** What belongs after "should". */
function expectedBy(error: SchemaError | undefined): string {
  const { allowedValues, requiredProperties, type } = (error?.params ?? {}) as Readonly<Record<string, unknown>>;
  if (Array.isArray(allowedValues)) return `be one of ${allowedValues.join(', ')}`;
  if (Array.isArray(requiredProperties)) return `have ${requiredProperties.join(', ')}`;
  if (typeof type === 'string') return `be ${TYPES[type] ?? type}`;
  return (error?.message ?? 'fit its schema').replace(/^must /, '').replace('be >= ', 'be at least ');
}

const TYPES: Readonly<Record<string, string>> = {
  array: 'a list',
  boolean: 'true or false',
  integer: 'a whole number',
  null: 'null',
  number: 'a number',
  object: 'a map of names to values',
  string: 'a text',
};

const partsOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));

const at = (value: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((inner, key) => (inner as Record<string, unknown> | undefined)?.[key], value);
