/**
 * `bench sql`: queries through `POST /v1/sql`, one after another, against the same queries by the driver alone over one connection. What
 * is measured is what the guard, its transaction, HTTP and JSON add.
 */
import { join } from 'node:path';
import { buildApp } from '../api/http/app.ts';
import { openKeyRing } from '../api/http/key-ring.ts';
import { serve } from '../api/http/serve.ts';
import { withContext } from '../cli/context.ts';
import { openReader } from '../store/db/reader.ts';
import type { Bench } from './bench.ts';
import { compared, interleave, type Result, type Side } from './harness.ts';
import { summary } from './statistics.ts';

const QUERIES_A_ROUND = 30;

const QUERIES: readonly { readonly name: string; readonly sql: string }[] = [
  {
    name: 'one row, some 10 ms',
    sql: 'select count(*)::integer as n, sum(a % 7)::integer as s from generate_series(1, 70000) a',
  },
  { name: '10,000 rows', sql: `select a, 'row ' || a as name, a % 2 = 0 as even from generate_series(1, 10000) a` },
];

export const bench: Bench = {
  name: 'sql',
  about: 'queries over HTTP, queries/s one after another, against the driver alone',
  async run({ rounds, scratch, say }): Promise<Result[]> {
    const { DATABASE_URL: before } = process.env;
    delete process.env.DATABASE_URL;
    try {
      return await withContext({ home: join(scratch, 'home') }, async (context) => {
        const { db, log, book, artifacts, database } = context;
        const nobody = () => Promise.reject(new Error('no policy is asked'));
        const policyServers = { models: async () => [], sample: nobody, prompt: nobody };
        const reader = await openReader(database);
        const parts = { db, log, book, artifacts, policyServers, keys: openKeyRing(db), reader: async () => reader };
        const app = await buildApp({ ...parts, project: 'bench', version: '0' });
        const { url, close } = await serve(app, { host: '127.0.0.1', port: 0 });
        const overHttp = async (sql: string): Promise<unknown[]> => {
          const headers = { 'content-type': 'application/json' };
          const answer = await fetch(`${url}/v1/sql`, { method: 'POST', headers, body: JSON.stringify({ sql }) });
          return ((await answer.json()) as { rows: unknown[] }).rows;
        };
        const alone = async (sql: string): Promise<unknown[]> => (await db.query(sql, undefined, { array: true })).rows;
        try {
          const results: Result[] = [];
          for (const { name, sql } of QUERIES) {
            const equal = JSON.stringify(await overHttp(sql)) === JSON.stringify(await alone(sql));
            const [ours, other] = [sideOf('HTTP', () => overHttp(sql)), sideOf('driver', () => alone(sql))];
            const { measured, disturbed } = await interleave([ours, other], {
              rounds,
              onRound: (line) => say(`sql ${name}: ${line}`),
            });
            const [p50, p50Alone] = [summary(ours.latencies).median, summary(other.latencies).median];
            const about = {
              case: name,
              unit: 'queries/s',
              disturbed,
              more: { p50_ms: p50, p50_ms_driver: p50Alone, added_ms: p50 - p50Alone },
            };
            results.push(
              compared(
                about,
                measured[0]!,
                { what: 'the driver alone', measured: measured[1]! },
                { equal, how: equal ? 'the same rows' : 'the rows differ' },
              ),
            );
          }
          return results;
        } finally {
          await close();
          await reader?.close();
        }
      });
    } finally {
      if (before !== undefined) process.env.DATABASE_URL = before;
    }
  },
};

/** Queries one after another, with the milliseconds of each. */
function sideOf(name: string, query: () => Promise<unknown[]>): Side & { readonly latencies: number[] } {
  const latencies: number[] = [];
  return {
    name,
    latencies,
    round: async () => {
      const [cpu, began] = [process.cpuUsage(), performance.now()];
      for (let i = 0; i < QUERIES_A_ROUND; i++) {
        const start = performance.now();
        await query();
        latencies.push(performance.now() - start);
      }
      const { user, system } = process.cpuUsage(cpu);
      return {
        work: QUERIES_A_ROUND,
        seconds: (performance.now() - began) / 1000,
        cpuSeconds: (user + system) / 1e6,
      };
    },
  };
}
