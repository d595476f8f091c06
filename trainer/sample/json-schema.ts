/**
 * The part of JSON Schema that sampling can enforce, as a grammar of JSON texts. Objects have their properties in the order of the schema,
 * and no others. Pure.
 */
import { got, TroupeError } from '../../errors.ts';
import { isRecord, type JsonObject } from '../../ingest/events/json.ts';

/** Which texts are allowed: text stands for itself, `space` is one space or none. */
export type Grammar =
  | { readonly kind: 'texts'; readonly texts: readonly string[] }
  | { readonly kind: 'string' }
  | { readonly kind: 'number'; readonly integer: boolean }
  | { readonly kind: 'sequence'; readonly parts: readonly (string | Grammar)[] }
  | { readonly kind: 'array'; readonly items: Grammar; readonly least: number; readonly most: number }
  /** Members of any names. */
  | { readonly kind: 'object'; readonly values: Grammar }
  /** An object of these members, in this order; `key` is the name as JSON. */
  | { readonly kind: 'properties'; readonly members: readonly GrammarMember[] }
  | { readonly kind: 'any of'; readonly options: readonly Grammar[] }
  | { readonly kind: 'defined'; readonly grammar: () => Grammar };

type GrammarMember = { readonly key: string; readonly grammar: Grammar; readonly required: boolean };

/** A space that may be there. */
export const SPACE = ' ';

/** Any JSON value. */
const ANY: Grammar = {
  kind: 'any of',
  options: [
    { kind: 'string' },
    { kind: 'number', integer: false },
    { kind: 'texts', texts: ['true', 'false', 'null'] },
    {
      kind: 'object',
      get values() {
        return ANY;
      },
    },
    {
      kind: 'array',
      get items() {
        return ANY;
      },
      least: 0,
      most: Number.POSITIVE_INFINITY,
    },
  ],
};

type Root = {
  readonly schema: unknown;
  readonly known: Map<string, Grammar | null>;
  /** Looked at once all of the schema is read. */
  readonly later: (() => void)[];
};

/** Keywords that say nothing about which texts are valid. */
const NOTES = [
  ...[
    'title',
    'description',
    'default',
    'examples',
    'deprecated',
    'readOnly',
    'writeOnly',
    '$schema',
    '$id',
    '$comment',
  ],
  ...['$defs', 'definitions', 'discriminator'],
];
const TYPES = ['string', 'number', 'integer', 'boolean', 'null', 'array', 'object'] as const;
type TypeName = (typeof TYPES)[number];

/**
 * The grammar of a schema. `field` names it in errors.
 * @throws TroupeError `input_refused` naming the first keyword that cannot be enforced.
 */
export function grammarOf(field: string, schema: unknown): Grammar {
  const root: Root = { schema, known: new Map(), later: [] };
  const grammar = read(field, schema, root);
  for (const check of root.later) check();
  return grammar;
}

function read(field: string, schema: unknown, root: Root): Grammar {
  if (schema === true) return ANY;
  if (!isRecord(schema)) throw refuse(field, 'a JSON Schema', schema);
  if ('$ref' in schema) {
    only(field, schema, ['$ref']);
    return defined(`${field}.$ref`, schema.$ref, root);
  }
  for (const word of ['anyOf', 'oneOf', 'allOf'] as const) {
    if (!(word in schema)) continue;
    only(field, schema, [word]);
    const { [word]: list } = schema;
    if (!Array.isArray(list) || list.length === 0) throw refuse(`${field}.${word}`, 'a list of schemas', list);
    if (word === 'allOf' && list.length > 1) throw refuse(`${field}.allOf`, 'one schema', list);
    const options = list.map((one, i) => read(`${field}.${word}[${i}]`, one, root));
    if (word === 'oneOf') root.later.push(() => exclude(`${field}.oneOf`, options, list));
    return options.length === 1 ? options[0]! : { kind: 'any of', options };
  }
  const types = typesOf(`${field}.type`, schema.type) ?? impliedBy(schema);
  if ('const' in schema || 'enum' in schema) {
    only(field, schema, ['type', 'const', 'enum']);
    return fixed(field, schema, types);
  }
  if (types === null) {
    only(field, schema, []);
    return ANY;
  }
  only(field, schema, types.flatMap((type) => KEYWORDS[type]).concat('type'));
  const options = types.map((type) => ofType(field, type, schema, root));
  return options.length === 1 ? options[0]! : { kind: 'any of', options };
}

