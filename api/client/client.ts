/**
 * `troupe/client`: a running Troupe over HTTP, with the methods that `openProject` has, typed by the same declarations. It needs `fetch`
 * and nothing else.
 */
import { type ErrorCode, TroupeError } from '../../errors.ts';
import { type Methods, methodsBy } from '../operations/catalogue.ts';
import { OUTPUT_HEADER } from '../operations/names.ts';
import type { CallOptions } from '../operations/operation.ts';
import { ROUTES } from './routes.ts';

export type ClientOptions = {
  /** Address of the server. Default: http://127.0.0.1:7717. */
  readonly url?: string;
  /** API key, where keys are needed. */
  readonly key?: string;
  readonly fetch?: typeof fetch;
};

/** @throws (each method) TroupeError with the code of the server's answer; `unreachable` where none came */
export function connect({ url = 'http://127.0.0.1:7717', key, fetch: send = fetch }: ClientOptions = {}): Methods {
  const headers = {
    'content-type': 'application/json',
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
  };
  const operations = Object.keys(ROUTES).map((name) => ({ name }));
  const ask = async (
    [method, route, kind]: (typeof ROUTES)[string],
    input: unknown,
    { signal, onResult, content }: CallOptions,
  ): Promise<Record<string, unknown>> => {
    const rest = { ...(input as Record<string, unknown>) };
    const path = route.replace(/:(\w+)/, (_, field: string) => {
      const value = rest[field];
      delete rest[field];
      return encodeURIComponent(textOf(value));
    });
    const query = new URLSearchParams(Object.entries(rest).flatMap(([field, value]) => queryPairs(field, value)));
    const isBody = method === 'POST' && kind !== 'content';
    const asked = isBody ? path : `${path}${query.size === 0 ? '' : `?${query.toString()}`}`;
    const answer = await send(new URL(asked, url), {
      method,
      headers,
      ...(signal === undefined ? {} : { signal }),
      ...(isBody ? { body: JSON.stringify(rest) } : {}),
      ...(kind === 'content'
        ? { body: content ?? '', duplex: 'half', headers: { ...headers, 'content-type': 'application/octet-stream' } }
        : {}),
    } as RequestInit).catch((cause) => {
      throw new TroupeError('unreachable', `${url} does not answer: ${(cause as Error).message}`, { cause });
    });
    const written = answer.headers.get(OUTPUT_HEADER);
    if (answer.ok && written !== null) {
      for await (const bytes of answer.body as unknown as AsyncIterable<Uint8Array>) await onResult?.(bytes);
      return JSON.parse(written);
    }
    const output = (await answer.json().catch(() => ({}))) as Record<string, unknown>;
    if (answer.ok) return output;
    const { code = 'internal', detail = `The server answered ${answer.status}.`, field, expected, got, hint } = output;
    const more = Object.entries({ field, expected, got, hint }).filter(([, value]) => value !== undefined);
    throw new TroupeError(code as ErrorCode, textOf(detail), Object.fromEntries(more));
  };
  return methodsBy(operations, async (name, input, options) => {
    const route = ROUTES[name]!;
    const output = await ask(route, input, options);
    return route[2] !== 'long'
      ? output
      : resultOf(output, (id) => ask(['GET', '/v1/jobs/:id'], { id }, options), options);
  });
}

/** What a job ended with, once it has. @throws TroupeError with the code of what failed */
async function resultOf(
  { job_id: id }: Record<string, unknown>,
  look: (id: unknown) => Promise<Record<string, unknown>>,
  { onProgress }: CallOptions,
): Promise<unknown> {
  for (let pause = 20; ; pause = Math.min(2000, pause * 1.5)) {
    const { state, outcome, result, error, done, total } = await look(id);
    if (state === 'finished') {
      if (outcome === 'done') return result;
      const { code, message } = error as { readonly code: ErrorCode; readonly message: string };
      throw new TroupeError(code, message);
    }
    if (typeof done === 'number' && typeof total === 'number') onProgress?.(done, total);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** A value of a map is written `tag.phase=rl`. */
const queryPairs = (field: string, value: unknown): [string, string][] => {
  if (value === undefined) return [];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[field, textOf(value)]];
  return Object.entries(value).map(([name, one]) => [`${field}.${name}`, textOf(one)]);
};

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
