/** What Prometheus reads, and the alerts and the dashboard that ask for it. */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { databaseMetrics, projectMetrics, prometheusText } from '../../api/health/metrics.ts';
import { metricsOfRoles, observe, processCounts, processMetrics } from '../../api/health/prometheus.ts';
import { serveMetrics } from '../../cli/processes/metrics-server.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { openPool } from '../../store/db/pool.ts';
import { type OnBatch, runProjector } from '../../store/projecting/projector.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { requestJob } from '../../store/queue/jobs/jobs.ts';
import { registerProcess } from '../../store/queue/jobs/processes.ts';
import { expectBelow } from '../support/measured.ts';
import { anEvent, post, type TestApp, testApp } from './support/app.ts';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

let at: TestApp;
let leave: () => Promise<void>;
beforeAll(async () => {
  at = await testApp();
  await post(at.app, '[1]');
  await post(at.app, anEvent('first'));
  await at.project();
  leave = await registerProcess(at.db, { processId: 'infer-1', role: 'infer', policy: 'team' });
});
afterAll(async () => {
  await leave();
  await at.close();
});

const scraped = async (): Promise<string> => (await at.app.inject('/metrics')).body;
/** The value of the one sample that begins with this. */
const value = (text: string, sample: string): number | null => {
  const line = text.split('\n').find((one) => one.startsWith(`${sample} `));
  return line === undefined ? null : Number(line.slice(sample.length + 1));
};
/** A log outside the database that ends there. */
const topic = (end: number) => ({
  ...postgresLog(at.db),
  name: 'topic',
  partitions: async () => [{ partition: 0, begin: 0, end }],
});

describe('/metrics', () => {
  it('has the process, and how long requests took by route', async () => {
    const text = await scraped();
    expect(value(text, 'process_resident_memory_bytes')).toBeGreaterThan(10_000_000);
    expect(text).toMatch(/^nodejs_eventloop_lag_p99_seconds /m);
    const count = 'troupe_http_request_duration_seconds_count{method="POST",route="/v1/events"}';
    const before = value(text, count)!;
    await post(at.app, anEvent('second'));
    expect(value(await scraped(), count)).toBe(before + 1);
  });

  it('says how old the oldest event is that is not in the tables, and 0 where all are', async () => {
    await at.project();
    expect(value(await scraped(), 'troupe_oldest_unprojected_seconds')).toBe(0);
    await post(at.app, anEvent('old'));
    await at.db.query(`update troupe.events set recorded_at = recorded_at - interval '1 hour' where id = 'old'`);
    await post(at.app, anEvent('new', 'another'));
    const age = value(await scraped(), 'troupe_oldest_unprojected_seconds');
    expect(age).toBeGreaterThanOrEqual(3600);
    expect(age).toBeLessThan(4800);
    await at.project();
    expect(value(await scraped(), 'troupe_oldest_unprojected_seconds')).toBe(0);
  });

  it('has how long events waited for their rows', async () => {
    await at.project();
    await post(at.app, anEvent('waited', 'waiting'));
    await at.db.query(`update troupe.events set recorded_at = recorded_at - interval '100 s' where id = 'waited'`);
    await post(at.app, anEvent('fresh', 'waiting'));
    const stop = new AbortController();
    const delays: number[] = [];
    const onBatch: OnBatch = (batch, took) => {
      observe.batch(batch, took);
      delays.push(batch.delay);
      stop.abort();
    };
    const before = value(await scraped(), 'troupe_projection_delay_seconds_sum')!;
    await runProjector(at.db, { signal: stop.signal, onBatch });
    expect(delays).toEqual([expect.closeTo(105, -1)]);
    expect(value(await scraped(), 'troupe_projection_delay_seconds_sum')).toBeGreaterThan(before + 99);
  });

  it('has how far a rebuild is, only while one runs', async () => {
    await at.project();
    const progress = async () => value(await scraped(), 'troupe_rebuild_progress');
    expect(await progress()).toBeNull();
    const seen: (number | null)[] = [];
    await rebuild(at.db, {
      judge: async () => {
        seen.push(await progress());
      },
    });
    expect(seen[0]).toBe(1);
    expect(await progress()).toBeNull();
  });

  it('counts the jobs that are not finished, with the age of the oldest', async () => {
    const context = { db: at.db, log: postgresLog(at.db), now: () => new Date() };
    for (const job_id of ['one', 'two']) await requestJob(context, { job_id, kind: 'sum', spec: {} });
    await at.db.query(
      `update troupe.job_queue set requested_at = clock_timestamp() - interval '10 min' where job_id = 'one'`,
    );
    const text = await scraped();
    expect(value(text, 'troupe_jobs{kind="sum",state="waiting"}')).toBe(2);
    expect(value(text, 'troupe_oldest_job_seconds{kind="sum",state="waiting"}')).toBeGreaterThanOrEqual(600);
  });

  it('has the lag of a partition below 0 where more was read than it holds', async () => {
    const lag = async (end: number) =>
      value(
        prometheusText(await projectMetrics(at.db, topic(end))),
        'troupe_log_lag_records{log="topic",partition="0"}',
      );
    expect(await lag(5)).toBe(5);
    await at.db.query(`insert into troupe.logs (log, name, partitions) values (7, 'topic', 1)`);
    await at.db.query(
      `insert into troupe.positions (projection, log, partition, position) values ('archive', 7, 0, 9)`,
    );
    expect(await lag(12)).toBe(3);
    expect(await lag(5)).toBe(-4);
  });

  it('of a process that only takes events has nothing that lies in the database', async () => {
    const endpoint = await testApp({ ingestOnly: true });
    const text = (await endpoint.app.inject('/metrics')).body;
    expect(text).toContain('process_cpu_seconds_total');
    expect(text).not.toMatch(/^troupe_(ingest|log|projected|jobs|table)/m);
    await endpoint.close();
  });

  it('says that the database is away where it holds the connection and says nothing', async () => {
    const away = /^# HELP troupe_database_up .*\n# TYPE troupe_database_up gauge\ntroupe_database_up 0\n$/;
    await at.db.transaction(async (tx) => {
      await tx.query('lock table troupe.ingest_counters in access exclusive mode');
      const began = performance.now();
      expect(prometheusText(await projectMetrics(at.db, postgresLog(at.db)))).toMatch(away);
      expectBelow(performance.now() - began, 9000);
      expect(prometheusText(await databaseMetrics(at.db))).toContain('\ntroupe_database_up 1\n');
    });
    const nowhere = openPool('postgresql://nobody@127.0.0.1:1/none');
    expect(prometheusText(await databaseMetrics(nowhere))).toMatch(away);
    await nowhere.close();
  }, 30_000);

  it('says that the database is away, and of what lies in it nothing', async () => {
    const nowhere = openPool('postgresql://nobody@127.0.0.1:1/none');
    expect(prometheusText(await projectMetrics(nowhere, postgresLog(nowhere)))).toMatch(
      /^# HELP troupe_database_up .*\n# TYPE troupe_database_up gauge\ntroupe_database_up 0\n$/,
    );
    await nowhere.close();
  });
});

