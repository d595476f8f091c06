/** Spans in the log: what the tables say of a trace depends on its spans alone, not on how they came. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Event } from '../../ingest/events/events.ts';
import {
  cutOtlp,
  cutRequest,
  erasedItem,
  eventsOfTrace,
  type LiveFormat,
} from '../../ingest/formats/traces/live-traces.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { decodeOtlp, isOtlp } from '../../ingest/traces/otlp/decode.ts';
import { convertOtlp } from '../../ingest/traces/otlp-traces.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { diffTraces } from '../../store/projecting/traces.ts';
import {
  aTrace,
  chat,
  logRequest,
  message,
  request,
  span,
  spanId,
  TRACE,
  text,
  tool,
} from '../ingest/support/spans.ts';
import { freshDatabase } from '../support/database.ts';
import '../support/replay.ts';
import { tablesOf } from './support/tables.ts';

const judged = {
  traceId: TRACE,
  spanId: spanId(1),
  timeUnixNano: '1789000100000000000',
  eventName: 'gen_ai.evaluation.result',
  attributes: [
    { key: 'gen_ai.evaluation.name', value: { stringValue: 'reward' } },
    { key: 'gen_ai.evaluation.score.value', value: { doubleValue: 1 } },
  ],
};

/** A call around another, which repeats it; a tool run that names no call; and a task that only the first of two questions defines. */
const nested = () => [
  span({ id: 20, name: 'app', at: 0, until: 9 }),
  chat(
    { id: 21, parent: 20, at: 1, until: 8 },
    [message('assistant', text('outer'))],
    [message('user', text('First?'))],
  ),
  chat(
    { id: 22, parent: 21, at: 2, until: 3 },
    [message('assistant', { type: 'tool_call', id: null, name: 'calc', arguments: { x: 1 } })],
    [message('user', text('Second?'))],
  ),
  tool({ id: 23, parent: 21, at: 4, until: 5 }, 'calc', null, { 'gen_ai.tool.call.arguments': '{"x":1}' }),
];

const eventsOf = (body: unknown): Event[] => {
  const { spans, logs } = decodeOtlp(body);
  return cutOtlp({ spans, logs }).flatMap(({ drafts }) => drafts.map((draft) => decodeDraft(draft).event!));
};
const facts = async (events: readonly Event[], batch: number) => {
  const { events: _, ...tables } = (await tablesOf(events, batch)).tables;
  return tables;
};

const everything = (): Event[] => [
  ...eventsOf(request(aTrace())),
  ...eventsOf(logRequest([judged])),
  ...eventsOf(JSON.parse(JSON.stringify(request(nested())).replaceAll(TRACE, TRACE.replace('a', 'b')))),
];

describe('the spans of a trace', () => {
  it('P4, P9: give the same tables in any order, in any number of requests, also when some come twice', async () => {
    const events = everything();
    const whole = await facts(events, 100);
    expect(whole.steps!.rows).toBe(4);
    const cut = fc.tuple(fc.shuffledSubarray(events, { minLength: events.length }), fc.integer({ min: 1, max: 5 }));
    await fc.assert(
      fc.asyncProperty(cut, async ([shuffled, batch]) => {
        expect(await facts([...shuffled, ...shuffled.slice(0, 3)], batch)).toEqual(whole);
      }),
      { numRuns: 2 },
    );
  }, 60_000);

  it('give the tables that an import of the whole gives, besides the original that it keeps', async () => {
    const imported = convertOtlp({ value: [[request(aTrace()), logRequest([judged])]], canonical: '', ordinal: 0 });
    const events = imported.drafts.map((draft) => decodeDraft(draft).event!);
    const { artifacts: _, told_tasks: __, ...whole } = await facts(events, 100);
    const live = [...eventsOf(request(aTrace())), ...eventsOf(logRequest([judged]))].reverse();
    expect(await facts(live, 2)).toMatchObject(whole);
  }, 60_000);
});

