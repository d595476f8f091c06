/** Spans that cannot be mapped, and traces that come span by span: neither keeps the rest of a trace out of the tables. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Draft, Event } from '../../ingest/events/events.ts';
import { cutOtlp } from '../../ingest/formats/traces/live-traces.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { decodeOtlp } from '../../ingest/traces/otlp/decode.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { projectAll, projectBatch } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { traceEventsOf } from '../../store/projecting/traces.ts';
import { agent, aTrace, chat, message, request, TRACE, text } from '../ingest/support/spans.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';

const eventsOf = (spans: readonly unknown[]): Event[] =>
  cutOtlp(decodeOtlp(request(spans))).flatMap(({ drafts }) => drafts.map((draft) => decodeDraft(draft).event!));
/** A span as anybody may post it as an event. */
const posted = (id: string, format: string, item: unknown): Event =>
  decodeDraft({
    name: 'span.recorded',
    source: '/anybody',
    id,
    time: null,
    data: { episode_id: TRACE, format, item },
  } as Draft).event!;

/** Mapping it fails. */
const unmappable = () => posted('unmappable', 'erased', { told: 5 });
/** It is mapped to a valid event that fits in no table. */
const unholdable = () =>
  posted('unholdable', 'erased', {
    told: [
      {
        name: 'artifact.attached',
        source: '/anybody',
        id: 'a',
        time: null,
        data: { episode_id: TRACE, artifact_id: 'd', role: 'dataset', rows: { train: 5 } },
      },
    ],
  });

let fresh: TestDatabase;
beforeAll(async () => {
  fresh = await freshDatabase();
});
afterAll(() => fresh.close());

describe('a span that cannot be mapped', () => {
  it('P21: is quarantined with the reason, and the rest of its trace is mapped as without it, in any order', () => {
    const spans = eventsOf(aTrace());
    const whole = traceEventsOf(spans);
    expect(whole.refused).toEqual([]);
    for (const mixed of [[unmappable(), ...spans], [...spans, unmappable()], [...spans, unmappable()].reverse()]) {
      const { events, refused } = traceEventsOf(mixed);
      expect(events.map(({ id }) => id).sort()).toEqual(whole.events.map(({ id }) => id).sort());
      expect(refused).toMatchObject([{ draft: { id: 'unmappable' }, reason: expect.stringMatching(/./) }]);
    }
  });

  it('P21, P22: leaves the tables as they are without it, also when more of the trace comes later and after a rebuild', async () => {
    const log = postgresLog(fresh.db);
    const spans = eventsOf(aTrace());
    const steps = async (): Promise<unknown> => {
      const { steps, calls, tool_calls, agents, messages } = (await checksum(fresh.db)).tables;
      return { steps, calls, tool_calls, agents, messages };
    };
    await log.append(spans);
    await projectAll(fresh.db);
    const whole = await steps();

    const other = await freshDatabase();
    try {
      const theirs = postgresLog(other.db);
      for (const event of [...spans.slice(4), unmappable(), unholdable(), ...spans.slice(0, 4)]) {
        await theirs.append([event]);
        await projectAll(other.db);
      }
      const { steps, calls, tool_calls, agents, messages } = (await checksum(other.db)).tables;
      expect({ steps, calls, tool_calls, agents, messages }).toEqual(whole);
      const { rows } = await other.db.query<{ raw: Buffer; got: string }>('select raw, got from troupe.dead_letters');
      expect(rows.map(({ raw }) => JSON.parse(raw.toString()).id).sort()).toEqual(['a', 'unmappable']);
      expect(rows.every(({ got }) => got.length > 0)).toBe(true);
      expect(await reconcile(other.db)).toMatchObject({ tables: { lag: 0 } });
      const before = await checksum(other.db);
      await rebuild(other.db, { judge: async () => {} });
      expect(await checksum(other.db)).toEqual(before);
    } finally {
      await other.close();
    }
  }, 60_000);
});

describe('a long trace that waits span by span', () => {
  it('P9: is mapped in batches that double, with the same rows as at once', async () => {
    const long = [
      agent({ id: 1 }, 'one'),
      ...Array.from({ length: 127 }, (_, i) => chat({ id: i + 2, parent: 1 }, [message('assistant', text(`${i}`))])),
    ];
    const events = eventsOf(long.map((one) => ({ ...one, traceId: TRACE.replace('a', 'c') })));
    for (const event of events) await postgresLog(fresh.db).append([event]);
    const batches: number[] = [];
    let again = 0;
    for (;;) {
      const applied = await projectBatch(fresh.db, { perPartition: 4, onReplayedSpans: (spans) => (again += spans) });
      if (applied === 0) break;
      batches.push(applied);
    }
    expect(batches).toEqual([4, 4, 8, 16, 32, 64]);
    expect(again).toBe(4 + 8 + 16 + 32 + 64);
    const { rows } = await fresh.db.query<{ steps: number }>('select steps from traj.episodes where episode_id = $1', [
      TRACE.replace('a', 'c'),
    ]);
    expect(rows).toEqual([{ steps: 127 }]);
  }, 60_000);
});
