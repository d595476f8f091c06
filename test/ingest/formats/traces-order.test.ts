/** Spans come in any order, cut into any requests, files and imports: what the tables say does not change. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../../ingest/events/decode.ts';
import type { Draft } from '../../../ingest/events/events.ts';
import { importFiles } from '../../../ingest/files/import.ts';
import { postgresBook, postgresLog } from '../../../ingest/log/postgres.ts';
import { decodeOtlp } from '../../../ingest/traces/otlp/decode.ts';
import { eventsOfSpans } from '../../../ingest/traces/otlp-traces.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { checksum } from '../../../store/projecting/rebuilding/checksum.ts';
import { tablesOf } from '../../store/support/tables.ts';
import { freshDatabase } from '../../support/database.ts';
import { memoryLog } from '../support/memory-log.ts';
import {
  agent,
  aTrace,
  chat,
  logRequest,
  type MadeSpan,
  message,
  request,
  spanId,
  TRACE,
  text,
} from '../support/spans.ts';
import { tablesOf as importedTables } from '../support/tables.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'troupe-traces-'));
});
afterAll(() => rm(dir, { recursive: true }));

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

/** Files of requests, each item in one of them at least. */
const cut = fc
  .tuple(
    fc.shuffledSubarray(aTrace(), { minLength: 9 }),
    fc.array(fc.nat(3), { minLength: 9, maxLength: 9 }),
    fc.nat(9),
  )
  .map(([spans, groups, again]) => [
    ...[0, 1, 2, 3].map((group) => request(spans.filter((_, i) => groups[i] === group))),
    request(spans.slice(0, again)),
    logRequest([judged]),
  ]);

const CASES = fc.sample(cut, { numRuns: 2, seed: 7 });
let folder = 0;
async function filesOf(requests: readonly unknown[]): Promise<string[]> {
  folder += 1;
  return Promise.all(
    requests.map(async (one, i) => {
      const path = join(dir, `${folder}-${i}.json`);
      await writeFile(path, JSON.stringify(one));
      return path;
    }),
  );
}

describe('spans of one trace', () => {
  it('make the same events in any order and any files of an import, also when some come twice (P4, P9)', async () => {
    const whole = memoryLog();
    await importFiles(await filesOf([request(aTrace()), logRequest([judged])]), whole);
    const digestsOf = (memory: typeof whole) => memory.events.map(({ id, digest }) => `${id} ${digest}`).sort();
    await fc.assert(
      fc.asyncProperty(cut, async (requests) => {
        const memory = memoryLog();
        await importFiles(await filesOf(requests), memory);
        expect(digestsOf(memory)).toEqual(digestsOf(whole));
      }),
      { numRuns: 15 },
    );
  });

  it('make the same tables, also when they are imported twice (P4, P9)', async () => {
    const tables = async (requests: readonly unknown[], times: number) => {
      const fresh = await freshDatabase();
      try {
        const { artifacts } = memoryLog();
        const paths = await filesOf(requests);
        for (let i = 0; i < times; i++) {
          const report = await importFiles(paths, {
            log: postgresLog(fresh.db),
            book: postgresBook(fresh.db),
            artifacts,
          });
          expect(report.errors).toEqual([]);
        }
        await projectAll(fresh.db);
        const { rows } = await fresh.db.query<{ reward: number; steps: number; calls: number }>(
          'select reward, steps, tool_calls as calls from traj.episodes',
        );
        return { sums: await checksum(fresh.db), rows };
      } finally {
        await fresh.close();
      }
    };
    const once = await tables([request(aTrace()), logRequest([judged])], 1);
    expect(once.rows).toEqual([{ reward: 1, steps: 3, calls: 3 }]);
    for (const requests of CASES) expect((await tables(requests, 2)).sums).toEqual(once.sums);
  }, 120_000);

  it('bring the same events of their own in any request, but for the agent around them and the call they answer', () => {
    const live = (spans: readonly unknown[], context: readonly unknown[] = []) =>
      eventsOfSpans(decodeOtlp(request(spans)).spans, { context: decodeOtlp(request(context)).spans });
    const all = live(aTrace());
    const idsOf = (drafts: typeof all) => drafts.map(({ id }) => id);
    fc.assert(
      fc.property(fc.shuffledSubarray(aTrace(), { minLength: 9 }), fc.integer({ min: 1, max: 8 }), (spans, at) => {
        const [first, second] = [spans.slice(0, at), spans.slice(at)];
        // With what came before at hand, the second request leaves nothing to guess.
        const later = live(second, first);
        const own = later.filter(({ name }) => !name.startsWith('episode.') && name !== 'task.defined');
        expect(idsOf(all)).toEqual(expect.arrayContaining(idsOf(own)));
        // Redelivery of either request says the same again.
        expect(idsOf(live([...first].reverse()))).toEqual(idsOf(live(first)));
      }),
      { numRuns: 30 },
    );
  });

  it('mapped again with the spans that came later, give what all of them give together (P9)', async () => {
    const spans = aTrace().map((one) =>
      JSON.parse(JSON.stringify(one).replaceAll('"c"', one.spanId >= spanId(8) ? '"e"' : '"c"')),
    );
    const live = (members: readonly unknown[]) => eventsOfSpans(decodeOtlp(request(members)).spans);
    const facts = async (requests: readonly (readonly unknown[])[]) => {
      const events = requests.flatMap(live).map((draft) => decodeDraft(draft).event!);
      const { events: _, ...tables } = (await tablesOf(events, 7)).tables;
      return tables;
    };
    const whole = await facts([spans]);
    for (const first of [spans.slice(2, 4), spans.filter((_, i) => i % 2 === 0), spans.slice(4)]) {
      expect(await facts([first, spans])).toEqual(whole);
    }
  }, 120_000);
});

