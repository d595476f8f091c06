/** Bodies that fit what a route documents, but hold odd values: they come past the schema, to what reads and stores them. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { anyCharacter } from '../support/character.ts';
import { post, type TestApp, testApp } from './support/app.ts';

const RUNS = Number(process.env.TROUPE_FUZZ_RUNS ?? 60);

type Schema = Readonly<Record<string, unknown>>;
type Route = { readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'; readonly path: string; readonly schema: Schema };

let at: TestApp;
let routes: Route[];
let addSchedule: () => Promise<{ readonly statusCode: number }>;
const JSON_BODY = { 'content-type': 'application/json' };
beforeAll(async () => {
  const runners = { team: { command: ['true'] }, remote: { workers: true } };
  at = await testApp({ settings: { judge: null, close_after: 1800, notify: null, runners } });
  const event = (id: string, name: string, data: object) => ({
    ...{ specversion: '1.0', source: '/s', id, type: `troupe.${name}.v1`, data },
  });
  await post(at.app, [
    event('1', 'task.defined', { task_id: 'task', query: 'what' }),
    event('2', 'episode.started', { episode_id: 'episode', task_id: 'task' }),
    event('3', 'job.requested', { job_id: 'run', kind: 'plan', spec: {} }),
    event('4', 'checkpoint.saved', { checkpoint_id: 'checkpoint', policy: 'solver' }),
    event('5', 'policy.released', { release_id: 'release', policies: { solver: 'checkpoint' } }),
  ]);
  await at.project();
  const definition = {
    ...{ cron: '0 3 * * *', zone: 'UTC', overlap: 'skip', catch_up_seconds: 0, jitter_seconds: 0 },
    job: { kind: 'freeze', spec: { recipe: { name: 'r' } } },
  };
  addSchedule = () =>
    at.app.inject({
      method: 'POST',
      url: '/v1/schedules',
      headers: JSON_BODY,
      payload: { name: 'nightly', ...definition },
    });
  expect((await addSchedule()).statusCode).toBe(200);
  const { paths } = (await at.app.inject('/openapi.json')).json() as {
    paths: Record<string, Record<string, { requestBody?: { content: Record<string, { schema: Schema }> } }>>;
  };
  routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { requestBody }]) =>
      method === 'get'
        ? []
        : [
            {
              method: method.toUpperCase() as Route['method'],
              path,
              schema: requestBody?.content['application/json']?.schema ?? {},
            },
          ],
    ),
  );
});
afterAll(() => at.close());

/** Texts that mean something to one route or another, and texts that programs trip over. */
const WORDS = [
  ...['task', 'episode', 'run', 'checkpoint', 'release', 'nightly', 'team', 'remote', 'solver', 'policy:solver'],
  ...['freeze', 'plan', 'sft', 'rollout', 'UTC', 'Europe/Berlin', '0 3 * * *', '* * * * *', '0 0 31 2 *', '1.0'],
  ...['2026-11-01', '2026-11-01T00:00:00Z', '0001-01-01T00:00:00Z', '9999-12-31T23:59:60Z', '294277-01-01', 'infinity'],
  ...['select 1', 'select * from traj.episodes', "select '\ufffe'", 'select 1/0', 'values (1), (null)', '-- nothing'],
  ...['system', 'user', 'assistant', 'tool', 'text', 'function', 'json_schema', 'troupe.message.sent.v1', '/s'],
  ...['', ' ', 'a\u0000b', '\ud800', '\ufffe', '__proto__', 'constructor', "'", '"', '\\', '../..', '%00', '1e400'],
  ...['e\u0301', '\u202e', '😀', '<script>', 'a'.repeat(3000), '{', '[]', 'null', 'NaN', '-1', '9007199254740993'],
];
const word = fc.oneof(fc.constantFrom(...WORDS), fc.string({ unit: anyCharacter, maxLength: 20 }));
const whole = fc.constantFrom(-1, 0, 1, 2, 60, 1000, 2 ** 31 - 1, 2 ** 31, 2 ** 53 - 1, -(2 ** 53) + 1);
const real = fc.oneof(whole, fc.constantFrom(0.5, -0, 1e-320, 1e308, 5e-324), fc.double({ noNaN: true }));
const anything: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    word,
    real,
    fc.constantFrom(null, true, false),
    fc.array(tie('any'), { maxLength: 3 }),
    fc.dictionary(word, tie('any'), { maxKeys: 3 }),
  ),
})).any;

