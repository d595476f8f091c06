/**
 * Recorded with the SDK of W&B Weave 0.54.0 (openai 3.57.0, anthropic 2.14.0, langchain-openai), a scripted model server that billed 10 + n
 * tokens in and 3 n out for the nth answer, and a server that kept its calls and gave them as `calls/stream_query` does, with feedback.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseWritten, writtenJson } from '../../../ingest/events/spelling.ts';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const path = (name: string): string => join(import.meta.dirname, 'recorded/weave', `${name}.jsonl`);
const calls = (name: string): Data[] =>
  readFileSync(path(name), 'utf8')
    .trim()
    .split('\n')
    .map((line) => (parseWritten(line) as { readonly value: Data }).value);
const TEAM = calls('team');
const EVALUATION = calls('evaluation');
const named = (name: string): Data => TEAM.find((call) => String(call.op_name).includes(`/op/${name}:`))!;
const readAll = (rows: readonly unknown[]) => read('weave', [rows]);

describe('Calls of Weave', () => {
  it('are an episode for each trace: agents, calls as billed, parallel tools with a result and an error', async () => {
    const memory = memoryLog();
    expect(await importFiles([path('team')], memory)).toMatchObject({
      ...{ format: 'weave', episodes: 5, tasks: 4, agents: 2, calls: 8, tool_calls: 3, feedback: 2, errors: [] },
    });
    expect((await importFiles([path('team')], memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
    const { of } = readAll(TEAM);
    expect(of('generation.completed').map(({ agent_id, usage }) => [agent_id, usage])).toMatchObject([
      ['planner', { input_tokens: 11, output_tokens: 3 }],
      ['planner', { input_tokens: 12, output_tokens: 6 }],
      ['writer', { input_tokens: 13, output_tokens: 9 }],
      [undefined, undefined],
      [undefined, { input_tokens: 15, output_tokens: 15 }],
      [undefined, { input_tokens: 23, output_tokens: 4, cached_input_tokens: 2 }],
      [undefined, { input_tokens: 24, output_tokens: 8, cached_input_tokens: 2 }],
      [undefined, { input_tokens: 9, output_tokens: 2 }],
    ]);
    const [failed] = of('generation.completed').filter(({ choices }) => (choices as unknown[]).length === 0);
    expect(failed).toMatchObject({ error: { type: 'RateLimitError' } });
    expect(of('tool.returned').map(({ tool_call_id, status, output }) => [tool_call_id, status, output])).toEqual([
      ['call_1', 'ok', '522000'],
      ['call_2', 'error', undefined],
      ['toolu_1', 'ok', '522000'],
    ]);
    expect(of('episode.started')[0]).toMatchObject({ task_id: 'cities-1', session_id: 'talk-1' });
    expect(
      of('feedback.recorded')
        .map(({ name, value, kind }) => [name, kind, value])
        .sort(),
    ).toEqual([
      ['correct', 'score', 1],
      ['reaction', 'label', '👍'],
    ]);
  });

  it('of Anthropic and the Responses API show the system prompt, blocks as tool calls and results', () => {
    const { of } = readAll(TEAM);
    const inputs = of('generation.requested').map(({ input }) => input as Data[]);
    expect(inputs[5]).toEqual([
      { role: 'system', content: 'Be short.' },
      { role: 'user', content: 'How many people live in Lyon?' },
    ]);
    expect(inputs[6]!.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'tool']);
    expect(inputs[7]).toEqual([
      { role: 'system', content: 'One word.' },
      { role: 'user', content: 'Which colour?' },
    ]);
    expect(of('generation.completed')[7]).toMatchObject({ choices: [{ content: 'Blue.' }] });
  });

  it('take a function for a tool where it was asked for by that name, also without a kind', () => {
    const plain = TEAM.map((call) => ({ ...call, attributes: { ...(call.attributes as Data), weave: {} } }));
    const { of } = readAll(plain);
    expect(of('tool.returned').map(({ tool_call_id }) => tool_call_id)).toEqual(['call_1', 'call_2', 'toolu_1']);
    // Who called is unknown: a function is no agent unless the program says so.
    expect(of('generation.completed')[0]!.agent_id).toBeUndefined();
  });

  it('of an evaluation are an episode for each example, with the scores it was given once', async () => {
    const memory = memoryLog();
    expect(await importFiles([path('evaluation')], memory)).toMatchObject({
      ...{ format: 'weave', episodes: 3, tasks: 3, agents: 2, calls: 6, tool_calls: 1, feedback: 6, errors: [] },
    });
    const { of } = readAll(EVALUATION);
    expect(of('episode.started').map(({ task_id }) => task_id)).toEqual([
      'weave/R0',
      'weave/R1',
      expect.stringMatching(/^text\//),
    ]);
    expect(
      of('feedback.recorded')
        .map(({ name, value }) => `${name} ${value}`)
        .sort(),
    ).toEqual([
      ...['Judge true', 'Judge true', 'correct.length 1', 'correct.length 1'],
      ...['correct.right false', 'correct.right true'],
    ]);
    expect(of('generation.completed').map(({ agent_id }) => agent_id)).toEqual([
      ...[undefined, 'Judge.score', undefined, 'Judge.score'],
      ...['doubler', 'doubler'],
    ]);
  });

  it('whose input is a reference to an object have none, and say so', () => {
    const { of } = readAll(EVALUATION);
    expect(of('generation.completed')[0]).toMatchObject({ flags: ['unresolved_references'] });
    expect(of('generation.requested')[0]!.input).toBeUndefined();
    expect(of('task.defined').slice(0, 2)).toEqual([
      { task_id: 'weave/R0', source: 'weave' },
      { task_id: 'weave/R1', source: 'weave' },
    ]);
  });

  it('of LangChain within Weave are calls once, with the tool they ask for', () => {
    const { of } = readAll(EVALUATION.filter(({ op_name }) => !/openai/.test(String(op_name))));
    expect(of('generation.completed').slice(-2)).toMatchObject([
      { choices: [{ content: [{ type: 'tool_call', name: 'double', arguments: { n: 4 } }] }] },
      { choices: [{ content: 'It is 8.' }] },
    ]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'call_9', output: '8' }]);
  });

  it('are the same in any order, split over files, as an answer {calls} or a list, with feedback in rows of its own', async () => {
    const memory = memoryLog();
    await importFiles([path('team'), path('evaluation')], memory);
    const folder = mkdtempSync(join(tmpdir(), 'troupe-weave-'));
    const rows = [...EVALUATION, ...TEAM].toReversed();
    writeFileSync(join(folder, 'a.jsonl'), rows.slice(0, 9).map(writtenJson).join('\r\n'));
    writeFileSync(join(folder, 'b.json'), `{ "calls":\n ${writtenJson(rows.slice(9, 20))}\n}`);
    writeFileSync(join(folder, 'c.json'), writtenJson(rows.slice(20)));
    const again = await importFiles([folder], memory);
    rmSync(folder, { recursive: true });
    expect(again.events).toMatchObject({ accepted: 0, rejected: 0 });
    const { feedback } = (named('team').summary as { weave: { feedback: Data[] } }).weave;
    const bare = TEAM.map((call) => ({ ...call, summary: null }));
    expect(readAll([...feedback, ...bare]).of('feedback.recorded')).toHaveLength(2);
  });

  it('that still run are answered by nothing, and the later export of one counts', () => {
    const answer = named('writer');
    const model = TEAM.find(({ parent_id }) => parent_id === answer.id)!;
    const running = { ...model, ended_at: null, output: null, summary: null };
    expect(readAll([running]).of('generation.completed')).toEqual([]);
    for (const rows of [
      [running, model],
      [model, running],
    ])
      expect(readAll(rows).of('generation.completed')).toMatchObject([
        { choices: [{ content: 'A note about Lyon.' }] },
      ]);
  });

  it('of a table that holds their objects as texts say the same', () => {
    const texts = TEAM.map((call) =>
      Object.fromEntries(
        Object.entries(call).map(([name, value]) => [
          name,
          ['inputs', 'output', 'summary', 'attributes'].includes(name) && value !== null && typeof value === 'object'
            ? JSON.stringify(value)
            : value,
        ]),
      ),
    );
    const [row, plain] = [readAll(texts), readAll(TEAM)];
    for (const name of ['generation.requested', 'generation.completed', 'tool.called', 'tool.returned'] as const)
      expect(row.of(name)).toEqual(plain.of(name));
  });

  it('that cannot be read are refused by field, and the others are kept', () => {
    const [first, ...rest] = TEAM as [Data, ...Data[]];
    const { refused, of } = readAll([
      { ...first, id: 7 },
      { ...first, started_at: 'soon' },
      { feedback_type: 'correct', weave_ref: 'weave:///team/p/object/x:1', payload: {} },
      'text',
      ...rest,
    ]);
    expect(refused.toSorted()).toEqual(['bad_reference weave_ref', 'bad_shape ', 'bad_time started_at', 'bad_type id']);
    expect(of('generation.completed')).toHaveLength(8);
  });

  it('are known by their content', () => {
    expect(known(TEAM[0])).toBe('weave');
    expect(known({ calls: TEAM })).toBe('weave');
  });
});
