/**
 * `bench otlp`: reading spans and telling what they say, against reading them alone; and spans posted until they can be read in SQL,
 * durable, against other trace stores on the same PostgreSQL.
 */
import { join } from 'node:path';
import { buildApp } from '../api/app.ts';
import { openKeyRing } from '../api/key-ring.ts';
import { serve } from '../api/serve.ts';
import type { Speakers } from '../api/speakers.ts';
import { fileArtifacts } from '../ingest/artifacts.ts';
import { eventsOfSpans } from '../ingest/formats/otlp-traces.ts';
import { postgresBook, postgresLog } from '../ingest/log/postgres.ts';
import { decodeOtlp } from '../ingest/otlp/decode.ts';
import { protobufToJson } from '../ingest/otlp/protobuf.ts';
import type { OtlpSpan } from '../ingest/otlp/span.ts';
import { runProjector } from '../store/projector.ts';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, oursOnly, type Result, type Side } from './harness.ts';
import { findPeers, type StartedPeer } from './otlp-peers.ts';
import { type SpanBatch, spanBatches } from './otlp-spans.ts';
import { type BenchServer, startBenchServer } from './server.ts';

/** Spans of a round: a peer takes about two seconds for them. */
const SPANS = 2000;
const READ = 3000;

export const bench: Bench = {
  name: 'otlp',
  about: 'spans read and told against spans read alone; posted until readable in SQL, against other trace stores',
  async run(settings) {
    return [await readingCase(settings), ...(await postedCases(settings))];
  },
};

/** The spans of requests in protobuf. */
const readSpans = (batches: readonly SpanBatch[]): readonly OtlpSpan[] =>
  batches.flatMap(({ body }) => {
    const read = protobufToJson(body, 'traces');
    return 'refusal' in read ? [] : decodeOtlp(read.value).spans;
  });

async function readingCase({ rounds, say }: Settings): Promise<Result> {
  const batches = spanBatches(0, READ);
  const counts = { read: 0, calls: 0 };
  const measure = async (work: () => void) => {
    const [cpu, start] = [process.cpuUsage(), performance.now()];
    work();
    const seconds = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(cpu);
    return { work: READ, seconds, cpuSeconds: (user + system) / 1e6 };
  };
  const tell: Side = {
    name: 'read and told',
    round: () =>
      measure(() => {
        const drafts = batches.flatMap((one) => eventsOfSpans(readSpans([one])));
        counts.calls = drafts.filter(({ name }) => name === 'generation.completed').length;
      }),
  };
  const read: Side = {
    name: 'read',
    round: () =>
      measure(() => {
        counts.read = readSpans(batches).length;
      }),
  };
  for (const side of [tell, read, tell, read]) await side.round(0);
  const { measured, disturbed } = await interleave([tell, read], { rounds, onRound: (line) => say(`otlp ${line}`) });
  const how = `${counts.read} spans read, ${counts.calls} of them told as model calls`;
  return compared(
    { case: 'read and told, against read alone', unit: 'spans/s', disturbed },
    measured[0]!,
    { what: 'reading alone', measured: measured[1]! },
    { equal: counts.read === READ && counts.calls === (READ * 3) / 10, how },
  );
}

const NOBODY: Speakers = {
  models: async () => [],
  speak: () => Promise.reject(new Error('nobody speaks here')),
};

/** Posts all batches, one after the other on one connection. */
async function postAll(url: string, headers: Record<string, string>, batches: readonly SpanBatch[]): Promise<void> {
  for (const { body } of batches) {
    const answer = await fetch(`${url}/v1/traces`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-protobuf', ...headers },
      body: new Uint8Array(body),
    });
    if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}: ${await answer.text()}`);
    await answer.arrayBuffer();
  }
}

async function untilCounted(count: () => Promise<number>, wanted: number): Promise<void> {
  const deadline = performance.now() + 120_000;
  while ((await count()) < wanted) {
    if (performance.now() > deadline) throw new Error(`only ${await count()} of ${wanted} spans can be read`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function postedCases({ rounds, scratch, say }: Settings): Promise<Result[]> {
  const server = await startBenchServer(scratch);
  const stop = new AbortController();
  const { db } = server;
  const app = await buildApp({
    db,
    log: postgresLog(db),
    book: postgresBook(db),
    artifacts: fileArtifacts(join(scratch, 'artifacts')),
    speakers: NOBODY,
    project: 'bench',
    version: '0',
    keys: openKeyRing(db),
    ingestOnly: true,
  });
  const { url, close } = await serve(app, { host: '127.0.0.1', port: 0 });
  const projecting = runProjector(db, { signal: stop.signal });
  const peers: StartedPeer[] = [];
  try {
    const { found, missing } = findPeers(process.env);
    for (const peer of found) peers.push(await peer.start(server.url, scratch));
    const ours = postingSide(server, 'ours', url, {}, () => spansTold(server), 1);
    const sides = peers.map(({ name, url, headers, count }, i) =>
      postingSide(server, name, url, headers, count, i + 2),
    );
    for (const side of [ours, ...sides]) for (let warm = 0; warm < 2; warm++) await side.round(1000 + warm);
    const { measured, disturbed } = await interleave([ours, ...sides], {
      rounds,
      onRound: (line) => say(`otlp ${line}`),
    });
    const [held, ...theirs] = await Promise.all([ours, ...sides].map((side) => side.held()));
    const about = (other: string) => ({
      case: `posted until readable in SQL, ${SPANS} spans${other}`,
      unit: 'spans/s',
      disturbed,
      more: { latency: 'batches of 100 on one connection; door and projector in one process' },
    });
    const results = peers.map(({ name }, i) =>
      compared(
        about(`, against ${name}`),
        measured[0]!,
        { what: name, measured: measured[i + 1]! },
        {
          equal: held!.readable === held!.posted && theirs[i]!.readable === theirs[i]!.posted,
          how: `${held!.readable} of ${held!.posted} spans readable here, ${theirs[i]!.readable} of ${theirs[i]!.posted} there`,
        },
      ),
    );
    return [...results, ...missing.map((why) => oursOnly(about(''), measured[0]!, why))];
  } finally {
    stop.abort();
    await projecting;
    await close();
    await Promise.all(peers.map((peer) => peer.stop()));
    await server.close();
  }
}

/** A span can be read when its rows are there: each span of these traces has one. */
async function spansTold({ db }: BenchServer): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    'select coalesce(sum(steps + tool_calls + agents + closed::integer), 0)::integer as n from traj.episodes',
  );
  return rows[0]!.n;
}

type PostingSide = Side & {
  /** All that was posted to it, and what can be read of that; more would be spans counted twice. */
  readonly held: () => Promise<{ readonly posted: number; readonly readable: number }>;
};

function postingSide(
  server: BenchServer,
  name: string,
  url: string,
  headers: Record<string, string>,
  count: () => Promise<number>,
  number: number,
): PostingSide {
  let posted = 0;
  return {
    name,
    held: async () => ({ posted, readable: await count() }),
    round: async (round) => {
      const batches = spanBatches(number * 10_000 + round, SPANS);
      posted += SPANS;
      return server.measure(SPANS, async () => {
        await postAll(url, headers, batches);
        await untilCounted(count, posted);
      });
    },
  };
}
