/**
 * Reads a value that a person or a program wrote (a plan, a recipe, a schedule, the body of a request) by the JSON Schema (TypeBox) that
 * also documents it. What does not fit is one sentence: the path, what was expected, what came, and the name that was probably meant.
 */
import type { Static, TSchema } from 'typebox';
import { Check, Errors } from 'typebox/value';
import { type ErrorCode, got, TroupeError } from './errors.ts';
import { nearest } from './nearest.ts';

/** Keywords of ours beside those of JSON Schema. */
export type Keywords = {
  /** Reads a value that has its own language, such as a filter, and throws what is wrong with it. Nothing else is checked of such a value. */
  readonly reads?: (value: unknown, path: string) => void;
  /** Whether a value of the right type fits, where JSON Schema cannot say it; beside `expects`. */
  readonly fits?: (value: never) => boolean;
  /** What a value should be, in place of what its schema says of it and of its parts; of a union, where no alternative knows any of its names. */
  readonly expects?: string;
  /** The value may hold a secret, and is not shown. */
  readonly secret?: boolean;
  /** Names that people may expect here, each with the rest of a sentence that says why it has no place. */
  readonly refuses?: Readonly<Record<string, string>>;
};

type Reading = {
  /** The whole value at the beginning of a sentence, such as `A plan`. */
  readonly called: string;
  /** The path of the value, where it is a part of something. */
  readonly at?: string;
  /** `usage` if left out. */
  readonly code?: ErrorCode;
  /** What the sentence begins with, such as `The body does not fit: `. */
  readonly before?: string;
};

/**
 * The value, where it fits.
 * @throws TroupeError with the path of the first thing that does not fit, and whatever a `reads` of the schema throws
 */
export function read<T extends TSchema>(
  schema: T,
  value: unknown,
  { called, at, code = 'usage', before = '' }: Reading,
): Static<T> {
  const found = misfitOf(schema, value, called, at);
  if (found === null) return value as Static<T>;
  const { field, message, expected, got: came } = found;
  throw new TroupeError(code, `${before}${message}`, { ...(field === '' ? {} : { field }), expected, got: came });
}

/** What does not fit, without throwing it; null where the value fits. */
export const misfitOf = (schema: TSchema, value: unknown, called: string, at?: string): Misfit | null =>
  misfitAt(schema as Schema, value, { path: at === undefined ? [] : [at], called });

/** The question after a sentence that refuses a name: the nearest of those that there are, or nothing. Pure. */
export function meantBy(name: unknown, known: readonly string[]): string {
  const meant = typeof name === 'string' ? nearest(name, known) : null;
  return meant === null ? '' : ` Did you mean ${meant}?`;
}

type Misfit = {
  /** Its path, with dots; empty for the value itself. */
  readonly field: string;
  /** A sentence. */
  readonly message: string;
  readonly expected: string;
  readonly got: string;
};

type Schema = Keywords & {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema | readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: unknown;
};
type Members = Readonly<Record<string, unknown>>;

type Place = { readonly path: readonly (string | number)[]; readonly called: string };

/** The first thing that does not fit: of an object its names before its values, of a union what its nearest alternative lacks. */
function misfitAt(schema: Schema, value: unknown, place: Place): Misfit | null {
  if (schema.reads !== undefined) {
    schema.reads(value, place.path.join('.'));
    return null;
  }
  if (!isWalked(schema) && Check(schema as unknown as TSchema, value)) return null;
  if (schema.anyOf !== undefined) return misfitOfUnion(schema, value, place);
  if (schema.expects !== undefined) return unexpected(schema, value, place);
  const { properties, patternProperties, items } = schema;
  const inside = (key: string | number, of: Schema, it: unknown): Misfit | null =>
    misfitAt(of, it, { ...place, path: [...place.path, key] });
  if (isMembers(value) && (properties ?? patternProperties) !== undefined)
    return (
      misnamed(schema, value, place) ??
      first(given(value), ([name, it]) => inside(name, schemaOf(schema, name), it)) ??
      own(schema, value, place)
    );
  if (Array.isArray(value) && items !== undefined && !Array.isArray(items))
    return first([...value.entries()], ([i, it]) => inside(i, items as Schema, it)) ?? own(schema, value, place);
  return own(schema, value, place);
}

/** Of `Type.Record(Type.String(), …)`. */
const ANY_NAME = '^.*$';
const WALKED = new WeakMap<Schema, boolean>();

