import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeDraft, encodeEnvelope } from '../../../ingest/events/decode.ts';
import type { Draft, Event } from '../../../ingest/events/events.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { exportEpisodes } from '../../../ingest/files/export.ts';
import { formatNamed } from '../../../ingest/formats/catalogue.ts';
import { decodeOtlp } from '../../../ingest/traces/otlp/decode.ts';
import { eventsOfSpans } from '../../../ingest/traces/otlp-traces.ts';
import { anEpisode } from '../../store/support/events.ts';
import { groupBy } from '../support/memory-log.ts';
import { aTrace, logRequest, request, spanId, TRACE } from '../support/spans.ts';

const root = process.env.TROUPE_DATA ?? '';

function eventOf(draft: Draft): Event {
  const decoded = decodeDraft(draft);
  if (decoded.refusal) throw new Error(JSON.stringify(decoded.refusal));
  return decoded.event;
}
const eventsFrom = (...requests: readonly unknown[]): Event[] => {
  const all = requests.map(decodeOtlp);
  const logs = all.flatMap((one) => one.logs);
  return eventsOfSpans(
    all.flatMap(({ spans }) => spans),
    { logs, whole: true },
  ).map(eventOf);
};
async function exported(events: readonly Event[]): Promise<unknown[]> {
  const lines: unknown[] = [];
  const episodes = [
    ...groupBy(
      events.filter(({ key }) => key.startsWith('e/')),
      ({ key }) => key,
    ).values(),
  ];
  for await (const line of exportEpisodes('otel-genai', episodes)) lines.push(JSON.parse(line));
  return lines;
}
/** All spans and log records of requests in their normal form, each with its resource and scope. */
const itemsIn = (requests: readonly unknown[]): string[] =>
  requests
    .map(decodeOtlp)
    .flatMap(({ spans, logs }) => [...spans, ...logs].map(({ native }) => canonicalJson(native)))
    .sort();

describe('an episode as OTLP', () => {
  const judged = {
    traceId: TRACE,
    spanId: spanId(5),
    timeUnixNano: '1789000100000000000',
    eventName: 'gen_ai.evaluation.result',
    attributes: [{ key: 'gen_ai.evaluation.name', value: { stringValue: 'exact' } }],
  };

  it('that came as OTLP is given back span for span, wrappers, texts and own attributes included (P43)', async () => {
    const native = [request(aTrace()), logRequest([judged])];
    const back = await exported(eventsFrom(...native));
    expect(itemsIn(back)).toEqual(itemsIn(native));
    expect(JSON.stringify(back)).toContain('two \\u0000 \\ud800');
  });

  it.skipIf(!root)('is equal for published-shape files (TROUPE_DATA names their folder)', async () => {
    const read = (file: string): unknown => JSON.parse(readFileSync(join(root, 'samples/otel-genai', file), 'utf8'));
    const native = ['traces-1.json', 'traces-2.json', 'evals.logs.json'].map(read);
    expect(itemsIn(await exported(eventsFrom(...native)))).toEqual(itemsIn(native));
  });

  it('that was recorded another way is written as spans that read back as the same calls and results', async () => {
    const back = await exported(anEpisode('e1'));
    const again = eventsFrom(...back);
    const of = (events: readonly Event[], name: string) =>
      events.filter((event) => event.name === name).map(({ data }) => data as never as Record<string, never>);
    const answersOf = (events: readonly Event[]) =>
      of(events, 'generation.completed').map(({ agent_id: agent, choices }) => [
        agent,
        (choices as unknown as { content: string }[]).map(({ content }) => content),
      ]);
    expect(answersOf(again)).toEqual(answersOf(anEpisode('e1')));
    expect(of(again, 'tool.called')).toMatchObject([{ tool_call_id: 't1', name: 'calc', arguments: { x: 6 } }]);
    expect(of(again, 'tool.returned')).toMatchObject([{ tool_call_id: 't1', status: 'ok', output: '42' }]);
    expect(of(again, 'episode.started')).toMatchObject([{ session_id: 'e1', task_id: 'task-1' }]);
  });

  it('reads what it writes as the events that it wrote it from', async () => {
    const events = eventsFrom(request(aTrace()));
    const back = eventsFrom(...(await exported(events)));
    expect(back.map((event) => canonicalJson(encodeEnvelope(event)))).toEqual(
      events.map((event) => canonicalJson(encodeEnvelope(event))),
    );
    expect(formatNamed('otel-genai').recognises({ records: await exported(events), shape: 'lines' })).toBe(true);
  });
});
