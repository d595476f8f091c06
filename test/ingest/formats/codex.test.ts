/** Recorded with Codex 0.169.0 against a scripted model server, which billed 10 + n tokens in and 3 n out for its nth answer. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const FOLDER = join(import.meta.dirname, 'recorded/codex');
const FILES = ['main.jsonl', 'subagent.jsonl'].map((file) => join(FOLDER, file));
const linesOf = (file: string): Record<string, unknown>[] =>
  readFileSync(join(FOLDER, file), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
const [SESSION, CHILD] = ['01a20a2d-ce5d-7332-8538-b2e8e9bf4dc2', '01a20a2d-cf5b-7b53-9c02-59db37875243'];

describe('A session of Codex with a sub-agent', () => {
  it('is one episode: 5 calls of 2 agents, 5 tool calls, the tokens that were billed', async () => {
    const memory = memoryLog();
    const report = await importFiles(FILES, memory);
    expect(report).toMatchObject({
      format: 'codex',
      episodes: 1,
      tasks: 1,
      agents: 2,
      calls: 5,
      tool_calls: 5,
      errors: [],
    });
    const of = (name: string) =>
      memory.events.filter((event) => event.name === name).map(({ data }) => data as unknown as Data);
    expect(new Set(of('generation.completed').map(({ episode_id }) => episode_id))).toEqual(new Set([SESSION]));
    const billed = of('generation.completed').map(({ agent_id, usage }) => {
      const { input_tokens, output_tokens } = usage as { input_tokens: number; output_tokens: number };
      return [agent_id, input_tokens, output_tokens];
    });
    expect(billed.sort((a, b) => Number(a[1]) - Number(b[1]))).toEqual([
      ['main', 11, 3],
      ['main', 12, 6],
      [CHILD, 13, 9],
      [CHILD, 14, 12],
      ['main', 15, 15],
    ]);
    expect(of('tool.returned').map(({ tool_call_id, status }) => [tool_call_id, status])).toEqual([
      ['main/call_1_0', 'ok'],
      ['main/call_1_1', 'error'],
      ['main/call_1_2', 'ok'],
      ['main/call_2_0', 'ok'],
      [`${CHILD}/call_3_0`, 'ok'],
    ]);
    expect(of('agent.defined').map(({ agent_id, name, parent_agent_id }) => [agent_id, name, parent_agent_id])).toEqual(
      [
        ['main', 'main', undefined],
        [CHILD, 'Gibbs', 'main'],
      ],
    );
    expect(of('control.transferred')).toMatchObject([
      { from_agent: 'main', to_agent: CHILD, kind: 'delegate', tool_call_id: 'main/call_1_2' },
    ]);
  });

  it('says the same in any order of its files, and nothing new when it is read again', async () => {
    const memory = memoryLog();
    await importFiles(FILES, memory);
    const other = memoryLog();
    await importFiles(FILES.toReversed(), other);
    const digests = ({ events }: typeof memory) => events.map(({ id, digest }) => `${id} ${digest}`).sort();
    expect(digests(other)).toEqual(digests(memory));
    expect((await importFiles(FILES, memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
  });

  it('shows each call its instructions and all messages before it', () => {
    const { of } = read('codex', linesOf('main.jsonl'));
    const [first, second] = of('generation.requested') as { input: { role: string; content: unknown }[] }[];
    expect(first!.input.map(({ role }) => role)).toEqual(['system', 'developer', 'user', 'user']);
    expect(first!.input[0]!.content).toBe('You code.');
    expect(second!.input.slice(4).map(({ role }) => role)).toEqual(['assistant', 'tool', 'tool', 'tool']);
    const [answer] = of('generation.completed') as { choices: { content: { type: string }[] }[] }[];
    expect(answer!.choices[0]!.content.map(({ type }) => type)).toEqual([
      'reasoning',
      'text',
      'tool_call',
      'tool_call',
      'tool_call',
    ]);
    expect(of('task.defined')).toMatchObject([{ query: 'TEAM: how far are Bern and Rome?' }]);
    expect(of('message.sent').map(({ from }) => from)).toEqual(['codex', 'codex', 'user', 'codex']);
    expect(of('episode.finished')).toMatchObject([{ answer: 'Bern is far.', stop_reason: 'task_complete' }]);
  });
});

/** Recorded with Codex 0.169.0 against a server that billed as above. Words of the program were left out. */
describe('A session of Codex that was resumed', () => {
  const { of, refused } = read('codex', linesOf('resumed.jsonl'));

  it('is 4 calls with all that was before each, and 3 tool calls: of a tool that is not there, one that fails, one that works', () => {
    expect(refused).toEqual([]);
    expect(
      of('generation.completed').map(({ usage }) => {
        const { input_tokens, output_tokens } = usage as Record<string, number>;
        return [input_tokens, output_tokens];
      }),
    ).toEqual([1, 2, 3, 4].map((n) => [10 + n, 3 * n]));
    expect(of('generation.requested').map(({ input }) => (input as unknown[]).length)).toEqual([4, 7, 9, 11]);
    expect(of('tool.called').map(({ call_id, name }) => [call_id, name])).toEqual([
      ['main/1', 'update_plan'],
      ['main/1', 'exec_command'],
      ['main/3', 'exec_command'],
    ]);
    expect(of('tool.returned').map(({ status, flags }) => [status, flags])).toEqual([
      ['ok', ['apparent_error']],
      ['error', undefined],
      ['ok', undefined],
    ]);
    expect(of('episode.finished')).toMatchObject([{ answer: 'Three.', stop_reason: 'task_complete' }]);
  });
});

