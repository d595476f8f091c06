import { describe, expect, it } from 'vitest';
import type { Draft } from '../../ingest/events/events.ts';
import { canonicalJson } from '../../ingest/events/json.ts';
import { inOrderOf, orderOf } from '../../ingest/events/source-order.ts';
import { parseOwn, writtenJson } from '../../ingest/events/spelling.ts';
import { cutRequest, eventsOfTrace, type LiveFormat, type SpanItem } from '../../ingest/formats/traces/live-traces.ts';

/** What the log gives back of a value. */
const logged = (value: unknown): unknown => JSON.parse(canonicalJson(value));

describe('The order of a source', () => {
  it.each([
    '{"b":1,"a":[{"d":1.0,"c":-0},[],{}],"10":{"2":1,"1":[1e3,2,9007199254740993]},"__proto__":{"z":null,"y":true}}',
    '{"a":1,"b":[1,2]}',
    '[{"b":"x","a":"y"},"text",1.50]',
  ])('of %s is put back on what canonical JSON made of it', (text) => {
    const value = parseOwn(text);
    const order = orderOf(value);
    expect(writtenJson(inOrderOf(logged(value), order))).toBe(text);
  });

  it('is empty where canonical JSON loses nothing', () => {
    expect(orderOf(parseOwn('{"a":1,"b":[{"c":2},"1.0"]}'))).toBe('');
  });

  it('is put on no other value', () => {
    const order = orderOf(parseOwn('{"b":1.0,"a":{"d":1,"c":2}}'));
    for (const other of [{ a: { c: 2, d: 1 }, b: 3 }, { a: 1 }, { a: { c: 2, d: 1, e: 3 }, b: 1 }])
      expect(inOrderOf(other, order)).toBe(other);
    expect(inOrderOf({ a: 1, b: 2 }, '1,0=1],"x":[2')).toEqual({ a: 1, b: 2 });
  });
});

const ASKED = '{"path": "x.py", "days": 2.0, "at": {"z": 9007199254740993, "10": 1, "2": [1e3]}}';

describe('The arguments of a tool call that a tracing client sends as an object', () => {
  it.each<[LiveFormat, string]>([
    [
      'langsmith',
      `{"post":[{"id":"11111111-0000-4000-8000-000000000001","trace_id":"11111111-0000-4000-8000-000000000001","dotted_order":"20260101T000000000000Z11111111-0000-4000-8000-000000000001","name":"ChatModel","run_type":"llm","start_time":"2026-01-01T00:00:00.000Z","end_time":"2026-01-01T00:00:01.000Z","inputs":{"messages":[[{"lc":1,"type":"constructor","id":["langchain","schema","messages","HumanMessage"],"kwargs":{"type":"human","content":"Go."}}]]},"outputs":{"generations":[[{"type":"ChatGeneration","text":"","message":{"lc":1,"type":"constructor","id":["langchain","schema","messages","AIMessage"],"kwargs":{"type":"ai","content":"","tool_calls":[{"type":"tool_call","id":"c1","name":"edit","args":ASKED}]}}}]]}}]}`,
    ],
    [
      'langfuse',
      `{"batch":[{"id":"e1","type":"trace-create","timestamp":"2026-01-01T00:00:00.000Z","body":{"id":"t1","name":"team","timestamp":"2026-01-01T00:00:00.000Z"}},{"id":"e2","type":"generation-create","timestamp":"2026-01-01T00:00:01.000Z","body":{"traceId":"t1","id":"g1","name":"call","model":"m","startTime":"2026-01-01T00:00:00.000Z","endTime":"2026-01-01T00:00:01.000Z","input":[{"role":"user","content":"Go."}],"output":{"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"c1","function":{"name":"edit","arguments":ASKED}}]}}}]}`,
    ],
  ])('of %s is learnt in the order and numbers that were sent', (format, request) => {
    const cut = cutRequest(format, parseOwn(request.replace('ASKED', ASKED)))!;
    const kept = cut.flatMap((one) => ('drafts' in one ? one.drafts : []));
    expect(kept.length).toBeGreaterThan(0);
    const items = kept.map(({ data }) => logged(data) as SpanItem);
    const events: readonly Draft[] = eventsOfTrace(items);
    const completed = events.find(({ name }) => name === 'generation.completed')!;
    const { choices } = completed.data as { choices: { content: object[] }[] };
    expect(choices[0]!.content).toContainEqual(expect.objectContaining({ name: 'edit', arguments_raw: ASKED }));
    // The id is that of canonical JSON, whatever the order.
    const sorted = cutRequest(format, logged(parseOwn(request.replace('ASKED', '{"a":1}'))))!;
    const sent = cutRequest(format, parseOwn(request.replace('ASKED', '{"a":1}')))!;
    const ids = (some: typeof sent) => some.flatMap((one) => ('drafts' in one ? one.drafts.map(({ id }) => id) : []));
    expect(ids(sorted)).toEqual(ids(sent));
  });
});