const KEYWORDS: Readonly<Record<TypeName, readonly string[]>> = {
  string: [],
  number: [],
  integer: [],
  boolean: [],
  null: [],
  array: ['items', 'minItems', 'maxItems'],
  object: ['properties', 'required', 'additionalProperties'],
};

function ofType(field: string, type: TypeName, schema: JsonObject, root: Root): Grammar {
  if (type === 'string') return { kind: 'string' };
  if (type === 'number' || type === 'integer') return { kind: 'number', integer: type === 'integer' };
  if (type === 'boolean') return { kind: 'texts', texts: ['true', 'false'] };
  if (type === 'null') return { kind: 'texts', texts: ['null'] };
  return type === 'array' ? list(field, schema, root) : object(field, schema, root);
}

function list(field: string, { items = true, minItems, maxItems }: JsonObject, root: Root): Grammar {
  const count = (name: string, value: unknown, without: number): number => {
    if (value === undefined) return without;
    if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
    throw refuse(`${field}.${name}`, 'a whole number from 0', value);
  };
  const [least, most] = [count('minItems', minItems, 0), count('maxItems', maxItems, Number.POSITIVE_INFINITY)];
  if (least > most) throw refuse(`${field}.maxItems`, `at least minItems, ${least}`, maxItems);
  return { kind: 'array', items: read(`${field}.items`, items, root), least, most };
}

/** Keywords of one type, where the type is left out: a value of another type would be valid too. */
const impliedBy = (schema: JsonObject): readonly TypeName[] | null =>
  'properties' in schema ? ['object'] : 'items' in schema ? ['array'] : null;

function object(field: string, schema: JsonObject, root: Root): Grammar {
  const { properties, required = [], additionalProperties: more = true } = schema;
  if (!(properties === undefined || isRecord(properties))) throw refuse(`${field}.properties`, 'an object', properties);
  const entries = Object.entries(properties ?? {});
  if (!Array.isArray(required)) throw refuse(`${field}.required`, 'a list of names', required);
  const unknown = required.find((name) => !entries.some(([other]) => other === name));
  if (unknown !== undefined) throw refuse(`${field}.required`, 'names of properties', unknown);
  const values = more === false ? null : read(`${field}.additionalProperties`, more, root);
  if (entries.length === 0 && values !== null) return { kind: 'object', values };
  const members = entries.map(([name, one]): GrammarMember => {
    const grammar = read(`${field}.properties.${name}`, one, root);
    return { key: JSON.stringify(name), grammar, required: required.includes(name) };
  });
  return { kind: 'properties', members };
}

function fixed(field: string, schema: JsonObject, types: readonly TypeName[] | null): Grammar {
  if ('enum' in schema && !Array.isArray(schema.enum)) throw refuse(`${field}.enum`, 'a list of values', schema.enum);
  const values = 'const' in schema ? [schema.const] : (schema.enum as unknown[]);
  const texts = values
    .filter((value) => types === null || types.some((type) => isOf(value, type)))
    .map((value) => JSON.stringify(value));
  if (texts.length === 0) throw refuse(`${field}.enum`, 'at least one value of its type', schema.enum);
  return { kind: 'texts', texts };
}

function isOf(value: unknown, type: TypeName): boolean {
  if (type === 'null') return value === null;
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'array') return Array.isArray(value);
  return type === 'object' ? isRecord(value) : typeof value === type;
}