/** Lines as versions of 2025 wrote them, by hand: usage in token_count alone, no events about commands. */
const at = (type: string, payload: object, second = 0) => ({
  timestamp: `2026-09-10T10:00:${String(second).padStart(2, '0')}.000Z`,
  type,
  payload,
});
const META = at('session_meta', {
  id: 's',
  timestamp: '2026-09-10T10:00:00Z',
  cwd: '/w',
  cli_version: '0.46.0',
  source: 'cli',
});
const messageOf = (role: string, text: string) =>
  at('response_item', {
    type: 'message',
    role,
    content: [{ type: role === 'user' ? 'input_text' : 'output_text', text }],
  });
const calls = (call_id: string) =>
  at('response_item', { type: 'function_call', name: 'shell', arguments: '{', call_id });
const returns = (call_id: string, output: unknown) =>
  at('response_item', { type: 'function_call_output', call_id, output });
const counted = (total: number, last: number) =>
  at('event_msg', {
    type: 'token_count',
    info: { total_token_usage: { input_tokens: total }, last_token_usage: { input_tokens: last, output_tokens: 1 } },
  });

describe('A line of Codex', () => {
  it('that counts tokens belongs to the call before it, and a repeated count to none', () => {
    const { of } = read('codex', [
      META,
      messageOf('user', 'q'),
      calls('c'),
      counted(5, 5),
      returns('c', 'Exit code: 2\nOutput:\nno'),
      messageOf('assistant', 'a'),
      counted(5, 5),
      counted(12, 7),
    ]);
    expect(of('generation.completed').map(({ usage }) => usage)).toEqual([
      { input_tokens: 5, output_tokens: 1 },
      { input_tokens: 7, output_tokens: 1 },
    ]);
    expect(of('tool.called')[0]!.parse_error).toEqual(expect.any(String));
    expect(of('tool.returned')).toMatchObject([{ status: 'ok', flags: ['apparent_error'] }]);
  });

  it('that counts tokens belongs to the call after it in a session that counts before its first answer', () => {
    const { of } = read('codex', [
      META,
      messageOf('user', 'q'),
      counted(5, 5),
      calls('c'),
      returns('c', 'two'),
      counted(12, 7),
      counted(12, 7),
      messageOf('assistant', 'a'),
      messageOf('user', 'r'),
      counted(21, 9),
      messageOf('assistant', 'b'),
    ]);
    expect(of('generation.completed').map(({ usage }) => (usage as Data).input_tokens)).toEqual([5, 7, 9]);
  });

  it('of a search that the model server ran is a part of the answer, also where it has no id', () => {
    const search = (more: object) => at('response_item', { type: 'web_search_call', status: 'completed', ...more });
    const { of } = read('codex', [
      META,
      messageOf('user', 'q'),
      at('response_item', { type: 'reasoning', summary: [] }),
      search({}),
      search({}),
      search({ id: 'ws_1', action: { type: 'search', query: 'w' } }),
      messageOf('assistant', 'a'),
      counted(5, 5),
    ]);
    expect(of('generation.completed').map(({ usage }) => (usage as Data).input_tokens)).toEqual([5]);
    expect(of('tool.called').map(({ tool_call_id, name, type }) => [tool_call_id, name, type])).toEqual([
      ['main/web_search_call', 'web_search', 'server'],
      ['main/web_search_call#2', 'web_search', 'server'],
      ['main/ws_1', 'web_search', 'server'],
    ]);
    expect(of('environment.observed')).toEqual([]);
  });

  it('that compacts or takes back turns changes what later calls were shown', () => {
    const inputs = (...lines: unknown[]) =>
      read('codex', [META, messageOf('user', 'q'), messageOf('assistant', 'a'), ...lines, messageOf('assistant', 'z')])
        .of('generation.requested')
        .at(-1)!.input;
    const text = (role: string, content: string) => ({ role, content: [{ type: 'text', content }] });
    const left = [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'so far' }] }];
    expect(inputs(at('compacted', { message: 'm', replacement_history: left }))).toEqual([text('user', 'so far')]);
    expect(inputs(at('compacted', { message: 'm' }))).toBe(undefined);
    expect(inputs(at('event_msg', { type: 'thread_rolled_back', num_turns: 1 }), messageOf('user', 'p'))).toEqual([
      text('user', 'p'),
    ]);
  });

  it('that ends a turn early makes the outcome aborted', () => {
    const { of } = read('codex', [
      META,
      messageOf('user', 'q'),
      at('event_msg', { type: 'turn_aborted', reason: 'interrupted' }),
    ]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'aborted', stop_reason: 'turn_aborted' }]);
  });

  it('that cannot be read is refused by its place, the others are kept and the session is flagged', () => {
    const { refusals, of } = read('codex', [
      META,
      at('response_item', { type: 'function_call', name: 'shell' }),
      { timestamp: 't', type: 'response_item', payload: null },
      messageOf('assistant', 'a'),
    ]);
    expect(refusals.map(({ at, field }) => [at, field])).toEqual([
      [1, 'payload.call_id'],
      [2, 'payload'],
    ]);
    expect(of('generation.completed')).toHaveLength(1);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
    expect(read('codex', [messageOf('user', 'q')]).refused).toEqual(['bad_shape ']);
  });

  it('is recognised without a name', () => {
    expect(known(...linesOf('main.jsonl'))).toBe('codex');
    expect(known({ type: 'message', payload: {} })).toBe(null);
  });
});

