import type { FastifyInstance } from 'fastify';

/** Strings that programs trip over, as names and as values. */
export const NAUGHTY = [
  ...[
    '',
    ' ',
    '\u0000',
    'a\u0000',
    '\ufffe',
    '\uffff',
    '\ud800',
    'e\u0301',
    '\u202e',
    '\u2028',
    '😀',
    'İ',
    'ß',
    '\u00ad',
    '\ufeff',
  ],
  ...[
    '__proto__',
    'constructor',
    'prototype',
    'toString',
    'hasOwnProperty',
    'valueOf',
    'then',
    'length',
    'undefined',
    'null',
    'NaN',
  ],
  ...[
    '-1',
    '0',
    '1e400',
    '-0',
    '0x10',
    '9007199254740993',
    '99999999999999999999',
    '1.5',
    'Infinity',
    '١',
    'true',
    'false',
    '[]',
    '{}',
  ],
  ...[
    "'",
    '"',
    "';--",
    "' or 1=1--",
    '\\',
    '%',
    '%00',
    '%s',
    '#{x}',
    '{{x}}',
    '$1',
    '..',
    '../../etc/passwd',
    '/',
    '//',
    '\r\nX: y',
  ],
  ...[
    '<script>',
    'a'.repeat(1000),
    'limit',
    'after',
    'tag.',
    'tag.KEY',
    'tag.__proto__',
    'tag.a\u0000',
    'infinity',
    '-infinity',
    'epoch',
  ],
  ...[
    '0001-01-01T00:00:00Z',
    '9999-12-31T23:59:60Z',
    '294277-01-01T00:00:00Z',
    'eyJ',
    'WyIiLCIiXQ',
    'WyItaW5maW5pdHkiLCJcdTAwMDAiXQ',
  ],
];
export const encoded = (written: string): string => encodeURIComponent(written.toWellFormed());

type Route = { readonly method: 'GET' | 'POST'; readonly path: string; readonly names: readonly string[] };

/** Every route, with the names that it takes. */
export async function routesOf(app: FastifyInstance): Promise<Route[]> {
  const { paths } = (await app.inject('/openapi.json')).json() as {
    paths: Record<string, Record<string, { parameters?: { in: string; name: string }[] }>>;
  };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [] }]) => ({
      method: method.toUpperCase() as Route['method'],
      path,
      names: parameters.filter((one) => one.in === 'query').map(({ name }) => name),
    })),
  );
}