/** A part of the schema that others refer to. It may contain itself, but not begin with itself. */
function defined(field: string, pointer: unknown, root: Root): Grammar {
  const names = typeof pointer === 'string' && pointer.startsWith('#') ? pointer.slice(1).split('/').slice(1) : null;
  const at = (from: unknown, name: string) =>
    isRecord(from) ? from[name.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined;
  const schema = names?.reduce(at, root.schema);
  if (schema === undefined) throw refuse(field, 'such as #/$defs/NAME, and there', pointer);
  const name = pointer as string;
  if (!root.known.has(name)) {
    root.known.set(name, null);
    root.known.set(name, read(name, schema, root));
  }
  const grammar = () => root.known.get(name) as Grammar;
  if (grammar() !== null && beginsWithItself(grammar()))
    throw refuse(field, 'a schema that does not begin with itself', pointer);
  return { kind: 'defined', grammar };
}

function beginsWithItself(grammar: Grammar, seen: ReadonlySet<Grammar> = new Set()): boolean {
  if (seen.has(grammar)) return true;
  const more = new Set([...seen, grammar]);
  if (grammar.kind === 'any of') return grammar.options.some((one) => one !== null && beginsWithItself(one, more));
  if (grammar.kind !== 'defined') return false;
  const inner = grammar.grammar();
  return inner !== null && beginsWithItself(inner, more);
}

/** Throws where a value of one option may be one of another: sampling would not know that it is of one only. */
function exclude(field: string, options: readonly Grammar[], schemas: readonly unknown[]): void {
  for (const [i, one] of options.entries()) {
    const other = options.findIndex((before, k) => k < i && !(neverIn(one, before) && neverIn(before, one)));
    if (other >= 0)
      throw refuse(
        `${field}[${i}]`,
        `a schema of which no value is one of ${field}[${other}]`,
        schemas[i],
        'Give each object a required property with another const, or use anyOf.',
      );
  }
}

/** Whether no text of a grammar is valid by the schema of another. What is not clear counts as valid. */
function neverIn(one: Grammar, other: Grammar, depth = 0): boolean {
  if (depth > MOST_DEPTH) return false;
  const within = (a: Grammar, b: Grammar): boolean => neverIn(a, b, depth + 1);
  if (one.kind === 'defined') return within(one.grammar(), other);
  if (other.kind === 'defined') return within(one, other.grammar());
  if (one.kind === 'any of') return one.options.every((option) => within(option, other));
  if (other.kind === 'any of') return other.options.every((option) => within(one, option));
  if (one.kind === 'texts' && other.kind === 'texts') return !one.texts.some((text) => other.texts.includes(text));
  if (one.kind === 'properties' && other.kind === 'properties')
    return other.members.some(({ key, grammar, required }) => {
      const own = one.members.find((member) => member.key === key);
      return own === undefined ? required : own.required && within(own.grammar, grammar);
    });
  const types = typesIn(one);
  return !typesIn(other).some((type) => types.includes(type));
}

/** Deeper definitions within each other are not looked into. */
const MOST_DEPTH = 16;

/** By what a text of each type begins. */
const TYPE_OF: Readonly<Record<string, string>> = {
  '"': 'string',
  '{': 'object',
  '[': 'array',
  t: 'true',
  f: 'false',
  n: 'null',
};

function typesIn(grammar: Grammar): readonly string[] {
  if (grammar.kind === 'texts') return grammar.texts.map((text) => TYPE_OF[text[0]!] ?? 'number');
  return [grammar.kind === 'properties' ? 'object' : grammar.kind];
}

function typesOf(field: string, type: unknown): readonly TypeName[] | null {
  if (type === undefined) return null;
  const names = Array.isArray(type) ? type : [type];
  if (names.length > 0 && names.every((name) => TYPES.includes(name))) return [...new Set(names)];
  throw refuse(field, `one or more of ${TYPES.join(', ')}`, type);
}

function only(field: string, schema: JsonObject, known: readonly string[]): void {
  const other = Object.keys(schema).find((name) => !known.includes(name) && !NOTES.includes(name));
  if (other === undefined) return;
  throw refuse(`${field}.${other}`, 'left out', schema[other], 'Sampling cannot enforce it.');
}

const refuse = (field: string, expected: string, value: unknown, hint?: string): TroupeError =>
  new TroupeError('input_refused', `${field} should be ${expected}; it is ${got(value)}.`, {
    field,
    expected,
    got: got(value),
    ...(hint === undefined ? {} : { hint }),
  });
