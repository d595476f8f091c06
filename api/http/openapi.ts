/** The OpenAPI 3.1 document, made from the documentation of each route. TypeBox schemas are JSON Schema and are included unchanged. */
import type { TObject, TSchema } from 'typebox';
import type { Scope } from '../../store/keys/api-key.ts';
import { queryName } from './query.ts';

/** The documentation of a route, in `config.doc`. */
export type RouteDoc = {
  readonly summary: string;
  /** Of a route that is an operation: its name, and what else there is to say. */
  readonly operationId?: string;
  readonly description?: string;
  /** The part of the interface, or the noun of an operation. */
  readonly tag: string;
  /** The scope that a key needs; null if no key is needed. */
  readonly scope: Scope | null;
  readonly query?: TObject;
  /** Header names with what they mean. */
  readonly headers?: Readonly<Record<string, string>>;
  /** True: the response may have many megabytes, so that it is handled on another thread. */
  readonly large?: boolean;
  /** Media types of the body, and its schema. A body that is not required may be left out. */
  readonly body?: {
    readonly types: readonly string[];
    readonly schema: TSchema;
    readonly examples?: readonly object[];
    readonly required?: boolean;
  };
  /** Status to its meaning and, for JSON responses, the schema. */
  readonly answers: Readonly<
    Record<
      number,
      {
        readonly about: string;
        readonly schema?: TSchema;
        readonly type?: string;
        /** Media types that a client may ask for instead by Accept. */
        readonly others?: readonly string[];
      }
    >
  >;
};

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly doc?: RouteDoc;
  }
}

export type DocumentedRoute = { readonly method: string; readonly url: string; readonly doc: RouteDoc };

const PROBLEM = {
  type: 'object',
  required: ['type', 'title', 'status', 'code', 'detail', 'request_id'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    code: { type: 'string', description: 'stable; what a program should look at' },
    detail: { type: 'string' },
    field: { type: 'string' },
    expected: { type: 'string' },
    got: { type: 'string' },
    hint: { type: 'string' },
    request_id: { type: 'string' },
  },
} as const;

/** The headers of a key; each route documents its scope. No key is needed while there are no keys. */
const SECURITY = {
  bearer: { type: 'http', scheme: 'bearer', description: 'an API key; in a browser the password' },
  key: { type: 'apiKey', in: 'header', name: 'Troupe-Key', description: 'where Authorization is for a model server' },
} as const;

/** The document for these routes, paths and methods sorted. Pure. */
export function openapiDocument(routes: readonly DocumentedRoute[], version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  const sorted = [...routes].sort((a, b) => `${a.url} ${a.method}`.localeCompare(`${b.url} ${b.method}`, 'en'));
  for (const { method, url, doc } of sorted) {
    const path = url.replace(/:([a-z_]+)/gi, '{$1}');
    paths[path] ??= {};
    paths[path][method.toLowerCase()] = operation(url, doc);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Troupe',
      version,
      description: 'Events of a team of agents in; trajectories, checkpoints and completions out.',
    },
    paths,
    components: { schemas: { Problem: PROBLEM }, securitySchemes: SECURITY },
  };
}

function operation(url: string, doc: RouteDoc): Record<string, unknown> {
  const required = (doc.query?.required ?? []) as readonly string[];
  const parameters = [
    ...[...url.matchAll(/:([a-z_]+)/gi)].map(([, name]) => parameter('path', name!, true, { type: 'string' })),
    ...Object.entries(doc.query?.properties ?? {}).map(([name, schema]) =>
      parameter('query', queryName(name, doc.query!), required.includes(name), schema as Record<string, unknown>),
    ),
    ...Object.entries(doc.headers ?? {}).map(([name, description]) =>
      parameter('header', name, false, { type: 'string', description }),
    ),
  ];
  const { operationId, summary, description, body } = doc;
  return {
    ...(operationId === undefined ? {} : { operationId }),
    summary,
    ...(description === undefined ? {} : { description }),
    tags: [doc.tag],
    security: doc.scope === null ? [] : [{ bearer: [doc.scope] }, { key: [doc.scope] }],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body
      ? {
          requestBody: {
            required: body.required ?? true,
            content: content(body.types, body.schema, body.examples),
          },
        }
      : {}),
    responses: {
      ...Object.fromEntries(
        Object.entries(doc.answers).map(([status, { about, schema, type = 'application/json', others = [] }]) => [
          status,
          {
            description: about,
            ...(schema || type !== 'application/json'
              ? { content: { ...content([type], schema), ...content(others, undefined) } }
              : {}),
          },
        ]),
      ),
      '4XX': problem('what is wrong with the request'),
      default: problem('what went wrong'),
    },
  };
}

const parameter = (place: string, name: string, required: boolean, schema: Readonly<Record<string, unknown>>) => {
  const { description, ...rest } = schema;
  return { in: place, name, required, ...(description === undefined ? {} : { description }), schema: rest };
};

const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
});

const content = (types: readonly string[], schema: TSchema | undefined, examples: readonly object[] = []) => {
  const shown = Object.fromEntries(examples.map((value, i) => [`example ${i + 1}`, { value }]));
  const media = {
    ...(schema === undefined ? {} : { schema }),
    ...(examples.length === 0 ? {} : { examples: shown }),
  };
  return Object.fromEntries(types.map((type) => [type, media]));
};

/** The options of a documented route. */
export const documented = (doc: RouteDoc): { readonly config: { readonly doc: RouteDoc } } => ({ config: { doc } });
