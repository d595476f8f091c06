/**
 * `bench otlp`: reading spans and mapping them to events, against decoding them alone; and spans posted until they can be read in SQL,
 * durable, against other trace stores on the same PostgreSQL.
 */
import { join } from 'node:path';
import { decodeDraft } from '../ingest/events/decode.ts';
import type { Draft, Event } from '../ingest/events/events.ts';
import { createRedactor, type Redactor } from '../ingest/events/redact.ts';
import { cutOtlp } from '../ingest/formats/traces/live-traces.ts';
import { decodeOtlp } from '../ingest/traces/otlp/decode.ts';
import { protobufToJson } from '../ingest/traces/otlp/protobuf.ts';
import type { OtlpSpan } from '../ingest/traces/otlp/span.ts';
import { eventsOfSpans } from '../ingest/traces/otlp-traces.ts';
import { runTroupe, type TroupeProcess } from '../proofs/troupe-process.ts';
import { freePort } from '../test/support/free-port.ts';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, oursOnly, type Result, type Side } from './harness.ts';
import { findPeers, type StartedPeer } from './otlp-peers.ts';
import { decodeTraces } from './otlp-proto.ts';
import { type SpanBatch, spanBatches } from './otlp-spans.ts';
import { type BenchServer, startBenchServer } from './server.ts';

/** Spans of a round: a peer takes about two seconds for them. */
const SPANS = 2000;
const READ = 3000;
/** Rounds of each side before the first that counts: servers are measured as they run, and ours takes ten thousand spans to be compiled. */
const WARM_ROUNDS = 6;

export const bench: Bench = {
  name: 'otlp',
  about: 'spans read and mapped against spans decoded alone; posted until readable in SQL, against other trace stores',
  async run(settings) {
    return [...(await readingCases(settings)), ...(await postedCases(settings))];
  },
};

/** The spans of a request in protobuf. */
const readSpans = ({ body }: SpanBatch): readonly OtlpSpan[] => {
  const read = protobufToJson(body, 'traces');
  return 'refusal' in read ? [] : decodeOtlp(read.value).spans;
};

/** Drafts as the events that go to the log: checked, with key and digest, redacted. */
const eventsOf = (drafts: readonly Draft[], { event: redact }: Redactor): Event[] =>
  drafts.flatMap((draft) => {
    const { event } = decodeDraft(draft);
    return event ? [redact(event)] : [];
  });

/** Name and number of attributes of each span: what both readers must agree on. */
const shown = (spans: readonly { readonly name: string; readonly attributes: object }[]): string =>
  spans.map(({ name, attributes }) => `${name} ${Object.keys(attributes).length}`).join('\n');
const decodedSpans = ({ body }: SpanBatch) =>
  decodeTraces(body).resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));

async function readingCases({ rounds, say }: Settings): Promise<Result[]> {
  const batches = spanBatches(0, READ);
  const redactor = createRedactor();
  const counts = { mapped: 0, toLog: 0 };
  const side = (name: string, work: () => void): Side => ({
    name,
    round: async () => {
      const [cpu, start] = [process.cpuUsage(), performance.now()];
      work();
      const seconds = (performance.now() - start) / 1000;
      const { user, system } = process.cpuUsage(cpu);
      return { work: READ, seconds, cpuSeconds: (user + system) / 1e6 };
    },
  });
  const mapped = side('mapped', () => {
    counts.mapped = 0;
    for (const one of batches) counts.mapped += eventsOf(eventsOfSpans(readSpans(one)), redactor).length;
  });
  const toLog = side('up to the log', () => {
    counts.toLog = 0;
    for (const one of batches) {
      const drafts = cutOtlp({ spans: readSpans(one), logs: [] }).flatMap((kept) => kept.drafts);
      counts.toLog += eventsOf(drafts, redactor).length;
    }
  });
  const read = side('read', () => {
    for (const one of batches) readSpans(one);
  });
  const decoded = side('decoded', () => {
    for (const { body } of batches) decodeTraces(body);
  });
  const sides = [mapped, toLog, read, decoded];
  for (let warm = 0; warm < 3; warm++) for (const one of sides) await one.round(0);
  const { measured, disturbed } = await interleave(sides, { rounds, onRound: (line) => say(`otlp ${line}`) });
  const same = batches.every((one) => shown(readSpans(one)) === shown(decodedSpans(one)));
  const about = (name: string) => ({ case: name, unit: 'spans/s', disturbed });
  const decoding = { what: 'decoding alone (@bufbuild/protobuf)', measured: measured[3]! };
  const agree = same ? 'both read the same names and attributes' : 'the readers differ';
  return [
    compared(about('decoded and mapped to spans, against decoding alone'), measured[2]!, decoding, {
      equal: same,
      how: agree,
    }),
    compared(about('read and mapped to checked, redacted events, against decoding alone'), measured[0]!, decoding, {
      equal: same && counts.mapped > READ,
      how: `${agree}; ${counts.mapped} events of ${READ} spans`,
    }),
    compared(about('read, up to the events for the log, against decoding alone'), measured[1]!, decoding, {
      equal: same && counts.toLog === READ,
      how: `${agree}; ${counts.toLog} events of ${READ} spans`,
    }),
    compared(
      about('read and mapped, against reading alone with the reader here'),
      measured[0]!,
      { what: 'reading alone', measured: measured[2]! },
      { equal: same && counts.mapped > READ, how: agree },
    ),
  ];
}

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

