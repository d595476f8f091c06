/** The OpenAPI 3.1 document, made from the documentation of each route. TypeBox schemas are JSON Schema and are included unchanged. */
import type { TObject, TSchema } from 'typebox';
import type { Scope } from '../../store/keys/api-key.ts';

/** The documentation of a route, in `config.doc`. */
export type RouteDoc = {
  readonly summary: string;
  readonly tag: 'events' | 'gateway' | 'rollouts' | 'reads' | 'schedules' | 'health' | 'page';
  /** The scope that a key needs; null if no key is needed. */
  readonly scope: Scope | null;
  readonly query?: TObject;
  /** Header names with what they mean. */
  readonly headers?: Readonly<Record<string, string>>;
  /** True: the response may have many megabytes, so that it is handled on another thread. */
  readonly large?: boolean;
  /** Media types of the body, and its schema. */
  readonly body?: { readonly types: readonly string[]; readonly schema: TSchema };
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
  const parameters = [
    ...[...url.matchAll(/:([a-z_]+)/gi)].map(([, name]) => parameter('path', name!, true, { type: 'string' })),
    ...Object.entries(doc.query?.properties ?? {}).map(([name, schema]) =>
      parameter('query', name, false, schema as Record<string, unknown>),
    ),
    ...Object.entries(doc.headers ?? {}).map(([name, description]) =>
      parameter('header', name, false, { type: 'string', description }),
    ),
  ];
  return {
    summary: doc.summary,
    tags: [doc.tag],
    security: doc.scope === null ? [] : [{ bearer: [doc.scope] }, { key: [doc.scope] }],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(doc.body ? { requestBody: { required: true, content: content(doc.body.types, doc.body.schema) } } : {}),
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
      default: {
        description: 'what went wrong',
        content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
      },
    },
  };
}

const parameter = (place: string, name: string, required: boolean, schema: Readonly<Record<string, unknown>>) => {
  const { description, ...rest } = schema;
  return { in: place, name, required, ...(description === undefined ? {} : { description }), schema: rest };
};

const content = (types: readonly string[], schema: TSchema | undefined) =>
  Object.fromEntries(types.map((type) => [type, schema === undefined ? {} : { schema }]));

/** The options of a documented route. */
export const documented = (doc: RouteDoc): { readonly config: { readonly doc: RouteDoc } } => ({ config: { doc } });
