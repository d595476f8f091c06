/**
 * `bench storage`: how many bytes the database grows by, after a vacuum, for each byte that came in, and where they lie. Bytes do not
 * depend on the machine, so there is one round and no peer.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { decodeDraft } from '../ingest/events/decode.ts';
import type { Draft } from '../ingest/events/events.ts';
import { importFiles } from '../ingest/files/import.ts';
import { cutOtlp } from '../ingest/formats/traces/live-traces.ts';
import { postgresBook, postgresLog } from '../ingest/log/postgres.ts';
import { decodeOtlp } from '../ingest/traces/otlp/decode.ts';
import { projectAll } from '../store/projecting/projector.ts';
import type { Bench } from './bench.ts';
import { type Result, unmeasured } from './harness.ts';
import { type BenchServer, startBenchServer } from './server.ts';
import { summary } from './statistics.ts';

const CALLS = 80;
const TURNS = [100, 200];

export const bench: Bench = {
  name: 'storage',
  about: 'bytes that the database grows by for a byte that comes in, and the tables that hold them',
  async run({ scratch, say }) {
    const server = await startBenchServer(scratch);
    try {
      const results = [await tauBench(server), await oneTrace(server)];
      for (const turns of TURNS) results.push(await conversation(server, turns));
      say('storage: done');
      return results;
    } finally {
      await server.close();
    }
  },
};

async function tauBench(server: BenchServer): Promise<Result> {
  const name = 'tau-bench, 140 episodes imported';
  const data = process.env.TROUPE_DATA;
  if (data === undefined)
    return unmeasured(name, {
      skipped: 'TROUPE_DATA should name the folder that holds data/tau-bench/gpt-4o-airline.json',
    });
  const path = join(data, 'data', 'tau-bench', 'gpt-4o-airline.json');
  return grown(await server.another('tau'), name, statSync(path).size, async ({ db }) => {
    // Raw records are files, and no part of the database.
    const artifacts = { put: async () => [], get: async () => null };
    await importFiles([path], { log: postgresLog(db), book: postgresBook(db), artifacts: artifacts as never });
  });
}

/** Each call sends all messages before it, as one text: 7 MB, of which 168 KB are new. */
async function oneTrace(server: BenchServer): Promise<Result> {
  const messages: object[] = [];
  const spans = Array.from({ length: CALLS }, (_, call) => {
    messages.push({ role: 'user', parts: [{ type: 'text', content: words(2 * call, 1050) }] });
    const answer = { role: 'assistant', parts: [{ type: 'text', content: words(2 * call + 1, 1050) }] };
    const attributes = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'made-up',
      'gen_ai.input.messages': JSON.stringify(messages),
      'gen_ai.output.messages': JSON.stringify([answer]),
    };
    messages.push(answer);
    return {
      traceId: '0af7651916cd43dd8448eb211c80319c',
      spanId: (call + 1).toString(16).padStart(16, '0'),
      name: 'chat made-up',
      startTimeUnixNano: `${1_789_000_000 + call}000000000`,
      endTimeUnixNano: `${1_789_000_000 + call}500000000`,
      attributes: Object.entries(attributes).map(([key, stringValue]) => ({ key, value: { stringValue } })),
    };
  });
  const request = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ scope: { name: 'bench' }, spans }] }] });
  const name = `one trace of ${CALLS} calls by OTLP`;
  return grown(await server.another('trace'), name, request.length, async ({ db }) => {
    const items = cutOtlp(decodeOtlp(JSON.parse(request)) as never);
    await postgresLog(db).append(items.flatMap(({ drafts }) => drafts.map(eventOf)));
  });
}

/** An episode of so many turns, with 500 characters of the user and as many of the model in each. */
async function conversation(server: BenchServer, turns: number): Promise<Result> {
  const input: object[] = [];
  const drafts = Array.from({ length: turns }, (_, turn) => {
    input.push({ role: 'user', content: words(2 * turn, 500) });
    const content = words(2 * turn + 1, 500);
    const call = { episode_id: 'e', call_id: `c${turn}`, agent_id: 'a', turn };
    const asked = { name: 'generation.requested', id: `${turn}-0`, data: { ...call, input: [...input] } };
    const completed = {
      name: 'generation.completed',
      id: `${turn}-1`,
      data: { ...call, choices: [{ index: 0, content }] },
    };
    input.push({ role: 'assistant', content });
    return [asked, completed].map((one) => ({ ...one, source: '/bench', time: '2026-09-10T10:00:00Z' }));
  }).flat();
  const name = `a conversation of ${turns} turns, 1,000 characters each`;
  return grown(await server.another(`turns_${turns}`), name, turns * 1000, async ({ db }) => {
    for (const draft of drafts) await postgresLog(db).append([eventOf(draft as unknown as Draft)]);
  });
}

function eventOf(draft: Draft) {
  const { event, refusal } = decodeDraft(draft);
  if (refusal) throw new Error(`${refusal.field} should be ${refusal.expected}`);
  return event;
}

/** Text that no compression makes much of, drawn from one number. */
function words(seed: number, length: number): string {
  let x = (seed * 2_654_435_761 + 1) % 4_294_967_296;
  let text = '';
  while (text.length < length) {
    x = (x * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    text += `${x.toString(36)} `;
  }
  return text.slice(0, length);
}

async function grown(
  server: BenchServer,
  name: string,
  bytes: number,
  fill: (server: BenchServer) => Promise<void>,
): Promise<Result> {
  // What a vacuum adds to an empty project (maps of free space, statistics) is not growth.
  await server.db.query('vacuum analyze');
  const before = await sizeOf(server);
  const measured = await server.measure(bytes, async () => {
    await fill(server);
    await projectAll(server.db);
  });
  await server.db.query('vacuum analyze');
  const grew = (await sizeOf(server)) - before;
  return {
    ...unmeasured(name, { skipped: 'bytes have no peer' }),
    ours: { ...summary([grew]), unit: 'bytes' },
    cpu_seconds: { ours: measured.cpuSeconds, other: null },
    seconds: { ours: measured.seconds, other: null },
    rounds: 1,
    more: { bytes_in: bytes, bytes_a_byte: grew / bytes, ...(await tablesOf(server)) },
  };
}

async function sizeOf({ db }: BenchServer): Promise<number> {
  const { rows } = await db.query<{ bytes: number }>('select pg_database_size(current_database())::float8 as bytes');
  return rows[0]!.bytes;
}

/** Kilobytes of the largest tables, with their indexes. */
async function tablesOf({ db }: BenchServer): Promise<Record<string, number>> {
  const { rows } = await db.query<{ name: string; kb: number }>(
    `select n.nspname || '.' || c.relname as name, round(pg_total_relation_size(c.oid) / 1000.0)::float8 as kb
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('troupe', 'facts') and c.relkind = 'r' order by 2 desc limit 8`,
  );
  return Object.fromEntries(rows.map(({ name, kb }) => [`${name} KB`, kb]));
}
