/**
 * `bench gateway`: calls through the gateway, recorded, against the same calls to the model server itself. The server answers from a
 * script at once, so what is measured is what the gateway adds. Callers come one after another: it is latency that agents feel.
 */
import { join } from 'node:path';
import { readUpstreams } from '../api/gateway/upstream/settings.ts';
import { openUpstreams } from '../api/gateway/upstream/upstreams.ts';
import { buildApp } from '../api/http/app.ts';
import { openKeyRing } from '../api/http/key-ring.ts';
import { serve } from '../api/http/serve.ts';
import { withContext } from '../cli/context.ts';
import { openaiServer } from '../test/api/support/openai-server.ts';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, type Result, type Side } from './harness.ts';
import type { Measured } from './statistics.ts';

const CALLS_A_ROUND = 100;

export const bench: Bench = {
  name: 'gateway',
  about: 'calls through the gateway, recorded, calls/s one after another, against the model server itself',
  async run(settings) {
    const server = await openaiServer();
    const upstreams = openUpstreams(readUpstreams({ script: { base_url: server.baseUrl, models: ['echo'] } }, {}));
    const { DATABASE_URL: before } = process.env;
    delete process.env.DATABASE_URL;
    try {
      return await withContext({ home: join(settings.scratch, 'home') }, async (context) => {
        const { db, log, book, artifacts } = context;
        const nobody = () => Promise.reject(new Error('no policy is asked'));
        const policyServers = { models: async () => [], sample: nobody, prompt: nobody };
        const parts = { db, log, book, artifacts, policyServers, upstreams, keys: openKeyRing(db) };
        const app = await buildApp({ ...parts, project: 'bench', version: '0' });
        const { url, close } = await serve(app, { host: '127.0.0.1', port: 0 });
        try {
          const results: Result[] = [];
          for (const stream of [false, true])
            results.push(await measure({ gateway: `${url}/v1`, direct: server.baseUrl }, stream, settings));
          return results;
        } finally {
          await close();
        }
      });
    } finally {
      if (before !== undefined) process.env.DATABASE_URL = before;
      upstreams.close();
      await server.close();
    }
  },
};

async function measure(
  { gateway, direct }: { readonly gateway: string; readonly direct: string },
  stream: boolean,
  { rounds, say }: Settings,
): Promise<Result> {
  const latencies: Record<string, number[]> = { gateway: [], direct: [] };
  const answers = new Set<string>();
  const body = JSON.stringify({
    model: 'echo',
    stream,
    messages: Array.from({ length: 20 }, (_, i) => ({
      role: i % 2 ? 'assistant' : 'user',
      content: 'word '.repeat(50),
    })),
  });
  const side = (name: 'gateway' | 'direct', base: string): Side => ({
    name,
    round: async (round): Promise<Measured> => {
      const [cpu, began] = [process.cpuUsage(), performance.now()];
      for (let i = 0; i < CALLS_A_ROUND; i++) {
        const start = performance.now();
        const headers = { 'content-type': 'application/json', 'troupe-episode': `bench-${stream}-${round}` };
        const answer = await fetch(`${base}/chat/completions`, { method: 'POST', headers, body });
        answers.add(await answer.text());
        latencies[name]!.push(performance.now() - start);
      }
      const { user, system } = process.cpuUsage(cpu);
      const seconds = (performance.now() - began) / 1000;
      return { work: CALLS_A_ROUND, seconds, cpuSeconds: (user + system) / 1e6 };
    },
  });
  const sides = [side('gateway', gateway), side('direct', direct)];
  for (const { round } of sides) await round(-1);
  for (const times of Object.values(latencies)) times.length = 0;
  const { measured, disturbed } = await interleave(sides, { rounds, onRound: (line) => say(`gateway: ${line}`) });
  const more = {
    calls: `${CALLS_A_ROUND} a round, one after another, 20 messages of 250 characters`,
    milliseconds: { gateway: quantiles(latencies.gateway!), direct: quantiles(latencies.direct!) },
  };
  return compared(
    { case: stream ? 'streamed' : 'whole', unit: 'calls/s', disturbed, more },
    measured[0]!,
    { what: 'the model server itself', measured: measured[1]! },
    { equal: answers.size === 1, how: answers.size === 1 ? 'every answer the same, byte by byte' : 'answers differ' },
  );
}

function quantiles(times: readonly number[]) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number) =>
    Number(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!.toFixed(2));
  return { p50: at(0.5), p99: at(0.99) };
}
