/** Every operation by command, HTTP, library and client, on one home: equal outputs and equal errors. */
import { readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connect } from '../api/client/client.ts';
import { operationContext } from '../api/http/routes/operations.ts';
import { allOperations, type Methods, NOUNS, operationsOf } from '../api/operations/catalogue.ts';
import { operationHandler } from '../api/operations/job.ts';
import { methodOf, nounOf, OUTPUT_HEADER } from '../api/operations/names.ts';
import { type Operation, writingOf } from '../api/operations/operation.ts';
import { inputOf } from '../api/operations/perform.ts';
import { contentField, overHttp, resultField, routeOf } from '../api/operations/route.ts';
import { stdinOf, wordsOf } from '../cli/derive.ts';
import { openProject, type Project } from '../cli/open-project.ts';
import { VERSION } from '../cli/version.ts';
import { appendOwn } from '../ingest/log/own-event.ts';
import { createKey } from '../store/keys/api-keys.ts';
import { recordRelease } from '../store/loop/release/releases.ts';
import { requestJob } from '../store/queue/jobs/jobs.ts';
import { runJobs } from '../store/queue/jobs/worker.ts';
import { type TestApp, testApp } from './api/support/app.ts';
import { document, type Shell, warmShell } from './cli/support/troupe.ts';
import { CASES, LETTERS, MODELS, RECORDED, SETTINGS, TASKS } from './interfaces.cases.ts';
import { removeFolder } from './support/remove-folder.ts';

const operations = await allOperations();
const INTERFACES = ['command', 'http', 'library', 'client'] as const;
type Interface = (typeof INTERFACES)[number];
type Input = Readonly<Record<string, unknown>>;
type Answer = { readonly output: unknown } | { readonly error: { readonly code: string; readonly message: string } };

let at: TestApp;
let shell: Shell;
let project: Project;
let url: string;
let key: string;
let working: Promise<void>;
const stop = new AbortController();
beforeAll(async () => {
  at = await testApp({
    ...{ settings: SETTINGS, env: process.env, version: VERSION },
    server: async () => ({ databaseUrl: at.url }),
  });
  const { root } = at.parts.home;
  shell = warmShell({
    DATABASE_URL: at.url,
    TROUPE_HOME: root,
    TROUPE_NOTIFY: JSON.stringify(SETTINGS.notify),
    TROUPE_RUNNERS: JSON.stringify(SETTINGS.runners),
    TROUPE_REWARDS: JSON.stringify(SETTINGS.rewards),
  });
  process.env.TROUPE_NOTIFY = JSON.stringify(SETTINGS.notify);
  process.env.TROUPE_RUNNERS = JSON.stringify(SETTINGS.runners);
  process.env.TROUPE_REWARDS = JSON.stringify(SETTINGS.rewards);
  project = await openProject({ home: root, databaseUrl: at.url });
  key = (await createKey(at.db, { name: 'http', scopes: ['admin'], expiresAt: null })).text;
  for (const { place, code, raw } of LETTERS)
    await at.db.query(
      `insert into troupe.dead_letters (endpoint, place, code, field, expected, got, raw, digest) values ('file', $1, $2, '', 'JSON', 'other', $3, $1)`,
      [place, code, raw],
    );
  await at.parts.log.append([...RECORDED]);
  const time = '2026-01-01T00:00:00Z';
  const own = { source: '/test', time };
  await appendOwn(
    at.parts.log,
    ['c1', 'c2'].map((id) => ({
      ...{ ...own, name: 'checkpoint.saved', id },
      data: { checkpoint_id: id, policy: 'solver', uri: `file:///${id}`, kept: true },
    })),
  );
  await recordRelease(at.parts.log, { ...own, release_id: 'base', policies: { solver: 'c1' }, reason: null, by: 'me' });
  for (const job_id of ['a', 'b'])
    await requestJob({ ...at.parts, now: () => new Date() }, { job_id, kind: 'sft', spec: { steps: 3 } });
  for (const by of INTERFACES)
    await requestJob({ ...at.parts, now: () => new Date() }, { job_id: `x-${by}`, kind: 'x', spec: {} });
  await requestJob({ ...at.parts, now: () => new Date() }, { job_id: 'read-1', kind: 'plan', spec: { plan: {} } });
  for (const by of INTERFACES)
    await requestJob({ ...at.parts, now: () => new Date() }, { job_id: `x-${by}/1/gate`, kind: 'decision', spec: {} });
  await at.db.query(`update troupe.job_queue set state = 'waiting' where kind = 'decision'`);
  await at.project();
  url = await at.app.listen({ host: '127.0.0.1', port: 0 });
  const jobs = { ...at.parts, now: () => new Date() };
  // A worker brings the tables up to date itself.
  const context = operationContext({
    ...jobs,
    catchUp: at.project,
    signal: stop.signal,
    settings: SETTINGS,
    env: process.env,
    version: VERSION,
  });
  working = runJobs(jobs, { worker: 'test', handlers: operationHandler(context), signal: stop.signal, pollMs: 50 });
});
afterAll(async () => {
  stop.abort();
  await working;
  delete process.env.TROUPE_NOTIFY;
  delete process.env.TROUPE_RUNNERS;
  delete process.env.TROUPE_REWARDS;
  await project.close();
  await shell.remove();
  await at.close();
  removeFolder(MODELS);
});

