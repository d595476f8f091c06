/** A method in words, for people: what the judge reads for it, a row for each parameter and for each field of the input. */
import { readingsOf, readsRewards } from '../../../store/evaluate/judging/judged.ts';
import type { Method } from '../../../store/evaluate/methods/method.ts';

const READS = 'in a judging: name of a reward method before it, whose rewards it takes; null for the recorded ones';

type Schema = {
  readonly type?: string;
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema | readonly Schema[];
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, Schema>>;
};

/** What the judge reads before it runs the method with its defaults; null for a method that runs only on an input of its own. */
export const judgeReads = (method: Method): readonly string[] | null =>
  method.judged === undefined
    ? null
    : ['episodes', 'steps', ...readingsOf(method, method.params as Readonly<Record<string, unknown>>)];

/** The same as one text. */
export const judgeReadsText = (reads: readonly string[] | null): string => reads?.join(', ') ?? 'nothing: by hand only';

/** Every parameter with its default. In a judging, `reads` names the reward method whose rewards are taken in place of the recorded ones. */
export const parametersOf = (method: Method): Readonly<Record<string, unknown>> => ({
  ...(method.params as Readonly<Record<string, unknown>>),
  ...(readsRewards(method) ? { reads: null } : {}),
});

/** Name, default and what is taken of each parameter. */
export function parameterRows({ params, limits }: Pick<Method, 'params' | 'limits'>): [string, string, string][] {
  const limitOf = limits as Readonly<Record<string, Schema | undefined>> | undefined;
  return Object.entries(params as object).map(([name, value]) => [
    name,
    JSON.stringify(value),
    name === 'reads' ? READS : words(limitOf?.[name] ?? { type: typeof value }),
  ]);
}

/** Field, what is taken, and whether it may be left out. `[]` is each entry of a list, `.NAME` each name of an object. */
export function methodFields({ input }: Pick<Method, 'input'>): [string, string, string][] {
  return fieldsOf(resolved(input as Schema), '', new Set());
}

function fieldsOf(schema: Schema, at: string, seen: ReadonlySet<string>): [string, string, string][] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]): [string, string, string][] => {
    const path = at === '' ? name : `${at}.${name}`;
    const optional = schema.required?.includes(name) ? '' : 'may be left out';
    return [[path, words(field), optional], ...inside(field, path, seen)];
  });
}

/** The fields of the objects that a field holds. One that holds its like is opened once. */
function inside(field: Schema, path: string, seen: ReadonlySet<string>): [string, string, string][] {
  const schema = resolved(field);
  if (schema.properties) {
    const names = Object.keys(schema.properties).join();
    return seen.has(names) ? [] : fieldsOf(schema, path, new Set([...seen, names]));
  }
  if (schema.type === 'array' && !Array.isArray(schema.items)) return inside(schema.items as Schema, `${path}[]`, seen);
  const [named] = Object.values(schema.patternProperties ?? {});
  if (named) return inside(named, `${path}.NAME`, seen);
  return (schema.anyOf ?? []).flatMap((one) => inside(one, path, seen));
}

/** A schema that refers to itself has its parts under `$defs`. */
function resolved(schema: Schema): Schema {
  const name = schema.$ref?.split('/').at(-1);
  return (name !== undefined && schema.$defs?.[name]) || schema;
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'number',
  integer: 'whole number',
  boolean: 'true or false',
  null: 'null',
};

/** What a schema takes, such as `list of (number or null)`. */
function words(schema: Schema): string {
  const here = resolved(schema);
  if (here.const !== undefined) return JSON.stringify(here.const);
  if (here.anyOf) return [...new Set(here.anyOf.map(words))].join(' or ');
  if (Array.isArray(here.items)) return `[${here.items.map(words).join(', ')}]`;
  if (here.type === 'array') {
    const items = words(here.items as Schema);
    return `list of ${items.includes(' or ') ? `(${items})` : items}${entries(here)}`;
  }
  const [named] = Object.values(here.patternProperties ?? {});
  if (named) return `object, under each name ${words(named)}`;
  if (here.type === undefined) return here.$ref ? 'object of the same kind' : 'anything';
  return `${TYPES[here.type] ?? here.type}${bounds(here)}`;
}

function entries({ minItems = 0, maxItems }: Schema): string {
  if (maxItems !== undefined) return `, ${minItems} to ${maxItems} entries`;
  return minItems > 0 ? `, at least ${minItems}` : '';
}

function bounds({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Schema): string {
  const low =
    minimum !== undefined ? `from ${minimum}` : exclusiveMinimum !== undefined ? `above ${exclusiveMinimum}` : '';
  const high =
    maximum !== undefined ? `to ${maximum}` : exclusiveMaximum !== undefined ? `below ${exclusiveMaximum}` : '';
  return [low, high]
    .filter(Boolean)
    .map((text) => ` ${text}`)
    .join('');
}