/** Whether it says more than JSON Schema checks: `reads`, `fits`, or of names, which pass there where they do not match (a line break in any). */
function isWalked(schema: Schema): boolean {
  const known = WALKED.get(schema);
  if (known !== undefined) return known;
  const { properties = {}, patternProperties = {}, anyOf = [], items = [] } = schema;
  const parts = [...Object.values(properties), ...Object.values(patternProperties), ...anyOf, items].flat() as Schema[];
  const named = Object.keys(patternProperties).length > 0;
  const found = schema.reads !== undefined || schema.fits !== undefined || named || parts.some(isWalked);
  WALKED.set(schema, found);
  return found;
}

const mayBeNamed = (pattern: string, name: string): boolean =>
  pattern === ANY_NAME || new RegExp(pattern, 'u').test(name);

/** What is known of the value of a name; nothing where it may have any. */
const schemaOf = ({ properties = {}, patternProperties = {} }: Schema, name: string): Schema =>
  Object.hasOwn(properties, name)
    ? properties[name]!
    : (Object.entries(patternProperties).find(([pattern]) => mayBeNamed(pattern, name))?.[1] ?? {});

function misnamed(schema: Schema, value: Members, place: Place): Misfit | null {
  const { properties, patternProperties = {}, additionalProperties, required = [], refuses = {} } = schema;
  const known = Object.keys(properties ?? {});
  for (const [name] of given(value)) {
    if (known.includes(name)) continue;
    const field = [...place.path, name].join('.');
    if (Object.hasOwn(refuses, name))
      return { field, message: `${field} ${refuses[name]}`, expected: 'nothing', got: got(name) };
    if (properties === undefined) {
      const [pattern] = Object.keys(patternProperties);
      if (mayBeNamed(pattern!, name)) continue;
      const expected = `a name that matches ${pattern}`;
      return {
        field,
        message: `${got(name)} cannot be a name in ${whole(place)}: it should match ${pattern}.`,
        expected,
        got: got(name),
      };
    }
    if (additionalProperties !== false) continue;
    const meant = meantBy(name, known) || ` It has ${known.join(', ')}.`;
    return {
      field,
      message: `${whole(place)} has no ${got(name)}.${meant}`,
      expected: `one of ${known.join(', ')}`,
      got: got(name),
    };
  }
  const missing = required.filter((name) => value[name] === undefined);
  if (missing.length === 0) return null;
  for (const name of missing) {
    const { expects } = properties?.[name] ?? {};
    if (expects !== undefined) return should({ ...place, path: [...place.path, name] }, `be ${expects}`, undefined);
  }
  return should(place, `have ${missing.join(', ')}`, shownParts(schema, value));
}

const shownParts = ({ properties = {} }: Schema, value: Members): Members =>
  Object.fromEntries(Object.entries(value).map(([name, it]) => [name, properties[name]?.secret ? '***' : it]));

/** A union is read by its tags, the names whose values are fixed; one without tags by the alternative that knows the most names. */
function misfitOfUnion({ anyOf: alternatives = [], expects }: Schema, value: unknown, place: Place): Misfit | null {
  const typed = alternatives.filter((one) => fitsType(one, value));
  if (!isMembers(value) || typed.every((one) => one.properties === undefined)) {
    const found = typed.map((one) => misfitAt(one, value, place));
    if (found.includes(null)) return null;
    if (found.length > 0 && expects === undefined) return found.at(-1)!;
    return should(place, `be ${expects ?? [...new Set(alternatives.map(nameOf))].join(' or ')}`, value);
  }
  const tagged = typed.filter((one) => tagsOf(one).every((tag) => hasTag(one, value, tag)));
  const names = given(value).map(([name]) => name);
  const knows = ({ properties = {} }: Schema, name: string): boolean => Object.hasOwn(properties, name);
  const known = (one: Schema): number => names.filter((name) => knows(one, name)).length;
  if (tagged.some((one) => fits(one, value, place))) return null;
  if (tagged.length > 0) {
    const best = tagged.reduce((a, b) => (known(b) > known(a) ? b : a));
    const isMixed = names.some((name) => !knows(best, name) && typed.some((one) => knows(one, name)));
    if (expects !== undefined && (isMixed || known(best) === 0))
      return should(place, `be ${expects}`, names.join(', '));
    return misfitAt(best, value, place);
  }
  // No alternative has all the tags: the one to blame is that which, if it were right, leaves the most alternatives.
  let blamed: Misfit | null = null;
  let most = 0;
  for (const name of new Set(typed.flatMap((one) => tagsOf(one).map(([tag]) => tag)))) {
    const others = typed.filter((one) => tagsOf(one).every((tag) => tag[0] === name || hasTag(one, value, tag)));
    const tags = others.flatMap((one) => tagsOf(one).flatMap(([tag, is]) => (tag === name ? [is] : [])));
    if (tags.length <= most) continue;
    most = tags.length;
    blamed = shouldBeOneOf({ ...place, path: [...place.path, name] }, tags, value[name]);
  }
  return blamed ?? misfitAt(typed[0]!, value, place);
}

