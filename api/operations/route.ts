/** The HTTP route of an operation. Pure. */
import type { TObject, TSchema } from 'typebox';
import { nounOf, verbOf } from './names.ts';
import { type Operation, withKeywords, writingOf } from './operation.ts';

export type Route = {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Such as `/v1/schedules/:name/pause`. */
  readonly url: string;
  /** The field of the input that stands in the path. */
  readonly inPath: string | null;
};

/** `schedule` has the routes below `/v1/schedules`. */
const collectionOf = (noun: string): string =>
  `/v1/${noun.endsWith('s') ? noun : noun.endsWith('y') && !noun.endsWith('ey') ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;

const fieldsOf = <K extends string>({ input }: Operation, ...kinds: readonly K[]) =>
  Object.entries(input.properties).flatMap(([field, schema]) => {
    const kind = kinds.find((one) => one === writingOf(schema).path);
    return kind === undefined ? [] : [{ field, kind }];
  });

/** The field whose file, or whose folder, is the answer over HTTP. */
export const resultField = (operation: Operation) => fieldsOf(operation, 'result', 'results').at(0);
/** The field in place of whose files the body of a request over HTTP is read. */
export const contentField = (operation: Operation) => fieldsOf(operation, 'content').at(0)?.field;

/** Long work over HTTP, unless it requests a job itself, or its request or its answer is the content of a file. */
export const isJob = (operation: Operation): boolean =>
  operation.long !== undefined &&
  !operation.requests &&
  fieldsOf(operation, 'result', 'results', 'content').length === 0;

const NAME = '^[^/\\\\\\u0000]*$';

/** The operation as it is over HTTP, where nobody names a path of the server; null where it needs one. */
export function overHttp(operation: Operation): Operation | null {
  if (operation.here) return null;
  const { properties, ...rest } = operation.input;
  const isThere = (name: string) => /^(or name)?$/.test(writingOf(properties[name]!).path ?? '');
  const required = (rest.required ?? []) as readonly string[];
  if (operation.here) return null;
  if (required.some((name) => writingOf(properties[name]!).path === 'only')) return null;
  const named = (schema: TSchema) => {
    const { path, most } = writingOf(schema);
    if (most !== undefined) return withKeywords(schema, { maximum: most });
    return path === 'or name' ? withKeywords(schema, { pattern: NAME }) : schema;
  };
  const kept = <T>(all: Readonly<Record<string, T>>, as: (one: T) => T) =>
    Object.fromEntries(Object.entries(all).flatMap(([name, one]) => (isThere(name) ? [[name, as(one)] as const] : [])));
  const input = { ...rest, required: required.filter(isThere), properties: kept(properties, named) };
  const examples = operation.examples.map((example) => kept(example, (value) => value));
  return { ...operation, input: input as unknown as TObject, examples };
}

/** `list`, `add`, `create`, `start`, `show` and `remove` are the methods of HTTP; any other verb is a path of its own. */
export function routeOf(operation: Operation): Route {
  const verb = verbOf(operation);
  const isNew = /^(add|create|start)$/.test(verb);
  const inPath = isNew || (verb === '' && operation.body) ? null : idOf(operation);
  const noun = nounOf(operation);
  const one = `${verb === '' ? `/v1/${noun}` : collectionOf(noun)}${inPath === null ? '' : `/:${inPath}`}`;
  const { changes, body, long } = operation;
  const method = changes || body || long !== undefined || resultField(operation) !== undefined ? 'POST' : 'GET';
  if (verb === '') return { method, url: one, inPath };
  if (verb === 'list' || verb === 'show') return { method: 'GET', url: one, inPath };
  if (isNew) return { method: 'POST', url: one, inPath };
  if (verb === 'remove') return { method: 'DELETE', url: one, inPath };
  return { method, url: `${one}/${verb}`, inPath };
}

const idOf = ({ input: { properties, required } }: Operation): string | null =>
  only(
    Object.entries(properties).filter(
      ([name, schema]) =>
        writingOf(schema).position &&
        (required as readonly string[] | undefined)?.includes(name) &&
        'type' in schema &&
        schema.type !== 'array' &&
        schema.type !== 'object',
    ),
  )?.[0] ?? null;

/** Two things of one kind stand in the query, not one of them in the path. */
const only = <T>(all: readonly T[]): T | undefined => (all.length === 1 ? all[0] : undefined);