/** Imports files of these lines, by name, in one command. */
async function importOf(files: Readonly<Record<string, readonly object[]>>) {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-codex-'));
  for (const [name, lines] of Object.entries(files))
    writeFileSync(join(folder, name), lines.map((one) => JSON.stringify(one)).join('\n'));
  const memory = memoryLog();
  const report = await importFiles([folder], memory);
  rmSync(folder, { recursive: true });
  return { report, memory };
}

/** The calls of these files with the tokens that they read, and what was said with a flag, by agent. */
async function callsOf(files: Readonly<Record<string, readonly object[]>>) {
  const { memory, report } = await importOf(files);
  const of = (name: string) =>
    memory.events.filter((event) => event.name === name).map(({ data }) => data as unknown as Data);
  return {
    report,
    of,
    calls: of('generation.completed').map(({ agent_id, usage }) => [
      agent_id,
      (usage as Data | undefined)?.input_tokens,
    ]),
    copied: of('message.sent').filter(({ flags }) => (flags as string[] | undefined)?.includes('copied_context')),
  };
}

const PARENT = '01a20a2d-0000-7000-8000-000000000001';
const SPAWNED = '01a20a2d-2000-7000-8000-000000000002';
const metaOf = (id: string, more: object, second = 0) =>
  at('session_meta', { id, timestamp: '2026-09-10T10:00:00Z', cwd: '/w', cli_version: '0.145.0', ...more }, second);
const spawnedBy = (parent: string) => ({
  source: { subagent: { thread_spawn: { parent_thread_id: parent, depth: 1 } } },
});
const turn = (turn_id: string, second = 0) => [
  at('event_msg', { type: 'task_started', turn_id }, second),
  at('turn_context', { turn_id, model: 'm' }, second),
];
const final = (text: string, second = 0) =>
  at(
    'response_item',
    { type: 'message', role: 'assistant', phase: 'final_answer', content: [{ type: 'output_text', text }] },
    second,
  );
const said = (role: string, text: string, second: number) => ({
  ...messageOf(role, text),
  timestamp: at('', {}, second).timestamp,
});
const billed = (total: number, last: number, second: number) => ({
  ...counted(total, last),
  timestamp: at('', {}, second).timestamp,
});