describe('--metrics-port', () => {
  it('answers /metrics, /healthz and /readyz of a process without an API, and names nothing that was recorded', async () => {
    const context = { db: at.db, log: postgresLog(at.db), config: { host: '127.0.0.1' } };
    const server = await serveMetrics(context as never, { role: 'judge', port: 0, metrics: processMetrics });
    const ask = async (path: string) => {
      const answer = await fetch(`${server.url}${path}`);
      return [answer.status, await answer.text()] as const;
    };
    expect((await ask('/metrics'))[1]).toContain('process_cpu_seconds_total');
    expect(JSON.parse((await ask('/healthz'))[1])).toMatchObject({ status: 'ok', role: 'judge' });
    const [status, ready] = await ask('/readyz');
    expect([status, JSON.parse(ready)]).toEqual([
      200,
      { status: 'ready', database: 'ok', schema: 'current', log: 'ok' },
    ]);
    expect((await ask('/v1/episodes'))[0]).toBe(404);
    const port = Number(new URL(server.url).port);
    const noHttp = await text(connect(port, '127.0.0.1').end('NO HTTP\r\n\r\n'));
    expect(noHttp).toMatch(/^HTTP\/1.1 400 [\s\S]*problem\+json[\s\S]*Connection: close/);
    await expect(serveMetrics(context as never, { role: 'work', port, metrics: processMetrics })).rejects.toMatchObject(
      { code: 'port_taken' },
    );
    server.close();
  });
});

describe('The metrics of several processes', () => {
  it('are one text, in which a label names the process of each series', async () => {
    const before = value(await processMetrics(), 'troupe_projector_events_total') ?? 0;
    observe.batch({ events: 7, keys: [], delay: 0.3 }, 0.02);
    observe.job({ job_id: 'one', kind: 'counted' }, 'done', 4);
    const counts = await processCounts();
    const text = await metricsOfRoles([
      { labels: { role: 'project' }, counts },
      { labels: { role: 'infer', policy: 'solver' }, counts },
      { labels: { role: 'judge' }, counts: null },
    ]);
    expect(value(text, 'troupe_projector_events_total{role="project"}')).toBe(before + 7);
    expect(
      value(text, 'troupe_job_duration_seconds_count{kind="counted",outcome="done",role="infer",policy="solver"}'),
    ).toBe(1);
    expect(value(text, 'troupe_role_up{role="infer",policy="solver"}')).toBe(1);
    expect(value(text, 'troupe_role_up{role="judge"}')).toBe(0);
    expect(text.match(/^process_start_time_seconds\{/gm)).toHaveLength(2);
  });
});

type Asked = { readonly where: string; readonly expression: string };
const alerts = (parse(read('docker/alerts.yaml')) as { groups: { rules: { alert: string; expr: string }[] }[] }).groups
  .flatMap(({ rules }) => rules)
  .map(({ alert, expr }): Asked => ({ where: alert, expression: expr }));
const panels = (
  JSON.parse(read('docker/grafana.json')) as { panels: { title: string; targets: { expr: string }[] }[] }
).panels.flatMap(({ title, targets }) => targets.map(({ expr }): Asked => ({ where: title, expression: expr })));

describe('What docker/alerts.yaml and docker/grafana.json ask for is in the output', () => {
  let text: string;
  beforeAll(async () => {
    const roles = await metricsOfRoles([{ labels: { role: 'judge' }, counts: null }]);
    text = (await scraped()) + prometheusText(await projectMetrics(at.db, topic(5))) + roles;
  });

  it('asks for something', () => {
    expect(alerts.length).toBeGreaterThan(5);
    expect(panels.length).toBeGreaterThan(10);
  });

  it.each([...alerts, ...panels])('$where: $expression', ({ expression }) => {
    const names = [...new Set(expression.match(/\b(?:troupe|process|nodejs)_\w+/g))];
    expect(names.length).toBe(1);
    const samples = text
      .split('\n')
      .filter((line) => line.startsWith(`${names[0]}{`) || line.startsWith(`${names[0]} `));
    expect(samples).not.toEqual([]);
    // Labels that it selects or groups by.
    const selected = [...expression.matchAll(/[{,]\s*(\w+)\s*=~?"/g)].map(([, label]) => label!);
    const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(/,\s*/));
    for (const label of [...selected, ...grouped]) expect(samples[0]).toContain(`${label}="`);
  });
});
