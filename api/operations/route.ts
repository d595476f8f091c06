/** The HTTP route of an operation. Pure. */
import type { TObject } from 'typebox';
import { nounOf, verbOf } from './names.ts';
import { type Operation, writingOf } from './operation.ts';

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

/** Long work over HTTP, unless it waits for a job of its own. */
export const isJob = ({ long, requests }: Operation): boolean => long !== undefined && !requests;

/** The operation as it is over HTTP, where nobody names a path of the server; null where it needs one. */
export function overHttp(operation: Operation): Operation | null {
  const { properties, ...rest } = operation.input;
  const isThere = (name: string) => writingOf(properties[name]!).path === undefined;
  const required = (rest.required ?? []) as readonly string[];
  if (!required.every(isThere)) return null;
  const kept = <T>(all: Readonly<Record<string, T>>) =>
    Object.fromEntries(Object.entries(all).filter(([name]) => isThere(name)));
  const input = { ...rest, properties: kept(properties) };
  return { ...operation, input: input as unknown as TObject, examples: operation.examples.map(kept) };
}

/** `list`, `add`, `create`, `start`, `show` and `remove` are the methods of HTTP; any other verb is a path of its own. */
export function routeOf(operation: Operation): Route {
  const verb = verbOf(operation);
  const isNew = /^(add|create|start)$/.test(verb);
  const inPath = isNew ? null : idOf(operation);
  const noun = nounOf(operation);
  const one = `${verb === '' ? `/v1/${noun}` : collectionOf(noun)}${inPath === null ? '' : `/:${inPath}`}`;
  const method = operation.changes || operation.body || operation.long !== undefined ? 'POST' : 'GET';
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