describe('a span id that comes twice', () => {
  const answer = (words: string, more: Partial<MadeSpan> = {}) =>
    chat({ id: 2, parent: 1, ...more }, [message('assistant', text(words))]);
  const root = agent({ id: 1, until: 9 }, 'planner');
  const flagsOf = (drafts: readonly Draft[], name: string) =>
    drafts.filter((draft) => draft.name === name).flatMap(({ data }) => (data as { flags?: string[] }).flags ?? []);
  const eventsOf = (...spans: readonly unknown[]) => eventsOfSpans(decodeOtlp(request(spans)).spans);
  const unfinished = { ...answer('Two'), endTimeUnixNano: '0', attributes: [] };

  it('with different words flags the call and its episode, in any order', () => {
    for (const spans of [
      [root, answer('Two'), answer('Three')],
      [answer('Three'), answer('Two'), root],
      [root, answer('Two'), answer('Two', { until: 2.7 })],
    ]) {
      const drafts = eventsOf(...spans);
      expect(drafts.filter(({ name }) => name === 'generation.completed')).toHaveLength(1);
      expect(flagsOf(drafts, 'episode.started')).toContain('conflicting_span');
      expect(flagsOf(drafts, 'generation.completed')).toContain('conflicting_span');
    }
  });

  it('in the same words, or first before it ended, is one span without a flag', () => {
    for (const spans of [
      [root, answer('Two'), answer('Two')],
      [root, unfinished, answer('Two')],
      [answer('Two'), unfinished, root],
    ]) {
      const drafts = eventsOf(...spans);
      for (const name of ['episode.started', 'generation.completed'])
        expect(flagsOf(drafts, name)).not.toContain('conflicting_span');
    }
  });

  it('in different words in two imports shows the flag, and so it does when they are read again', async () => {
    const [first, second] = await filesOf([request([root, answer('Two')]), request([answer('Three')])]);
    const once = memoryLog();
    await importFiles([first!, second!], once);
    for (const imports of [
      [[first!], [second!]],
      [[second!], [first!], [first!]],
    ]) {
      const memory = memoryLog();
      for (const files of imports) await importFiles(files, memory);
      expect(importedTables(memory.events)).toEqual(importedTables(once.events));
    }
    expect(JSON.stringify(importedTables(once.events))).toContain('conflicting_span');
  });
});
