/**
 * The same runs, recorded by the gateway, as spans, in files and by the recorder: every query of the pages runs on each of these homes, and
 * those that depend on an order have the answer that the plan gives.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { fileArtifacts } from '../../../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../../../ingest/log/postgres.ts';
import { createRecorder } from '../../../ingest/recorder/recorder.ts';
import { ask } from '../../../store/explore/sql/sql.ts';
import { post, type TestApp, testApp } from '../../api/support/app.ts';
import { agent, chat, message, request, spanId, TRACE, text } from '../../ingest/support/spans.ts';

type Run = { readonly agents: readonly string[]; readonly mistake: number | null };
const cycle = (length: number): string[] =>
  Array.from({ length }, (_, i) => ['router', 'worker', 'checker'][i % 3] as string);
const RUNS: readonly Run[] = [
  { agents: cycle(3), mistake: null },
  { agents: cycle(11), mistake: 10 },
  { agents: ['router', 'checker', 'worker', 'checker'], mistake: 1 },
  { agents: ['router', 'worker', 'router', 'checker', 'worker', 'router', 'checker', 'router'], mistake: 5 },
];

/** Ids that a home gave the episodes, and the calls of each in order. */
type Recorded = readonly { readonly episode: string; readonly calls: readonly string[] }[];
const says = (at: number): string => `Answer ${at}.`;
const sent = { messages: [{ role: 'user', content: 'How far?' }] };

const envelope = (name: string, id: string, data: object) => ({
  ...{ specversion: '1.0', source: '/test', type: `troupe.${name}.v1`, time: '2026-11-27T10:00:00Z' },
  ...{ id, data },
});

async function byGateway(at: TestApp): Promise<Recorded> {
  const recorded: { episode: string; calls: string[] }[] = [];
  for (const [i, { agents }] of RUNS.entries()) {
    const [episode, calls] = [`run-${i}`, [] as string[]];
    for (const name of agents) {
      const headers = { 'troupe-episode': episode, 'troupe-agent': name };
      const answer = await post(at.app, { model: 'policy:solver', ...sent }, headers, '/v1/chat/completions');
      calls.push(String(answer.headers['troupe-call-id']));
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
const queryOf = (page: string, heading: string): string =>
  new RegExp(`## ${heading.replace('?', '\\?')}\\n[\\s\\S]*?\`\`\`sql.*\\n([\\s\\S]*?)\`\`\``).exec(
    readFileSync(join(docs, page), 'utf8'),
  )![1]!;
const counted = (keys: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const key of keys) counts[key] = (counts[key] ?? 0) + 1;
  return counts;
};

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
    const judged = RUNS.flatMap(({ mistake }, i) => {
      const { episode, calls } = recorded[i]!;
      const target = { kind: 'episode', id: episode };
      const feedback = { episode_id: episode, kind: 'reward', name: 'reward', value: mistake === null ? 1 : 0 };
      const reward = { feedback_id: `reward-${i}`, target, ...feedback };
      const failure = {
        kind: 'failure',
        name: 'mistake',
        by: 'human',
        target: { kind: 'step', id: `${calls[mistake ?? 0]}/0`, episode_id: episode },
      };
      return [
        envelope('feedback.recorded', `reward-${i}`, reward),
        ...(mistake === null
          ? []
          : [
              envelope('feedback.recorded', `mistake-${i}`, {
                episode_id: episode,
                feedback_id: `mistake-${i}`,
                ...failure,
              }),
            ]),
      ];
    });
    const answer = await post(at.app, judged);
    expect(answer.json()).toMatchObject({ rejected: 0 });
    await at.project();
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

  it('knows which agent makes a call after which', async () => {
    const sql = queryOf('analysis.md', 'Which agent makes a call after which?').replace(/ limit \d+\s*$/, '');
    const found = (await rows(sql)).map(({ agent, next_agent, times }) => [`${agent} → ${next_agent}`, Number(times)]);
    const expected = counted(RUNS.flatMap(({ agents }) => agents.slice(1).map((next, k) => `${agents[k]} → ${next}`)));
    expect(Object.fromEntries(found)).toEqual(expected);
  });

  it('knows how early runs are lost', async () => {
    const found = await rows(queryOf('analysis.md', 'How early are runs lost?'));
    const lost = RUNS.filter(({ mistake }) => mistake !== null);
    const quarters = lost.map(({ agents, mistake }) => `${Math.floor((4 * mistake!) / agents.length) + 1}`);
    expect(Object.fromEntries(found.map(({ quarter, mistakes }) => [quarter, Number(mistakes)]))).toEqual(
      counted(quarters),
    );
  });

  it('knows who does the work', async () => {
    const found = await rows('select episode_id, agent, steps from report.agent_shares order by 1, 2');
    const shares = RUNS.flatMap(({ agents }, i) =>
      Object.entries(counted(agents)).map(([agent, steps]) => `${recorded[i]!.episode} ${agent} ${steps}`),
    );
    expect(found.map(({ episode_id, agent, steps }) => `${episode_id} ${agent} ${steps}`).sort()).toEqual(
      shares.sort(),
    );
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
