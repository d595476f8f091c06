/**
 * P46, the part of time: how long a key that is unknown, revoked, expired or malformed is refused, over HTTP, in turns. Times are
 * reported, not checked: on a machine that does other work the smallest difference that is not chance is larger than any here.
 */
import { join } from 'node:path';
import { buildApp } from '../api/http/app.ts';
import { openKeyRing } from '../api/http/key-ring.ts';
import { serve } from '../api/http/serve.ts';
import { type Context, withContext } from '../cli/context.ts';
import { newKey } from '../store/keys/api-key.ts';
import { createKey, revokeKey } from '../store/keys/api-keys.ts';
import type { Outcome, Proof, Setting } from './proof.ts';

export const proof: Proof = {
  name: 'refused-keys',
  needs: [],
  async run(setting: Setting): Promise<Outcome> {
    const { DATABASE_URL: before } = process.env;
    delete process.env.DATABASE_URL;
    try {
      return await withContext({ home: join(setting.scratch, 'home') }, (context) => measure(context, setting));
    } finally {
      if (before !== undefined) process.env.DATABASE_URL = before;
    }
  },
};

async function measure({ db, log, book, artifacts }: Context, { short, say }: Setting): Promise<Outcome> {
  const make = (name: string, expiresAt: Date | null) => createKey(db, { name, scopes: ['read'], expiresAt });
  await make('live', null);
  const revoked = await make('revoked', null);
  await revokeKey(db, revoked.lookup);
  const expired = await make('expired', new Date(Date.now() - 1000));
  const kinds = { unknown: newKey().text, revoked: revoked.text, expired: expired.text, malformed: 'x'.repeat(68) };
  const nobody = () => Promise.reject(new Error('nobody speaks'));
  const policyServers = { models: async () => [], sample: nobody, prompt: nobody };
  const parts = { db, log, book, artifacts, policyServers, keys: openKeyRing(db) };
  const app = await buildApp({ ...parts, project: 'keys', version: '0' });
  const { url, close } = await serve(app, { host: '127.0.0.1', port: 0 });
  const times: Record<string, number[]> = {};
  const answers = new Set<string>();
  const tries = short ? 200 : 10_000;
  const order = Object.entries(kinds);
  for (let i = -50; i < tries; i++) {
    // Each is first as often as last.
    for (let k = 0; k < order.length; k++) {
      const [kind, key] = order[(k + Math.max(i, 0)) % order.length]!;
      const began = performance.now();
      const answer = await fetch(`${url}/v1/episodes`, { headers: { authorization: `Bearer ${key}` } });
      const { request_id: _, ...body } = (await answer.json()) as Record<string, unknown>;
      if (i < 0) continue;
      times[kind] ??= [];
      times[kind].push(performance.now() - began);
      answers.add(JSON.stringify([answer.status, body]));
    }
  }
  await close();
  const lines = Object.entries(times).map(([kind, all]) => {
    const sorted = all.toSorted((a, b) => a - b);
    const at = (share: number) => sorted[Math.floor(share * sorted.length)]!.toFixed(3);
    return `info  ${kind}: p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, largest distance of distributions ${gap(sorted, times.unknown!).toFixed(4)}`;
  });
  const same = answers.size === 1;
  lines.push(`${same ? 'ok' : 'NOT OK'}  ${4 * tries} refusals have the same status and body`);
  lines.push(`info  distances below ${(1.63 * Math.sqrt(2 / tries)).toFixed(4)} are chance (Kolmogorov–Smirnov, 1 %)`);
  for (const line of lines) say(line);
  return { ok: same, lines };
}

/** The largest distance of two empirical distributions (Kolmogorov–Smirnov). */
function gap(sorted: readonly number[], other: readonly number[]): number {
  const theirs = other.toSorted((a, b) => a - b);
  let largest = 0;
  let k = 0;
  for (const [i, value] of sorted.entries()) {
    while (k < theirs.length && theirs[k]! <= value) k++;
    largest = Math.max(largest, Math.abs((i + 1) / sorted.length - k / theirs.length));
  }
  return largest;
}