describe('amendments and rebuilds', () => {
  it('P9, P15: reach events derived from spans, whenever they come, and give the same tables again', async () => {
    const spans = eventsOf(request(aTrace()));
    const completed = eventsOfTrace(spans.map(({ data }) => data as never)).find(
      ({ name }) => name === 'generation.completed',
    )!;
    const rejection = decodeDraft({
      name: 'record.amended',
      source: '/test',
      id: 'no',
      time: null,
      data: { key: `e/${TRACE}`, target: { source: completed.source, id: completed.id }, op: 'reject' },
    }).event!;
    const whole = await facts([...spans, rejection], 100);
    expect(whole.steps!.rows).toBe(2);
    expect(await facts([rejection, ...spans.toReversed()], 5)).toEqual(whole);

    const fresh = await freshDatabase();
    try {
      const log = postgresLog(fresh.db);
      for (const event of [...spans.slice(0, 4), rejection, ...spans.slice(4)]) await log.append([event]);
      await projectAll(fresh.db, { perPartition: 1 });
      const before = await checksum(fresh.db);
      await rebuild(fresh.db, { judge: async () => {}, portion: 3 });
      expect(await checksum(fresh.db)).toEqual(before);
    } finally {
      await fresh.close();
    }
  }, 60_000);

  it('may make 130,000 events at once, more than fit on the stack of a call', async () => {
    const event = eventsOfTrace(eventsOf(request(aTrace())).map(({ data }) => data as never))[0]!;
    const [recorded] = eventsOf(request(aTrace()));
    const item = erasedItem(Array<typeof event>(130_000).fill(event));
    const batch = [{ ...recorded!, data: { episode_id: TRACE, ...item }, log: 0, partition: 0, position: 1n }];
    const fresh = await freshDatabase();
    try {
      const { added, refused } = await fresh.db.transaction((tx) => diffTraces(tx, batch as never, null));
      expect([added.length, refused]).toEqual([130_000, []]);
    } finally {
      await fresh.close();
    }
  }, 60_000);
});

const data = process.env.TROUPE_DATA;
const FORMATS = ['otel-genai', 'openinference', 'traceloop', 'vercel-ai', 'openai-agents', 'langsmith', 'langfuse'];
describe.skipIf(!data)('the spans of real clients', () => {
  it('make no episode where they concern neither a model nor more of an agent than that it was created', async () => {
    const created = span({ id: 31, name: 'create_agent', attributes: { 'gen_ai.operation.name': 'create_agent' } });
    const alone = [request([span({ id: 30, name: 'GET /health' })]), request([created])];
    for (const body of alone) expect((await facts(eventsOf(body), 1)).episodes!.rows).toBe(0);
    const called = chat(
      { id: 32, at: 1, until: 2 },
      [message('assistant', text('Yes.'))],
      [message('user', text('?'))],
    );
    expect((await facts(eventsOf(request([created, called])), 1)).episodes!.rows).toBe(1);
  });

  it('P9: give the same tables a few at a time from the last to the first as all at once', async () => {
    const events: Event[] = [];
    for (const format of FORMATS) {
      const folder = join(data!, 'samples', format);
      for (const name of (await readdir(folder)).filter((one) => /\.jsonl?$/.test(one) && !one.startsWith('bad'))) {
        const written = await readFile(join(folder, name), 'utf8');
        const requests = name.endsWith('l') ? written.trim().split('\n') : [written];
        for (const one of requests.map((line) => JSON.parse(line))) {
          if (isOtlp(one)) events.push(...eventsOf(one));
          else
            for (const item of cutRequest(format as LiveFormat, one) ?? [])
              if ('drafts' in item) events.push(...item.drafts.map((draft) => decodeDraft(draft).event!));
        }
      }
    }
    const whole = await facts(events, 10_000);
    expect(new Set(events.map(({ data }) => (data as { format?: string }).format)).size).toBe(4);
    expect(whole.steps!.rows).toBeGreaterThan(20);
    expect(await facts(events.reverse(), 9)).toEqual(whole);
  }, 60_000);
});
