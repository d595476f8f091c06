/**
 * The same runs, recorded by the gateway, as spans, in files and by the recorder: every query of the pages runs on each of these homes, and
 * answers what the runs themselves say.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { fileArtifacts } from '../../../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../../../ingest/log/postgres.ts';
import { createRecorder } from '../../../ingest/recorder/recorder.ts';
import { judge } from '../../../store/evaluate/judging/judge.ts';
import { ask } from '../../../store/explore/sql/sql.ts';
import { post, type TestApp, testApp } from '../../api/support/app.ts';
import { agent, chat, message, request, spanId, TRACE, text } from '../../ingest/support/spans.ts';
import { plainAnswers, type Run } from './plain-answers.ts';

type Story = Omit<Run, 'episode' | 'attempt' | 'texts' | 'tokens'>;
const cycle = (length: number): string[] =>
  Array.from({ length }, (_, i) => ['router', 'worker', 'checker'][i % 3] as string);
const run = (agents: readonly string[], task: string, reward: number | null, more: Partial<Story> = {}): Story => ({
  ...{ agents, task, reward, mistake: null, answer: '42', budget: null, tidy: {}, right: {}, tools: [] },
  ...more,
});
const RUNS: readonly Story[] = [
  run(cycle(3), 'a', 1, {
    tools: [['search', 1, 'ok']],
    budget: 3,
    tidy: { 0: 1, 1: 0.5 },
    right: { 0: false, 1: true },
  }),
  run(cycle(11), 'a', 0, { mistake: 10, answer: '41', tidy: { 0: 1, 1: 0.25, 2: -1 } }),
  run(['router', 'checker', 'worker', 'checker'], 'b', 0, {
    ...{ mistake: 1, budget: 3, right: { 0: true, 1: false } },
    tools: [
      ['search', 1, 'ok'],
      ['search', 1, 'ok'],
      ['compute', 1, 'error'],
      ['compute', 2, null],
    ],
  }),
  run(['router', 'worker', 'router', 'checker', 'worker', 'router', 'checker', 'router'], 'b', 0, { mistake: 5 }),
  run(cycle(4), 'c', 1, { tools: [['compute', 1, 'ok']] }),
  run(['router', 'worker'], 'c', 1),
  run(['worker', 'checker', 'worker'], 'c', 0, { mistake: 0, answer: '40' }),
  run(['router', 'checker'], 'a', null),
  run(['worker', 'worker'], 'b', 1),
];

/** Ids that a home gave the episodes, and the calls of each in order. */
type Recorded = readonly { readonly episode: string; readonly calls: readonly string[] }[];
/** How many runs of its task came before it. */
const attemptOf = (i: number): number => RUNS.slice(0, i).filter(({ task }) => task === RUNS[i]!.task).length;
const says = (at: number): string => `Answer ${at}.`;
const sent = { messages: [{ role: 'user', content: 'How far?' }] };

const envelope = (name: string, id: string, data: object) => ({
  ...{ specversion: '1.0', source: '/test', type: `troupe.${name}.v1`, time: '2027-01-01T10:00:00Z' },
  ...{ id, data },
});

/** What the policy answers every time. */
let scripted = '';
async function byGateway(at: TestApp): Promise<Recorded> {
  const recorded: { episode: string; calls: string[] }[] = [];
  for (const [i, { agents }] of RUNS.entries()) {
    const [episode, calls] = [`run-${i}`, [] as string[]];
    for (const name of agents) {
      const headers = { 'troupe-episode': episode, 'troupe-agent': name };
      const answer = await post(at.app, { model: 'policy:solver', ...sent }, headers, '/v1/chat/completions');
      calls.push(String(answer.headers['troupe-call-id']));
      scripted = answer.json().choices[0].message.content;
    }
    recorded.push({ episode, calls });
  }
  return recorded;
}

/** Spans arrive when they end, the outer ones last: here all in the reverse order of their beginning. */
async function bySpans(at: TestApp): Promise<Recorded> {
  for (const [i, { agents }] of RUNS.entries()) {
    const spans = agents.flatMap((name, k) => [
      agent({ id: 2 * k + 1, at: k, until: k + 0.5 }, name),
      chat({ id: 2 * k + 2, parent: 2 * k + 1, at: k, until: k + 0.4 }, [message('assistant', text(says(k)))]),
    ]);
    for (const one of spans.reverse()) {
      const body = JSON.parse(JSON.stringify(request([one])).replaceAll(TRACE, traceOf(i)));
      expect((await post(at.app, body, {}, '/v1/traces')).statusCode).toBe(200);
    }
  }
  return RUNS.map(({ agents }, i) => ({ episode: traceOf(i), calls: agents.map((_, k) => spanId(2 * k + 2)) }));
}
const traceOf = (i: number): string => `${i + 1}`.padStart(32, 'e');