async function answerOf(by: Interface, operation: Operation, input: Input): Promise<Answer> {
  if (by === 'command') {
    writeFileSync(join(shell.folder, 'tasks.jsonl'), TASKS.map((task) => JSON.stringify(task)).join('\n'));
    for (const [name, schema] of Object.entries(operation.input.properties))
      if (writingOf(schema).file !== undefined && input[name] !== undefined)
        writeFileSync(join(shell.folder, `${name}.yaml`), JSON.stringify(input[name]));
    const ended = await shell.run([...wordsOf(operation, input), '--json'], stdinOf(operation, input));
    const printed = document(ended);
    return printed.error ? { error: printed.error } : { output: printed };
  }
  const contents = contentField(operation);
  const place = contents ?? resultField(operation)?.field;
  const content = Buffer.concat(((input[contents ?? ''] ?? []) as string[]).map((file) => readFileSync(file)));
  const sent = Object.fromEntries(Object.entries(input).filter(([name]) => name !== place));
  if (by === 'http') {
    const { method, url: route, inPath } = routeOf(operation);
    const rest = Object.fromEntries(Object.entries(sent).filter(([name]) => name !== inPath));
    const path = route.replace(/:\w+/, encodeURIComponent(String(input[inPath ?? ''])));
    const headers = { authorization: `Bearer ${key}` };
    const query = new URLSearchParams(
      Object.entries(rest).flatMap(([name, value]): [string, string][] =>
        typeof value === 'object' && value !== null
          ? Object.entries(value).map(([key, one]) => [`${name}.${key}`, String(one)])
          : [[name, String(value)]],
      ),
    );
    const answer = await at.app.inject(
      contents !== undefined
        ? {
            method,
            url: `${path}?${query}`,
            payload: content,
            headers: { ...headers, 'content-type': 'application/x-ndjson' },
          }
        : method === 'POST'
          ? {
              method,
              url: path,
              payload: JSON.stringify(rest),
              headers: { ...headers, 'content-type': 'application/json' },
            }
          : { method, url: `${path}?${query}`, headers },
    );
    const written = answer.headers[OUTPUT_HEADER];
    if (written !== undefined) return { output: JSON.parse(String(written)) };
    if (answer.statusCode === 202) return resultOf(String(answer.headers.location), headers);
    const { code, detail: message, ...output } = answer.json();
    return answer.statusCode < 300 ? { output: answer.json() } : { error: { ...output, code, message } };
  }
  const methods = by === 'library' ? project : connect({ url, key });
  type Call = (given: Input, options: object) => Promise<unknown>;
  const noun = methods[nounOf(operation) as keyof Methods] as unknown as Call & Readonly<Record<string, Call>>;
  return (noun[methodOf(operation)] ?? noun)(by === 'library' ? input : sent, { content }).then(
    (output) => ({ output }),
    ({ code, message }) => ({ error: { code, message } }),
  );
}