/** Whether an alternative fits, where `reads` throws for what does not. */
function fits(schema: Schema, value: unknown, place: Place): boolean {
  try {
    return misfitAt(schema, value, place) === null;
  } catch (error) {
    if (error instanceof TroupeError) return false;
    throw error;
  }
}

type Tag = readonly [name: string, is: unknown];
const tagsOf = ({ properties = {} }: Schema): readonly Tag[] =>
  Object.entries(properties).flatMap(([name, of]) => ('const' in of ? [[name, of.const] as const] : []));

const hasTag = ({ required = [] }: Schema, value: Members, [name, is]: Tag): boolean =>
  value[name] === undefined ? !required.includes(name) : value[name] === is;

function fitsType({ anyOf, type, reads, ...rest }: Schema, value: unknown): boolean {
  if (anyOf !== undefined) return anyOf.some((one) => fitsType(one, value));
  if ('const' in rest || rest.enum !== undefined) return typeof value === typeof (rest.const ?? rest.enum?.[0]);
  return type === undefined || Check({ type } as unknown as TSchema, value);
}

/** Of a value and its parts together. */
function unexpected({ expects, fits, secret, ...schema }: Schema, value: unknown, place: Place): Misfit | null {
  if (Check(schema as unknown as TSchema, value) && (fits === undefined || fits(value as never))) return null;
  return should(place, `be ${expects}`, secret ? '***' : value);
}

/** Of the value itself: what it holds was looked at. */
function own(schema: Schema, value: unknown, place: Place): Misfit | null {
  const { properties, patternProperties, required: _, additionalProperties: __, ...others } = schema;
  const { items, ...alone } = others;
  const itself = (Array.isArray(items) ? others : alone) as unknown as TSchema;
  if (Check(itself, value)) return null;
  if (schema.enum !== undefined) return shouldBeOneOf(place, schema.enum, value);
  if ('const' in schema) return shouldBeOneOf(place, [schema.const], value);
  const { keyword, message } = Errors(itself, value)[0] ?? { keyword: '', message: 'fit its schema' };
  if (keyword === 'type') return should(place, `be ${nameOf(schema)}`, value);
  return should(
    place,
    message
      .replace(/^must /, '')
      .replace(/^be >= /, 'be at least ')
      .replace(/^be <= /, 'be at most '),
    value,
  );
}

const first = <T>(items: readonly T[], of: (item: T) => Misfit | null): Misfit | null => {
  for (const item of items) {
    const found = of(item);
    if (found !== null) return found;
  }
  return null;
};

const TYPES: Readonly<Record<string, string>> = {
  array: 'a list',
  boolean: 'true or false',
  integer: 'a whole number',
  null: 'null',
  number: 'a number',
  object: 'a map of names to values',
  string: 'a text',
};
const nameOf = ({ type = '', anyOf, ...rest }: Schema): string =>
  anyOf !== undefined
    ? anyOf.map(nameOf).join(' or ')
    : 'const' in rest
      ? String(rest.const)
      : rest.enum !== undefined
        ? rest.enum.join(' or ')
        : (TYPES[type] ?? type);

const whole = ({ path, called }: Place): string => path.join('.') || called;

const should = (place: Place, expected: string, value: unknown): Misfit => ({
  field: place.path.join('.'),
  message: `${whole(place)} should ${expected}, but it is ${got(value)}.`,
  expected,
  got: got(value),
});

function shouldBeOneOf(place: Place, known: readonly unknown[], value: unknown): Misfit {
  const names = known.map(String);
  const found = should(place, `be one of ${names.join(', ')}`, value);
  return { ...found, message: found.message + meantBy(value, names) };
}

/** A member without a value is none, as in JSON. */
const given = (value: Members): readonly (readonly [string, unknown])[] =>
  Object.entries(value).filter(([, it]) => it !== undefined);

const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