/** What a field of this name means something by, wherever it stands. */
const NAMED: Readonly<Record<string, readonly unknown[]>> = {
  model: ['policy:solver', 'checkpoint:checkpoint', 'policy:none', 'gpt-4'],
  sql: ['select 1', 'select * from traj.episodes', "select '\ufffe'", 'select 1/0', 'values (1), (null)', 'select'],
  runner: ['team', 'remote', 'nobody'],
  zone: ['UTC', 'Asia/Kathmandu', 'Nowhere'],
  cron: ['0 3 * * *', '* * * * *', '0 0 31 2 *', '0 0 29 2 1'],
  kind: ['freeze', 'plan', 'sft', 'rollout', 'gate'],
  from: ['2026-11-01', '0001-01-01', '9999-12-31T23:59:60Z'],
  type: ['text', 'function', 'json_schema', 'object', 'troupe.message.sent.v1', 'image_url', 'tool_use'],
  role: ['system', 'user', 'assistant', 'tool'],
  attempt_id: ['rollout/task/0', 'r/0'],
  messages: [[{ role: 'user', content: 'hi' }], [{ role: 'user', content: [{ type: 'text', text: '\u0000' }] }], []],
  prompt: ['hi', [1, 2, 3], ['hi'], '\ud800'],
  input: ['hi', [{ role: 'user', content: 'hi' }], [{ type: 'function_call_output', call_id: 'x', output: 'y' }]],
  tools: [[{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }], [{}]],
  tasks: [['task'], ['none'], []],
};

/** Values of a JSON Schema; patterns and lengths are not looked at, and now and then one is another value altogether. */
function valuesOf(schema: Schema, name = ''): fc.Arbitrary<unknown> {
  const named = Object.hasOwn(NAMED, name) ? [{ weight: 80, arbitrary: fc.constantFrom(...NAMED[name]!) }] : [];
  return fc.oneof({ weight: 20, arbitrary: fitting(schema) }, ...named, { weight: 1, arbitrary: anything });
}

function fitting(schema: Schema): fc.Arbitrary<unknown> {
  const options = (schema.anyOf ?? schema.oneOf) as readonly Schema[] | undefined;
  if (options !== undefined) return fc.oneof(...options.map((one) => valuesOf(one)));
  if ('const' in schema) return fc.constant(schema.const);
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum);
  switch (schema.type) {
    case 'string':
      return word;
    case 'integer':
      return whole;
    case 'number':
      return real;
    case 'boolean':
      return fc.boolean();
    case 'array':
      return fc.array(valuesOf((schema.items ?? {}) as Schema), { maxLength: 4 });
    case 'object': {
      const properties = Object.entries((schema.properties ?? {}) as Record<string, Schema>);
      const required = (schema.required ?? []) as string[];
      const named = properties.map(([name, one]) =>
        valuesOf(one, name).chain((value) =>
          // With all that is optional, one field or another would always be wrong.
          fc.nat(required.includes(name) ? 0 : 5).map((drawn) => (drawn === 0 ? [[name, value]] : [])),
        ),
      );
      const known = fc.tuple(...named).map((pairs) => Object.fromEntries(pairs.flat()) as Record<string, unknown>);
      if (schema.additionalProperties === false) return known;
      return fc.tuple(known, fc.dictionary(word, anything, { maxKeys: 2 })).map(([a, b]) => ({ ...b, ...a }));
    }
    default:
      return anything;
  }
}

const idOf = (name: string): fc.Arbitrary<string> =>
  fc
    .oneof(fc.constantFrom('nightly', 'run', 'episode', 'checkpoint'), word)
    .map((id) => encodeURIComponent(id.toWellFormed() || name));
const headers = fc.dictionary(
  fc.constantFrom(
    'troupe-episode',
    'troupe-agent',
    'troupe-group',
    'troupe-task',
    'troupe-turn',
    'troupe-role',
    'accept',
  ),
  word.map((value) => encodeURIComponent(value.toWellFormed())),
  { maxKeys: 3 },
);

it('bodies of every route that fit their schema are answered with less than 500, in words and not in a stack trace', async () => {
  expect(routes.length).toBeGreaterThan(25);
  for (const { method, path, schema } of routes) {
    // It may have been removed.
    await addSchedule();
    const request = fc.tuple(valuesOf(schema), idOf('x'), idOf('y'), headers);
    await fc.assert(
      fc.asyncProperty(request, async ([payload, first, second, more]) => {
        const ids = [first, second];
        const url = path.replaceAll(/\{\w+\}/g, () => ids.shift() ?? 'z');
        const { statusCode, body } = await at.app.inject({
          method,
          url,
          headers: { ...JSON_BODY, ...more },
          // A lease that waits for work waits as long as it is asked to.
          payload:
            JSON.stringify(payload, (name, value) =>
              name === 'wait_s' && typeof value === 'number' && value > 1 ? 1 : value,
            ) ?? '',
        });
        // 503: nobody serves the model, which is so.
        if (statusCode >= 500 && statusCode !== 503) expect.fail(`${method} ${url}: ${statusCode} ${body}`);
        expect(body).not.toMatch(/\bat .*\.ts:\d+|node:internal/);
      }),
      { numRuns: RUNS },
    );
  }
  // What was kept among it goes into the tables, and can be shown.
  await at.project();
  for (const url of ['/v1/episodes', '/v1/jobs', '/v1/schedules', '/v1/rounds', '/v1/schedules/nightly'])
    expect((await at.app.inject(url)).statusCode, url).toBeLessThan(500);
}, 300_000);
