/** Small published-shape files of the tracing formats, read from the folder that TROUPE_DATA names, against the counts beside them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';

const root = process.env.TROUPE_DATA ?? '';
type Expected = Readonly<Record<string, number>> & { readonly files: readonly string[] };
const expected: Record<string, Expected> = root
  ? JSON.parse(readFileSync(join(root, 'samples/expected.json'), 'utf8')).formats
  : {};

const NAMES = [
  'otel-genai',
  'openinference',
  'traceloop',
  'vercel-ai',
  'openai-agents',
  'langsmith',
  'langfuse',
  'agent-lightning',
];

const paths = (name: string, files: readonly string[]) => files.map((file) => join(root, 'samples', name, file));
const digest = (memory: ReturnType<typeof memoryLog>): string[] =>
  memory.events.map((event) => `${event.key} ${event.id} ${event.digest}`).sort();

describe.skipIf(!root).each(NAMES)('the files of %s (TROUPE_DATA names their folder)', (name) => {
  const { files = [], ...counts } = expected[name] ?? {};

  it('hold what stands beside them', async () => {
    const memory = memoryLog();
    const report = await importFiles(paths(name, files), memory);
    const { tasks, trajectories: episodes, agents, steps: calls, tool_calls, scores: feedback } = counts as Expected;
    expect(report).toMatchObject({ format: name, tasks, episodes, agents, calls, tool_calls, feedback, errors: [] });
    const handovers = memory.events.filter((event) => event.name === 'control.transferred');
    expect(handovers).toHaveLength((counts as Expected).handoffs ?? 0);
    const tokens = memory.events.filter(
      ({ name, data }) =>
        name === 'generation.completed' && (data as { choices: { token_ids?: unknown }[] }).choices[0]?.token_ids,
    );
    expect(tokens).toHaveLength((counts as Expected).token_id_steps ?? 0);
  });

  it('name an agent for every call and a call for every tool result', async () => {
    const memory = memoryLog();
    await importFiles(paths(name, files), memory);
    const of = (event: string) => memory.events.filter((one) => one.name === event).map(({ data }) => data as never);
    const called = of('tool.called').map(({ tool_call_id: id }) => id);
    expect(of('generation.completed').filter(({ agent_id: agent }) => !agent)).toEqual([]);
    expect(
      of('tool.returned')
        .map(({ tool_call_id: id }) => id)
        .sort(),
    ).toEqual(called.sort());
    expect(of('tool.called').filter(({ call_id: call }) => !call)).toEqual([]);
  });

  it('say the same in any order, and nothing new the second time (P4, P9)', async () => {
    const memory = memoryLog();
    await importFiles(paths(name, files), memory);
    const other = memoryLog();
    await importFiles(paths(name, files).toReversed(), other);
    expect(digest(other)).toEqual(digest(memory));
    const again = await importFiles(paths(name, files), memory);
    expect(again.events).toMatchObject({ accepted: 0, rejected: 0 });
  });
});

describe.skipIf(!root)('a bad file of spans is refused by item, and the good ones in it are kept (P7)', () => {
  const bad = async (name: string, file: string) => {
    const memory = memoryLog();
    const report = await importFiles(paths(name, [file]), memory);
    const flags = memory.events.flatMap(({ data }) => (data as { flags?: string[] }).flags ?? []);
    return {
      report,
      fields: report.errors.map(({ field }) => field),
      flags: new Set(flags),
      letters: memory.letters(),
    };
  };
  const span = (i: number, field: string): string => `resourceSpans[0].scopeSpans[0].spans[${i}].${field}`;

  it('otel-genai: three spans alone, with their own bytes; a request that was cut as a whole', async () => {
    const { fields, report, letters } = await bad('otel-genai', 'bad-ids.json');
    expect(fields).toEqual([span(0, 'traceId'), span(1, 'endTimeUnixNano'), span(2, 'kind')]);
    expect(report).toMatchObject({ episodes: 1, calls: 2 });
    expect(JSON.parse(String(Buffer.from(letters[0]!.raw)))).toMatchObject({ traceId: 'not-hex' });
    const cut = await bad('otel-genai', 'bad-truncated.json');
    expect(cut.report).toMatchObject({ episodes: 0, errors: [{ code: 'bad_json' }] });
  });

  it('openinference: arguments that are no JSON stay as written, a span without a kind is no error', async () => {
    const { fields, flags } = await bad('openinference', 'bad-arguments.json');
    expect(fields).toEqual([]);
    expect([...flags]).toEqual(expect.arrayContaining(['unparsed_arguments', 'unknown_span_kind']));
  });

  it('traceloop: a message without a role is kept, a parent that is no id refuses its span', async () => {
    const { fields, flags } = await bad('traceloop', 'bad-gap.json');
    expect(fields).toEqual([span(1, 'parentSpanId')]);
    expect(flags).toContain('unknown_role');
  });

  it('vercel-ai: tool calls that were cut are flagged, and counted from the run of the tool', async () => {
    const { fields, flags, report } = await bad('vercel-ai', 'bad-toolcalls.json');
    expect(fields).toEqual([]);
    expect(flags).toContain('unparsed_tool_calls');
    expect(report.tool_calls).toBe(1);
  });

  it('openai-agents, langfuse, langsmith and agent-lightning: each item by its place', async () => {
    expect((await bad('openai-agents', 'bad-items.json')).fields).toEqual([
      'data[1].object',
      'data[2].trace_id',
      'data[3].span_data',
    ]);
    expect((await bad('langfuse', 'bad-batch.json')).fields).toEqual([
      'batch[2].type',
      'batch[3].timestamp',
      'batch[15].body.value',
    ]);
    expect((await bad('langsmith', 'bad-runs.json')).fields).toEqual([
      'post[2].run_type',
      'post[3].dotted_order',
      'patch[0].id',
    ]);
    const lightning = await bad('agent-lightning', 'bad-events.jsonl');
    expect(lightning.fields).toEqual(['rollout_id']);
    expect([...lightning.flags]).toEqual(expect.arrayContaining(['no_content', 'no_value']));
  });
});
