/** Every operation over HTTP, with each scope, and with hostile values in each field. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { operationContext } from '../../api/http/routes/operations.ts';
import { allOperations } from '../../api/operations/catalogue.ts';
import { writingOf } from '../../api/operations/operation.ts';
import { contentField, isJob, overHttp, routeOf } from '../../api/operations/route.ts';
import { appendOwn } from '../../ingest/log/own-event.ts';
import { SCOPES } from '../../store/keys/api-key.ts';
import { createKey } from '../../store/keys/api-keys.ts';
import { type TestApp, testApp } from './support/app.ts';

const operations = (await allOperations()).filter(overHttp);
const HOSTILE: readonly unknown[] = [
  ...['', '\0', 'a\0b', '\uD800', '../../etc/passwd', "'; drop table x; --", '%00', '<script>', 'x'.repeat(5000)],
  ...[-1, 0, 1e308, 2 ** 53, 0.5, true, null, [], {}, [[]], { __proto__: 1 }, { a: { b: '\0' } }],
];

let at: TestApp;
const keys = new Map<string, string>();
beforeAll(async () => {
  at = await testApp();
  for (const scope of SCOPES)
    keys.set(scope, (await createKey(at.db, { name: scope, scopes: [scope], expiresAt: null })).text);
});
afterAll(() => at.close());

type Input = Readonly<Record<string, unknown>>;
function ask(operation: (typeof operations)[number], input: Input, key: string) {
  const { method, url, inPath } = routeOf(operation);
  const isBody = method === 'POST' && contentField(operation) === undefined;
  const rest = Object.fromEntries(Object.entries(input).filter(([name]) => name !== inPath));
  const path = url.replace(/:\w+/, encodeURIComponent(String(input[inPath ?? ''] ?? 'x').toWellFormed()) || '%20');
  const texts = Object.entries(rest).map(([name, value]): [string, string] => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ]);
  return at.app.inject({
    ...{ method, url: isBody ? path : `${path}?${new URLSearchParams(texts)}` },
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(isBody ? { payload: JSON.stringify(rest) } : {}),
  });
}

it.each(operations)('$name is done for a key with the scope $scope or admin, and for no other', async (operation) => {
  for (const scope of SCOPES) {
    const { statusCode } = await ask(operation, { name: 'nobody' }, keys.get(scope)!);
    expect([scope, statusCode === 403]).toEqual([scope, scope !== 'admin' && scope !== operation.scope]);
    expect(statusCode).not.toBe(401);
  }
});

it('what changes something, sends or erases is not done with the scope read', () => {
  expect(operations.filter(({ changes, scope }) => changes && scope === 'read')).toEqual([]);
});

it.each(operations)(
  '$name answers hostile values with a problem that says which field, or does what they say',
  async (operation) => {
    const { examples, input } = overHttp(operation)!;
    for (const field of [...Object.keys(input.properties), 'no_field_of_it'])
      for (const value of HOSTILE) {
        const answer = await ask(operation, { ...examples[0], [field]: value }, keys.get('admin')!);
        const shown = `${operation.name} ${field} ${JSON.stringify(value)?.slice(0, 60)}: ${answer.statusCode} ${answer.body.slice(0, 300)}`;
        expect(answer.statusCode < 500, shown).toBe(true);
        expect(answer.body, shown).not.toMatch(/\bat .*\.ts:\d+|node:internal/);
        if (answer.statusCode >= 400) {
          expect(answer.headers['content-type'], shown).toMatch(/^application\/problem\+json/);
          expect(answer.json(), shown).toMatchObject({ code: expect.any(String), detail: expect.any(String) });
        }
      }
  },
  60_000,
);

it('documents every operation with its name, its examples and its problems', async () => {
  const { paths } = (
    await at.app.inject({ url: '/openapi.json', headers: { authorization: `Bearer ${keys.get('read')}` } })
  ).json();
  for (const operation of operations) {
    const { method, url } = routeOf(operation);
    const documented = paths[url.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()];
    expect(documented).toMatchObject({
      operationId: operation.name,
      tags: [operation.name.split('.')[0]],
      responses: {
        [isJob(operation) ? 202 : 200]: {},
        '4XX': { content: { 'application/problem+json': {} } },
      },
    });
    if (contentField(operation) !== undefined)
      expect(documented.requestBody.content).toHaveProperty('application/octet-stream');
    else if (method === 'POST')
      expect(Object.keys(documented.requestBody.content['application/json'].examples)).toHaveLength(
        operation.examples.length,
      );
    expect(JSON.stringify(documented)).not.toContain('x-command');
  }
});

it('an operation over HTTP waits for the process that projects, so that it sees what was recorded before it', async () => {
  const { catchUp } = operationContext(at.parts);
  const event = { name: 'checkpoint.saved', id: 'late', source: '/test', time: null } as const;
  await appendOwn(at.parts.log, [{ ...event, data: { checkpoint_id: 'late', policy: 'p', uri: 'file:///late' } }]);
  let waits = true;
  const waiting = catchUp().finally(() => {
    waits = false;
  });
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(waits).toBe(true);
  await at.project();
  await waiting;
  const { rows } = await at.db.query(`select 1 from facts.checkpoints where checkpoint_id = 'late'`);
  expect(rows.length).toBe(1);
});

it('no operation over HTTP takes a path: its field is not there, and a name has no /', async () => {
  for (const operation of operations)
    for (const [field, schema] of Object.entries(operation.input.properties)) {
      const { path } = writingOf(schema);
      if (path === undefined) continue;
      for (const value of ['/etc', '../etc', './x']) {
        const answer = await ask(
          operation,
          { ...overHttp(operation)!.examples[0], [field]: value },
          keys.get('admin')!,
        );
        expect([operation.name, field, answer.statusCode, answer.json().code]).toEqual([
          ...[operation.name, field, 400, 'usage'],
        ]);
      }
    }
});