/** Asked again after 20 ms, or a fiftieth of the time that has gone where that is more: a peer that writes slowly is not slowed by being asked. */
async function untilCounted(count: () => Promise<number>, wanted: number): Promise<void> {
  const start = performance.now();
  for (;;) {
    const counted = await count();
    if (counted >= wanted) return;
    const waited = performance.now() - start;
    if (waited > 120_000) throw new Error(`only ${counted} of ${wanted} spans can be read`);
    await new Promise((resolve) => setTimeout(resolve, Math.max(20, waited / 50)));
  }
}

async function postedCases({ rounds, scratch, say }: Settings): Promise<Result[]> {
  const server = await startBenchServer(scratch, await freePort());
  const started: TroupeProcess[] = [];
  for (const role of ['ingest', 'project']) {
    started.push(await runTroupe(role, { home: join(scratch, 'home'), env: { DATABASE_URL: server.url } }));
  }
  const { url } = started[0]!;
  const peers: StartedPeer[] = [];
  try {
    const { found, missing } = findPeers(process.env);
    for (const peer of found) peers.push(await peer.start(server.url, scratch));
    const own = { name: 'ours', url, headers: {}, resource: {}, count: () => spansTold(server) };
    const ours = postingSide(
      server,
      own,
      1,
      started.map((one) => one.pid()),
    );
    const sides = peers.map((peer, i) => postingSide(server, peer, i + 2, [peer.pid]));
    for (const side of [ours, ...sides]) for (let warm = 0; warm < WARM_ROUNDS; warm++) await side.round(1000 + warm);
    const { measured, disturbed } = await interleave([ours, ...sides], {
      rounds,
      onRound: (line) => say(`otlp ${line}`),
    });
    const [held, ...theirs] = await Promise.all([ours, ...sides].map((side) => side.held()));
    const about = (other: string) => ({
      case: `posted until readable in SQL, ${SPANS} spans${other}`,
      unit: 'spans/s',
      disturbed,
      more: { work: 'batches of 100 on one connection; ingest and projector are processes of their own' },
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
    await Promise.all([...started.map((one) => one.end('SIGTERM')), ...peers.map((peer) => peer.stop())]);
    await server.close();
  }
}

/**
 * A span can be read when its rows are there: each span of these traces has one. They are summed up only when nothing of the log waits:
 * asked all the time, that alone took a twentieth of the processor time of a round.
 */
async function spansTold({ db }: BenchServer): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `select case when exists (
         select from troupe.log_partitions l left join troupe.positions p on p.partition = l.partition and p.projection = 'facts' and p.log = 0
         where l.next_position > coalesce(p.position, 0))
       then 0 else (select coalesce(sum(steps + tool_calls + agents + closed::integer), 0)::integer from facts.episodes) end as n`,
    [],
    { name: 'bench_spans_readable' },
  );
  return rows[0]!.n;
}

type PostingSide = Side & {
  /** All that was posted to it, and what can be read of that; more would be spans counted twice. */
  readonly held: () => Promise<{ readonly posted: number; readonly readable: number }>;
};

function postingSide(
  server: BenchServer,
  { name, url, headers, resource, count }: Omit<StartedPeer, 'stop' | 'pid'>,
  number: number,
  processes: readonly number[],
): PostingSide {
  let posted = 0;
  return {
    name,
    held: async () => ({ posted, readable: await count() }),
    round: async (round) => {
      const batches = spanBatches(number * 10_000 + round, SPANS, resource);
      posted += SPANS;
      const work = async () => {
        await postAll(url, headers, batches);
        await untilCounted(count, posted);
      };
      return server.measure(SPANS, work, processes);
    },
  };
}