describe('A thread of Codex that begins with the history of another', () => {
  const copiedWhole = [
    at('turn_context', { model: 'm' }, 8),
    said('user', 'fix it', 8),
    { ...calls('p1'), timestamp: at('', {}, 8).timestamp },
    billed(1000, 1000, 8),
    { ...returns('p1', 'ok'), timestamp: at('', {}, 8).timestamp },
    { ...calls('p2'), timestamp: at('', {}, 8).timestamp },
    billed(2200, 1200, 8),
  ];
  const own = [said('user', 'write a test', 9), said('assistant', 'def test()', 10), billed(3200, 1000, 11)];

  it('has the calls alone that follow what was written at once with its beginning', async () => {
    const { calls, copied, of } = await callsOf({
      'child.jsonl': [metaOf('child', spawnedBy('top'), 8), ...copiedWhole, ...own],
    });
    expect(calls).toEqual([['child', 1000]]);
    expect(of('tool.called')).toEqual([]);
    expect(copied.map(({ role, from }) => [role, from])).toEqual([
      ['user', 'user'],
      ['assistant', 'main'],
      ['tool', 'main'],
      ['assistant', 'main'],
    ]);
    // It was shown them.
    expect((of('generation.requested')[0]!.input as Data[]).map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
    ]);
  });

  it('has no usage of the calls that newer versions leave out of the copy', async () => {
    const { calls, copied } = await callsOf({
      'child.jsonl': [
        metaOf('child', spawnedBy('top'), 8),
        metaOf('top', {}, 8),
        said('user', 'fix it', 8),
        billed(1000, 1000, 8),
        final('Fixed.', 8),
        billed(2200, 1200, 8),
        at('turn_context', { model: 'm' }, 9),
        ...own,
      ],
    });
    expect(calls).toEqual([['child', 1000]]);
    expect(copied.map(({ role }) => role)).toEqual(['user', 'assistant']);
  });

  it('begins with its own turn where turns are named by their times, whatever the lines say of time', async () => {
    const EARLIER = '01a20a2d-1000-7000-8000-00000000000a';
    const LATER = '01a20a2d-3000-7000-8000-00000000000b';
    const lines = (id: string, more: object) => [
      metaOf(id, more, 1),
      ...turn(EARLIER, 2),
      said('user', 'fix it', 3),
      final('Fixed.', 4),
      billed(1000, 1000, 5),
      ...turn(LATER, 6),
      said('user', 'write a test', 7),
      said('assistant', 'def test()', 8),
      billed(1700, 700, 9),
    ];
    expect((await callsOf({ 'child.jsonl': lines(SPAWNED, spawnedBy(PARENT)) })).calls).toEqual([[SPAWNED, 700]]);
    const forked = await callsOf({ 'forked.jsonl': lines(SPAWNED, { forked_from_id: PARENT }) });
    expect(forked.calls).toEqual([['main', 700]]);
    expect(forked.copied.map(({ from }) => from)).toEqual(['user', PARENT]);
    expect(forked.of('episode.started')).toMatchObject([{ flags: ['no_token_ids', 'copied_context'] }]);
    // A thread that was begun with nothing has all its calls.
    expect(
      (await callsOf({ 'new.jsonl': [metaOf(SPAWNED, spawnedBy(PARENT), 1), ...lines(SPAWNED, {}).slice(6)] })).calls,
    ).toEqual([[SPAWNED, 700]]);
  });
});

describe('Usage of Codex', () => {
  const recorded = (response_id: string, total: number, input_tokens: number, second: number, thread_id = 's') =>
    at(
      'token_usage_record',
      {
        thread_id,
        response_id,
        usage: { input_tokens, output_tokens: 1 },
        thread_token_usage: { input_tokens: total },
      },
      second,
    );

  it('is that of each call in a session that an older version began and a newer one went on with, and back', () => {
    const { of } = read('codex', [
      META,
      messageOf('user', 'q'),
      calls('c'),
      counted(1000, 1000),
      returns('c', 'a.py'),
      messageOf('assistant', 'one'),
      counted(2200, 1200),
      messageOf('user', 'and the test'),
      messageOf('assistant', 'two'),
      recorded('r3', 3700, 1500, 0),
      counted(3700, 1500),
      messageOf('user', 'more'),
      messageOf('assistant', 'three'),
      counted(5300, 1600),
    ]);
    expect(of('generation.completed').map(({ usage }) => (usage as Data).input_tokens)).toEqual([
      1000, 1200, 1500, 1600,
    ]);
  });

  it('of a record without an answer, as for a compaction, replaces that of no call', () => {
    const { of } = read('codex', [
      META,
      messageOf('user', 'q'),
      messageOf('assistant', 'one'),
      recorded('r1', 10, 10, 0),
      recorded('r2', 17, 7, 0),
      at('compacted', { message: 'm', replacement_history: [] }),
      messageOf('assistant', 'two'),
      recorded('r3', 20, 3, 0),
    ]);
    expect(of('generation.completed').map(({ usage }) => (usage as Data).input_tokens)).toEqual([10, 3]);
    expect(of('environment.observed').map(({ kind }) => kind)).toEqual(['token_usage_record', 'compacted']);
  });
});