/** One line a call, the last first. */
async function byFiles(at: TestApp): Promise<Recorded> {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-homes-'));
  const lines = RUNS.flatMap(({ agents }, i) =>
    agents.map((name, step) => ({
      request: { model: 'm1', ...sent, metadata: { run_id: `run-${i}`, agent: name, step } },
      response: { choices: [{ index: 0, message: { role: 'assistant', content: says(step) } }] },
    })),
  );
  const file = join(folder, 'calls.jsonl');
  writeFileSync(
    file,
    lines
      .reverse()
      .map((line) => `${JSON.stringify(line)}\n`)
      .join(''),
  );
  await importFiles([file], { log: postgresLog(at.db), book: postgresBook(at.db), artifacts: fileArtifacts(folder) });
  rmSync(folder, { recursive: true });
  await at.project();
  const { rows } = await at.db.query<{ episode_id: string; call_id: string }>(
    'select episode_id, call_id from traj.steps order by episode_id, seq',
  );
  return RUNS.map((_, i) => ({
    episode: `run-${i}`,
    calls: rows.filter((row) => row.episode_id === `run-${i}`).map((row) => row.call_id),
  }));
}

/** Nothing gives a time or a number: the recorder's clock is the order, though all of it passes within a few milliseconds. */
async function byRecorder(at: TestApp): Promise<Recorded> {
  const baseUrl = await at.app.listen({ host: '127.0.0.1', port: 0 });
  const recorder = createRecorder({ baseUrl, source: '/team' });
  const recorded = RUNS.map(({ agents }, i) => {
    const episode_id = `run-${i}`;
    recorder.episode({ episode_id });
    const calls = agents.map((agent_id, k) => recorder.step({ episode_id, agent_id, model: 'm1', choices: [says(k)] }));
    return { episode: episode_id, calls };
  });
  await recorder.flush();
  return recorded;
}

const METHODS = [
  { method: 'grpo_advantage' },
  { method: 'grpo_advantage', params: { scale_std: false } },
  ...['drmas_advantage', 'rloo_advantage', 'magrpo_returns'].map((method) => ({ method })),
];
/** Two of one name are told apart by a hash of their parameters. */
const ORDERS = [
  ['drmas', 'grpo', 'dr_grpo', 'magrpo', 'rloo'],
  ['drmas', 'dr_grpo', 'grpo', 'magrpo', 'rloo'],
] as const;
const HOMES = { gateway: byGateway, spans: bySpans, files: byFiles, recorder: byRecorder } as const;

const docs = join(import.meta.dirname, '../../../docs');
/** Queries of DuckDB, and those with a parameter, are not asked as they stand. */
const queries = readdirSync(docs)
  .filter((name) => name.endsWith('.md'))
  .flatMap((name) =>
    [...readFileSync(join(docs, name), 'utf8').matchAll(/```sql.*\n([\s\S]*?)```/g)].map(([, sql]) => ({
      name,
      sql: sql!,
    })),
  )
  .filter(({ sql }) => !sql.startsWith('install') && !sql.includes(':episode'));