/** What a job ends with, done by the worker of this test. */
async function resultOf(url: string, headers: Readonly<Record<string, string>>): Promise<Answer> {
  for (;;) {
    const { state, outcome, result, error } = (await at.app.inject({ url, headers })).json();
    if (state === 'finished') return outcome === 'done' ? { output: result } : { error };
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Without what differs between runs: the name that each interface has for itself, who asked, and the clock. */
const alike = (answer: Answer, name: string | null): unknown =>
  JSON.parse(
    JSON.stringify('error' in answer ? { code: answer.error.code, message: answer.error.message } : answer.output)
      .replaceAll(name ?? '\0', 'NAME')
      .replaceAll(`"by":"${userInfo().username}"`, '"by":"http"')
      .replace(/troupe_[0-9A-Za-z]{11}_[0-9A-Za-z]{49}/g, 'KEY')
      .replace(/"by":"[0-9A-Za-z]{11}"/g, '"by":"http"')
      .replace(/"lookup":"[0-9A-Za-z]{11}"/g, '"lookup":"LOOKUP"')
      .replace(/"attempts":\d+/g, '"attempts":0')
      .replace(/"release_id":"[0-9a-f]{16}"/g, '"release_id":"RELEASE"')
      // A job is in the log too.
      .replace(/"events":[1-9]\d*,"archived"/, '"events":0,"archived"')
      .replace(/"(seconds|minutes)":[\d.]+/g, '"$1":0')
      .replace(/"file":"[^"]*"(,"bytes":\d+)?/g, '"file":"FILE"')
      .replace(/"fresh":false/g, '"fresh":true')
      .replace(/20\d\d-\d\d-\d\dT[\d:.]+Z/g, 'TIME'),
  );

/** A command names the option and what was written, the other interfaces the field and its value. */
const namesOption = (answer: unknown): boolean =>
  /^(?:option ')?--/.test((answer as { message?: string }).message ?? '');

it('every operation is named as its file and its export, and its examples fit its input', async () => {
  for (const noun of Object.keys(NOUNS)) {
    const module = await NOUNS[noun as keyof typeof NOUNS]();
    expect(Object.entries(module).map(([name, one]) => [nounOf(one), methodOf(one) || noun, name])).toEqual(
      Object.keys(module).map((name) => [noun, name, name]),
    );
    for (const one of await operationsOf(noun)) {
      expect([one.name, one.about]).toEqual([one.name, expect.stringMatching(/^[a-z].*[^.]$/s)]);
      for (const example of one.examples) inputOf(one, example);
    }
  }
});

it('every operation has a case here', () => {
  const covered = CASES.map(([name]) => name);
  expect(operations.map(({ name }) => name).filter((name) => !covered.includes(name))).toEqual([]);
});

it.each(CASES.map(([name, inputFor, check], i) => ({ i, name, inputFor, check })))(
  '$name gives one answer by every interface ($i)',
  async ({ name, inputFor, check }) => {
    const operation = operations.find((one) => one.name === name)!;
    const answers: unknown[] = [];
    const interfaces = overHttp(operation) === null ? (['command', 'library'] as const) : INTERFACES;
    for (const by of interfaces) {
      await at.project();
      const input = inputFor(`x-${by}`);
      answers.push(
        alike(
          await answerOf(by, operation, input),
          Object.values(input).some((value) => String(value).includes(`x-${by}`)) ? `x-${by}` : null,
        ),
      );
    }
    const [first, ...others] = answers;
    for (const [i, other] of others.entries())
      expect([interfaces[i + 1], other]).toEqual([interfaces[i + 1], namesOption(first) ? others[0] : first]);
    for (const answer of answers) expect(answer).toMatchObject(check);
  },
  60_000,
);
