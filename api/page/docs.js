/** What can be asked over HTTP, from the OpenAPI document: each operation with its input, its output, the scope it needs, and examples. */
import { ask, make, tableOf } from './elements.js';

export async function docs(signal, _query, id) {
  const { paths } = await ask('/openapi.json', signal);
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, one]) =>
      one.operationId === undefined ? [] : [{ ...one, path, method: method.toUpperCase() }],
    ),
  );
  const nouns = new Map();
  for (const one of operations.sort((a, b) => (a.operationId < b.operationId ? -1 : 1))) {
    const [noun] = one.tags;
    nouns.set(noun, [...(nouns.get(noun) ?? []), one]);
  }
  return [
    make('h2', {}, 'API'),
    make(
      'p',
      {},
      `${operations.length} operations; commands, library and MCP have the same. The whole document, with ingestion and the gateway: `,
      make('a', { href: '/openapi.json' }, '/openapi.json'),
      '.',
    ),
    [...nouns].map(([noun, all]) => [make('h3', {}, noun), all.map((one) => operationOf(one, one.operationId === id))]),
  ];
}

function operationOf({ operationId, method, path, summary, description, security, ...rest }, isNamed) {
  const { parameters = [], requestBody, responses } = rest;
  const scope = security[0]?.bearer[0];
  const body = requestBody?.content['application/json'];
  const required = body?.schema.required ?? [];
  const inputs = [
    ...parameters.map((one) => [one.name, one.in, typeOf(one.schema), one.required, one.description]),
    ...Object.entries(body?.schema.properties ?? {}).map(([name, schema]) => [
      ...[name, 'body', typeOf(schema), required.includes(name), schema.description],
    ]),
  ];
  const [status, answer] = Object.entries(responses).find(([code]) => /^2/.test(code));
  const output = answer.content?.['application/json']?.schema;
  return make(
    'details',
    { open: isNamed },
    make(
      'summary',
      isNamed ? { 'aria-current': 'true' } : {},
      make('code', {}, operationId),
      ` ${summary} `,
      make('code', { class: 'quiet' }, `${method} ${path}`),
    ),
    description ? make('p', {}, description) : null,
    make(
      'p',
      {},
      scope ? `Needs the scope ${scope} once there are keys. ` : '',
      `Answer ${status}: ${answer.description}.`,
    ),
    inputs.length === 0
      ? null
      : tableOf({
          label: `Input of ${operationId}`,
          caption: 'Input',
          head: ['field', 'in', 'type', 'meaning'],
          rows: inputs.map(([name, place, type, isRequired, about]) => [
            make('code', {}, name),
            place,
            `${type}${isRequired ? ', required' : ''}`,
            about ?? '',
          ]),
        }),
    output?.properties
      ? tableOf({
          label: `Output of ${operationId}`,
          caption: 'Output',
          head: ['field', 'type', 'meaning'],
          rows: Object.entries(output.properties).map(([name, schema]) => [
            make('code', {}, name),
            typeOf(schema),
            schema.description ?? '',
          ]),
        })
      : null,
    Object.values(body?.examples ?? {}).map(({ value }) =>
      make('pre', { class: 'request' }, curl(method, path, value)),
    ),
    body?.examples ? null : make('pre', { class: 'request' }, curl(method, path)),
  );
}

/** A request as a shell takes it. */
const curl = (method, path, body) =>
  [
    `curl ${method === 'GET' ? '' : `-X ${method} `}'${location.origin ?? ''}${path}'`,
    ...(body === undefined
      ? []
      : ["-H 'content-type: application/json'", `-d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`]),
  ].join(' \\\n  ');

/** A schema in a few words. */
function typeOf({ type, anyOf, enum: choices, items, default: otherwise }) {
  const name = choices
    ? choices.join(' | ')
    : anyOf
      ? anyOf.map(typeOf).join(' or ')
      : type === 'array'
        ? `list of ${typeOf(items ?? {})}`
        : (type ?? 'any');
  return otherwise === undefined ? name : `${name} (${JSON.stringify(otherwise)})`;
}