/** What stands under the headings of the page, each with its queries. */
const sections = readFileSync(join(docs, 'analysis.md'), 'utf8').split(/^## /m).slice(1);
const queriesUnder = (heading: string): string[] =>
  [...sections.find((one) => one.startsWith(heading))!.matchAll(/```sql.*\n([\s\S]*?)```/g)].map(([, sql]) => sql!);
const headings = sections.map((one) => one.split('\n', 1)[0]!).filter((one) => queriesUnder(one).length > 0);
/** What every run of a home has alike. */
const ALIKE = ['team_id', 'team', 'split', 'policy', 'weights', 'single_weights'];
/** Rows in any order; sums of the same numbers in another order differ in their last digits. */
const plain = (rows: readonly Readonly<Record<string, unknown>>[]): string[] =>
  rows
    .map((row) =>
      Object.entries(row)
        .filter(([name]) => !ALIKE.includes(name))
        .map(([name, value]) => {
          const isNumber =
            value !== null && typeof value !== 'boolean' && value !== '' && Number.isFinite(Number(value));
          return `${name} ${isNumber ? Number(Number(value).toPrecision(7)) : value}`;
        })
        .sort()
        .join(', '),
    )
    .sort();
describe.each(Object.entries(HOMES))('a home of the %s', (_, recordIn) => {
  let at: TestApp;
  let recorded: Recorded;
  const rows = async (sql: string) => {
    const answer = await ask(at.db, sql);
    return answer.rows.map((row) => Object.fromEntries(row.map((value, i) => [answer.columns[i]!.name, value])));
  };

  beforeAll(async () => {
    at = await testApp();
    recorded = await recordIn(at);
    const told = RUNS.flatMap((one, i) => {
      const { episode: episode_id, calls } = recorded[i]!;
      const say = (name: string, id: string, data: object) => envelope(name, `${id}-${i}`, { episode_id, ...data });
      const feedback = (id: string, data: object) =>
        say('feedback.recorded', id, { feedback_id: `${id}-${i}`, ...data });
      const step = (n: number) => ({ kind: 'step', id: `${calls[n]}/0`, episode_id });
      const group_size = RUNS.filter(({ task }) => task === one.task).length;
      return [
        say('episode.started', 'started', {
          ...{ task_id: one.task, group_id: one.task, group_size, attempt: attemptOf(i) },
          ...(one.budget === null ? {} : { budgets: { tool_calls: one.budget } }),
        }),
        say('episode.finished', 'finished', { answer: one.answer, outcome: 'unknown' }),
        ...(one.reward === null
          ? []
          : [
              feedback('reward', {
                ...{ target: { kind: 'episode', id: episode_id }, kind: 'reward', name: 'reward', value: one.reward },
              }),
            ]),
        ...(one.mistake === null
          ? []
          : [feedback('mistake', { kind: 'failure', name: 'mistake', by: 'human', target: step(one.mistake) })]),
        ...Object.entries(one.tidy).map(([n, value]) =>
          feedback(`tidy-${n}`, { target: step(Number(n)), kind: 'reward', name: 'tidy', value }),
        ),
        ...Object.entries(one.right).map(([n, value]) =>
          feedback(`right-${n}`, { target: step(Number(n)), kind: 'label', name: 'correct', value }),
        ),
        ...one.tools.flatMap(([name, argument, status], n) => [
          say('tool.called', `called-${n}`, {
            ...{ tool_call_id: `t${n}`, call_id: calls[0], name, arguments: { x: argument } },
          }),
          ...(status === null
            ? []
            : [say('tool.returned', `returned-${n}`, { tool_call_id: `t${n}`, status, output: '' })]),
        ]),
      ];
    });
    const answer = await post(at.app, told);
    expect(answer.json()).toMatchObject({ rejected: 0 });
    await at.project();
    const episodes = recorded.map(({ episode }) => episode);
    await judge(at.db, postgresLog(at.db), { methods: METHODS, episodes, now: () => new Date(0) });
  }, 120_000);
  afterAll(() => at.close());

  it('has a place for every step, in the order in which they were made', async () => {
    for (const [i, { agents }] of RUNS.entries()) {
      const { episode } = recorded[i]!;
      const steps = await rows(
        `select seq, agent from traj.steps where episode_id = '${episode}' order by seq, step_id`,
      );
      expect(steps.map((step) => step.agent)).toEqual(agents);
      expect(new Set(steps.map((step) => String(step.seq))).size).toBe(agents.length);
    }
    expect(await rows('select 1 as one from traj.steps where seq is null')).toEqual([]);
  });

  it('answers every query of the pages', async () => {
    expect(queries.length).toBeGreaterThan(30);
    for (const { name, sql } of queries)
      await rows(sql).catch((error: unknown) => expect.fail(`${name}: ${sql}\n${String(error)}`));
  });

  it.each(headings)('%s', async (heading) => {
    const played = RUNS.map((one, i) => ({
      ...{ ...one, episode: recorded[i]!.episode, attempt: attemptOf(i) },
      texts: one.agents.map((_, n) => (recordIn === byGateway ? scripted : says(n))),
      tokens: recordIn === byGateway ? 5 * one.agents.length : null,
    }));
    const answers = ORDERS.map((order) => plainAnswers(played, order)[heading]!);
    for (const [n, sql] of queriesUnder(heading).entries()) {
      const found = plain(await rows(sql.replace(/ limit \d+\s*$/, '')));
      const expected = answers.map((one) => plain(one[n]!));
      expect(found).toEqual(expected.find((one) => isDeepStrictEqual(one, found)) ?? expected[0]);
    }
  });

  it('rewards the last answer of a role', async () => {
    const [sql] = [...readFileSync(join(docs, 'rollouts.md'), 'utf8').matchAll(/```sql\n([\s\S]*?)```/g)][0]!.slice(1);
    for (const [i, { agents }] of RUNS.entries()) {
      const { episode, calls } = recorded[i]!;
      const last = sql!
        .replace(
          /select .* from traj.steps s join traj.tasks t using \(task_id\)/,
          'select s.call_id from traj.steps s',
        )
        .replace(':episode', `'${episode}'`)
        .replace("'solver'", "'checker'");
      const [row] = await rows(last);
      expect(row?.call_id).toBe(calls[agents.lastIndexOf('checker')]);
    }
  });
});
