/** Recorded with Claude Code 2.1.197 against a scripted model server, which billed 10 + n tokens in and 3 n out for its nth answer. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { formatNamed } from '../../../ingest/formats/catalogue.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const FOLDER = join(import.meta.dirname, 'recorded/claude-code');
const linesOf = (file: string): Record<string, unknown>[] =>
  readFileSync(join(FOLDER, file), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
const FILES = ['session.jsonl', 'agent-a06e09f9d58deb48d.jsonl', 'agent-a460b889c697c886b.jsonl'];
const [ROME, BERN] = ['a06e09f9d58deb48d', 'a460b889c697c886b'];

describe('A session of Claude Code with two sub-agents', () => {
  it('is one episode: 7 calls of 3 agents, 5 tool calls, the tokens that were billed', async () => {
    const memory = memoryLog();
    const report = await importFiles(
      FILES.map((file) => join(FOLDER, file)),
      memory,
    );
    expect(report).toMatchObject({ format: 'claude-code', episodes: 1, tasks: 1, calls: 7, tool_calls: 5, errors: [] });
    const of = (name: string) =>
      memory.events.filter((event) => event.name === name).map(({ data }) => data as unknown as Data);
    const calls = of('generation.completed').map(({ agent_id, call_id, usage }) => [
      agent_id,
      call_id,
      (usage as { input_tokens: number }).input_tokens,
      (usage as { output_tokens: number }).output_tokens,
    ]);
    // Of the tokens of each input the server read 2 from its cache, and wrote 1 to it.
    expect(calls.sort((a, b) => Number(a[2]) - Number(b[2]))).toEqual(
      ['main', BERN, ROME, BERN, ROME, 'main', 'main'].map((agent, i) => [agent, `msg_${i + 1}`, 14 + i, 3 + 3 * i]),
    );
    const results = new Map(of('tool.returned').map((one) => [one.tool_call_id, one.status]));
    expect(
      of('tool.called').map(({ agent_id, name, tool_call_id }) => [agent_id, name, results.get(tool_call_id)]),
    ).toEqual([
      ['main', 'Agent', 'ok'],
      ['main', 'Agent', 'ok'],
      ['main', 'Bash', 'error'],
      [ROME, 'Bash', 'ok'],
      [BERN, 'Bash', 'ok'],
    ]);
  });

  it('makes the same events in any order of its files, and nothing new when it is read again', async () => {
    const imported = async (files: readonly string[], memory = memoryLog()) => {
      const { events } = await importFiles(
        files.map((file) => join(FOLDER, file)),
        memory,
      );
      return { events, digests: memory.events.map(({ id, digest }) => `${id} ${digest}`).sort(), memory };
    };
    const once = await imported(FILES);
    expect((await imported(FILES.toReversed())).digests).toEqual(once.digests);
    expect((await imported(FILES, once.memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
  });

  it('names the parent, the type and the starting call of each sub-agent', () => {
    const { of, times } = read('claude-code', linesOf('session.jsonl'));
    expect(of('agent.defined').map(({ agent_id, role, parent_agent_id }) => [agent_id, role, parent_agent_id])).toEqual(
      [
        ['main', undefined, undefined],
        [BERN, 'general-purpose', 'main'],
        [ROME, 'general-purpose', 'main'],
      ],
    );
    expect(of('control.transferred')).toMatchObject([
      { from_agent: 'main', to_agent: BERN, kind: 'delegate', tool_call_id: 'toolu_00010' },
      { from_agent: 'main', to_agent: ROME, kind: 'delegate', tool_call_id: 'toolu_00011' },
    ]);
    // What the agent's own file says of it comes before what its parent says, which stays.
    const own = read('claude-code', linesOf(`agent-${ROME}.jsonl`));
    expect(own.of('agent.defined')).toMatchObject([
      { agent_id: ROME, role: 'general-purpose', parent_agent_id: 'main' },
    ]);
    expect(own.times('agent.defined')[0]! < times('agent.defined')[2]!).toBe(true);
    expect(own.of('episode.started')).toMatchObject([{ flags: ['no_token_ids', 'incomplete'] }]);
  });

  it('takes the lines of one answer for one call, and shows each call the messages before it', () => {
    const { of } = read('claude-code', linesOf('session.jsonl'));
    const [first, second] = of('generation.completed') as { choices: { content: { type: string }[] }[] }[];
    expect(first!.choices[0]!.content.map(({ type }) => type)).toEqual(['reasoning', 'text', 'tool_call', 'tool_call']);
    expect(second!.choices[0]!.content.map(({ type }) => type)).toEqual(['tool_call']);
    expect(
      of('generation.requested').map(({ input }) => (input as { role: string }[]).map(({ role }) => role)),
    ).toEqual([
      ['user'],
      ['user', 'assistant', 'tool', 'tool'],
      ['user', 'assistant', 'tool', 'tool', 'assistant', 'tool'],
    ]);
    expect(of('task.defined')).toMatchObject([{ query: 'TEAM: how far are Bern and Rome?' }]);
    expect(of('episode.finished')).toMatchObject([{ answer: 'Bern and Rome are far.', stop_reason: 'end_turn' }]);
  });
});

/**
 * Recorded with Claude Code 2.1.197 against a scripted server that billed as above: two tools at once, of which one reads a picture and
 * one fails; `/compact` by the third call, whose usage the file does not hold; then the session goes on. Words of the program were left out.
 */
describe('A session of Claude Code that was compacted and resumed', () => {
  const { of, refused } = read('claude-code', linesOf('compacted.jsonl'));

  it('is 4 calls with the tokens that were billed, and 3 tool calls with a picture, an error and a text', () => {
    expect(refused).toEqual([]);
    expect(
      of('generation.completed').map(({ call_id, usage }) => {
        const { input_tokens, output_tokens } = usage as Record<string, number>;
        return [call_id, input_tokens, output_tokens];
      }),
    ).toEqual([
      ['msg_1', 11, 3],
      ['msg_2', 12, 6],
      ['msg_4', 14, 12],
      ['msg_5', 15, 15],
    ]);
    expect(of('tool.called').map(({ call_id, name }) => [call_id, name])).toEqual([
      ['msg_1', 'Read'],
      ['msg_1', 'Bash'],
      ['msg_4', 'Bash'],
    ]);
    expect(of('tool.returned')).toMatchObject([
      { status: 'ok', output: [{ type: 'image', source: { type: 'base64', media_type: 'image/png' } }] },
      { status: 'error', output: 'Exit code 1\ncat: missing.txt: No such file or directory' },
      { status: 'ok', output: 'three' },
    ]);
  });

  it('shows the calls after the summary nothing of what was before it', () => {
    const inputs = of('generation.requested').map(
      ({ input }) => input as { role: string; content: { content?: unknown }[] }[],
    );
    expect(inputs[1]!.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool']);
    expect(inputs[2]![0]!.content[0]!.content).toBe('Summary: the picture is red and the command failed.');
    expect(JSON.stringify(inputs.slice(2))).not.toContain('PICTURE');
    expect(of('episode.started')[0]!.flags).toEqual(['no_token_ids']);
    expect(of('episode.finished')).toMatchObject([{ answer: 'Three.' }]);
  });
});

/** As versions before 2.0.42 wrote: the sub-agent within the file. Written by hand. */
let count = 0;
const line = (type: string, message: unknown, more: object = {}) => {
  count += 1;
  return {
    type,
    message,
    uuid: `u${count}`,
    parentUuid: count === 1 ? null : `u${count - 1}`,
    sessionId: 's',
    isSidechain: false,
    timestamp: `2026-09-10T10:00:${String(count).padStart(2, '0')}.000Z`,
    ...more,
  };
};
const answer = (id: string, content: unknown[], more: object = {}) =>
  line('assistant', { id, role: 'assistant', model: 'm', content, usage: { input_tokens: 1, output_tokens: 2 } }, more);
const asks = (id: string, name: string, input: object) => ({ type: 'tool_use', id, name, input });
const result = (id: string, content: unknown, more: object = {}) => ({
  role: 'user',
  content: [{ type: 'tool_result', tool_use_id: id, content, ...more }],
});

/** Imports files of these lines, by name, in one command. */
async function importOf(files: Readonly<Record<string, readonly unknown[]>>) {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-claude-'));
  for (const [name, lines] of Object.entries(files))
    writeFileSync(join(folder, name), lines.map((one) => JSON.stringify(one)).join('\n'));
  const memory = memoryLog();
  const report = await importFiles([folder], memory);
  rmSync(folder, { recursive: true });
  return { report, memory };
}

describe('A line of Claude Code', () => {
  it('of a sidechain without an agent belongs to the agent whose prompt the chain begins with', () => {
    count = 0;
    const side = { isSidechain: true };
    const { of, refused } = read('claude-code', [
      line('user', { role: 'user', content: 'Fix it' }),
      answer('a1', [asks('t1', 'Task', { prompt: 'Search', subagent_type: 'Explore' })]),
      line('user', { role: 'user', content: 'Search' }, { ...side, parentUuid: null }),
      answer('b1', [{ type: 'text', text: 'Found' }], side),
      line('user', result('t1', 'Found'), { parentUuid: 'u2', toolUseResult: { totalDurationMs: 5 } }),
      answer('a2', [{ type: 'text', text: 'Done' }]),
    ]);
    expect(refused).toEqual([]);
    expect(of('agent.defined')).toMatchObject([
      { agent_id: 'main' },
      { agent_id: 'u3', name: 'Explore', role: 'Explore', parent_agent_id: 'main' },
    ]);
    expect(of('generation.completed').map(({ agent_id }) => agent_id)).toEqual(['main', 'main', 'u3']);
    expect(of('control.transferred')).toMatchObject([{ to_agent: 'u3', tool_call_id: 't1' }]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 't1', status: 'ok', duration_ms: 5 }]);
  });

  it('of a type that is not known is counted in the report, and one that is a note is not', async () => {
    count = 0;
    const lines = [
      line('user', { role: 'user', content: 'Fix it' }),
      answer('a1', [asks('t1', 'Bash', {})]),
      { type: 'tool_result', sessionId: 's', tool_use_id: 't1', content: 'three' },
      { type: 'progress', sessionId: 's' },
    ];
    expect((await importOf({ 's.jsonl': lines })).report).toMatchObject({
      unread_lines: [{ format: 'claude-code', type: 'tool_result', lines: 1 }],
      errors: [],
    });
    expect((await importOf({ 's.jsonl': lines.slice(0, 2) })).report).not.toHaveProperty('unread_lines');
  });

  it('of a sub-agent whose session is in no file makes it incomplete, until the session comes', () => {
    count = 0;
    const side = { isSidechain: true, agentId: 'a7' };
    const alone = read('claude-code', [
      line('user', { role: 'user', content: 'Search' }, side),
      answer('b1', [{ type: 'text', text: 'Found' }], side),
    ]);
    expect(alone.of('episode.started')).toMatchObject([{ episode_id: 's', flags: ['no_token_ids', 'incomplete'] }]);
    // Of several beginnings the last by time shows: the one of the session has a time.
    expect(alone.times('episode.started')).toEqual([null]);
    const session = read('claude-code', [line('user', { role: 'user', content: 'Fix it' }, { parentUuid: null })]);
    const [log] = formatNamed('openai-chat')!.write!([...alone.drafts, ...session.drafts]);
    const { task_id } = session.of('task.defined')[0]!;
    expect(log).toMatchObject({ request: { metadata: { task_id } } });
  });

  it('that was refused by the person, stands for an answer, or follows a rewind is mapped as what it is', () => {
    count = 0;
    const { of } = read('claude-code', [
      line('user', { role: 'user', content: 'Fix it' }),
      answer('a1', [asks('t1', 'Bash', {})]),
      line('user', result('t1', "The user doesn't want to proceed with this tool use.", { is_error: true })),
      line(
        'assistant',
        { id: 'x', role: 'assistant', model: '<synthetic>', content: [{ type: 'text', text: 'API Error' }] },
        {
          isApiErrorMessage: true,
        },
      ),
      line('user', { role: 'user', content: 'Other way' }, { parentUuid: 'u1' }),
      answer('a2', [{ type: 'text', text: 'Yes' }]),
    ]);
    expect(of('tool.returned')).toMatchObject([{ status: 'denied' }]);
    expect(of('environment.observed')).toMatchObject([{ kind: 'error' }]);
    expect(of('generation.completed')).toHaveLength(2);
    expect(of('generation.requested')[1]!.input).toEqual([
      { role: 'user', content: [{ type: 'text', content: 'Fix it' }] },
      { role: 'user', content: [{ type: 'text', content: 'Other way' }] },
    ]);
  });

  it('after the context was compacted is shown the summary alone', () => {
    count = 0;
    const { of } = read('claude-code', [
      line('user', { role: 'user', content: 'Fix it' }),
      answer('a1', [{ type: 'text', text: 'Well' }]),
      { ...line('system', undefined, { subtype: 'compact_boundary', content: 'Compacted' }), parentUuid: null },
      line('user', { role: 'user', content: 'So far: nothing' }, { isCompactSummary: true }),
      answer('a2', [{ type: 'text', text: 'Yes' }]),
    ]);
    expect((of('generation.requested')[1]!.input as unknown[]).length).toBe(1);
    expect(of('environment.observed')).toMatchObject([{ kind: 'compact_boundary' }]);
  });

  it('whose beginning is in another file has calls of unknown input, and is flagged', () => {
    const cut = linesOf('session.jsonl').slice(3);
    const { of } = read('claude-code', cut);
    expect(of('generation.requested').length).toBeGreaterThan(0);
    for (const call of of('generation.requested')) expect(call).not.toHaveProperty('input');
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
    const agent = linesOf('agent-a06e09f9d58deb48d.jsonl');
    expect(read('claude-code', agent).of('generation.requested')[0]).toHaveProperty('input');
    expect(read('claude-code', agent.slice(1)).of('generation.requested')[0]).not.toHaveProperty('input');
  });

  it('that cannot be read is refused by its place, the others are kept and the session is flagged', () => {
    count = 0;
    const { refusals, of } = read('claude-code', [
      line('user', { role: 'user', content: 'Fix it' }),
      answer('a1', [{ type: 'tool_use', name: 'Bash' }]),
      line('user', null),
      answer('a2', [{ type: 'text', text: 'Yes' }]),
    ]);
    expect(refusals.map(({ at, field }) => [at, field])).toEqual([
      [1, 'message.content[0].id'],
      [2, 'message'],
    ]);
    expect(of('generation.completed')).toHaveLength(1);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
  });

  it('is recognised without a name, also where only what is shown on the Hub is there', () => {
    expect(known(...linesOf('session.jsonl'))).toBe('claude-code');
    expect(
      known({ type: 'user', message: { role: 'user', content: 'q' }, uuid: 'u', parentUuid: null, sessionId: 's' }),
    ).toBe('claude-code');
    expect(known({ type: 'assistant', message: { role: 'assistant', content: 'q' }, session_id: 's' })).toBe(null);
  });
});

describe('A session of Claude Code that repeats another one', () => {
  const said = (session: string, uuid: string, second: number, more: object = {}) => ({
    ...line('user', { role: 'user', content: `say ${uuid}` }),
    uuid,
    parentUuid: second === 1 ? null : `u-${second - 1}`,
    sessionId: session,
    timestamp: `2026-09-10T10:00:${String(second).padStart(2, '0')}.000Z`,
    ...more,
  });
  const told = (session: string, id: string, second: number, more: object = {}) => ({
    ...said(session, `u-${second}`, second),
    ...answer(id, [{ type: 'text', text: id }]),
    uuid: `u-${second}`,
    parentUuid: `u-${second - 1}`,
    sessionId: session,
    timestamp: `2026-09-10T10:00:${String(second).padStart(2, '0')}.000Z`,
    ...more,
  });
  const first = [said('one', 'u-1', 1), told('one', 'msg_1', 2)];
  const history = [said('two', 'u-1', 1), told('two', 'msg_1', 2)];
  const second = [...history, said('two', 'u-3', 3), told('two', 'msg_2', 4)];
  const callsIn = (memory: ReturnType<typeof memoryLog>) =>
    memory.events
      .filter(({ name }) => name === 'generation.completed')
      .map(({ data }) => data as unknown as Data)
      .map(({ episode_id, call_id }) => `${episode_id} ${call_id}`)
      .sort();
  const flagged = (memory: ReturnType<typeof memoryLog>) =>
    memory.events.flatMap(({ data }) => {
      const { episode_id, flags, message_id } = data as unknown as Data;
      return (flags as string[] | undefined)?.includes('copied_context') ? [`${episode_id} ${message_id}`] : [];
    });
  async function imported(memory: ReturnType<typeof memoryLog>, files: Readonly<Record<string, readonly unknown[]>>) {
    const folder = mkdtempSync(join(tmpdir(), 'troupe-claude-'));
    for (const [name, lines] of Object.entries(files))
      writeFileSync(join(folder, name), lines.map((one) => JSON.stringify(one)).join('\n'));
    const report = await importFiles([folder], memory);
    rmSync(folder, { recursive: true });
    return report;
  }

  it('has none of its calls, which are counted once, in one import whatever the order of the files', async () => {
    for (const files of [
      { 'a.jsonl': first, 'b.jsonl': second },
      { 'a.jsonl': second, 'b.jsonl': first },
    ]) {
      const memory = memoryLog();
      expect(await imported(memory, files)).toMatchObject({ episodes: 2, calls: 2 });
      expect(callsIn(memory)).toEqual(['one msg_1', 'two msg_2']);
      expect(flagged(memory)).toEqual(['two u-1', 'two u-2']);
      const started = memory.events.filter(({ name }) => name === 'episode.started').map(({ data }) => data);
      expect(started).toContainEqual(expect.objectContaining({ episode_id: 'two', parent_episode_id: 'one' }));
      // What is repeated is still what the call was shown.
      const asked = memory.events.filter(({ name }) => name === 'generation.requested').map(({ data }) => data);
      expect(asked).toContainEqual(
        expect.objectContaining({ call_id: 'msg_2', input: expect.objectContaining({ length: 3 }) }),
      );
    }
  });

  it('is known by what was imported before, and nothing changes when either is read again', async () => {
    const memory = memoryLog();
    await imported(memory, { 'a.jsonl': first });
    await imported(memory, { 'b.jsonl': second });
    expect(callsIn(memory)).toEqual(['one msg_1', 'two msg_2']);
    for (const lines of [first, second])
      expect((await imported(memory, { 'c.jsonl': lines })).events).toMatchObject({ accepted: 0, rejected: 0 });
    const other = memoryLog();
    await imported(other, { 'b.jsonl': second });
    await imported(other, { 'a.jsonl': first });
    expect(callsIn(other)).toEqual(['two msg_1', 'two msg_2']);
    expect((await imported(other, { 'a.jsonl': first, 'b.jsonl': second })).events).toMatchObject({ accepted: 0 });
  });

  it('is known by its answers where its lines have new ids, and not by the numbers of a server alone', async () => {
    const renamed = history.map((one, i) => ({ ...one, uuid: `n-${i}`, parentUuid: i === 0 ? null : `n-${i - 1}` }));
    const memory = memoryLog();
    await imported(memory, { 'a.jsonl': first, 'b.jsonl': [...renamed, told('two', 'msg_2', 4)] });
    expect(callsIn(memory)).toEqual(['one msg_1', 'two msg_2']);
    const later = [said('three', 'x', 1), told('three', 'msg_1', 9, { uuid: 'y' })];
    await imported(memory, { 'c.jsonl': later });
    expect(callsIn(memory)).toEqual(['one msg_1', 'three msg_1', 'two msg_2']);
  });

  it('has no call of a line that it wrote a second time without saying where it is from', async () => {
    const from = { forkedFrom: { sessionId: 'one', messageUuid: 'u-2' } };
    const copies = history.map((one) => ({ ...one, ...from }));
    for (const lines of [
      [...copies, ...second],
      [...history, ...copies, ...second.slice(2)],
    ]) {
      const memory = memoryLog();
      await imported(memory, { 'b.jsonl': lines });
      expect(callsIn(memory)).toEqual(['two msg_2']);
      // And the session that it is from keeps them, also where it comes later.
      await imported(memory, { 'a.jsonl': first });
      expect(callsIn(memory)).toEqual(['one msg_1', 'two msg_2']);
    }
  });

  it('of a workflow is handed over to by the main agent, as the folder of its file or its type says', async () => {
    const side = { isSidechain: true, agentId: 'a7' };
    const lines = [said('one', 'w-1', 1, side), told('one', 'msg_9', 2, { ...side, parentUuid: 'w-1' })];
    const folder = mkdtempSync(join(tmpdir(), 'troupe-claude-'));
    const agents = join(folder, 'one/subagents/workflows/wf_1');
    mkdirSync(agents, { recursive: true });
    writeFileSync(join(agents, 'agent-a7.jsonl'), lines.map((one) => JSON.stringify(one)).join('\n'));
    const memory = memoryLog();
    await importFiles([folder], memory);
    rmSync(folder, { recursive: true });
    const handed = memory.events.filter(({ name }) => name === 'control.transferred').map(({ data }) => data);
    expect(handed).toMatchObject([{ from_agent: 'main', to_agent: 'a7', kind: 'delegate', reason: 'wf_1' }]);
    const typed = lines.map((one) => ({ ...one, attributionAgent: 'workflow-subagent' }));
    expect(read('claude-code', typed).of('control.transferred')).toMatchObject([
      { from_agent: 'main', to_agent: 'a7' },
    ]);
    expect(read('claude-code', lines).of('control.transferred')).toEqual([]);
  });
});

describe('Lines of Claude Code from other servers and versions', () => {
  const at = (seq: number) => `2026-09-10T10:00:0${seq}.000Z`;
  const line = (uuid: string, parentUuid: string | null, seq: number, message: object, more: object = {}) => ({
    ...{
      type: (message as { role: string }).role,
      uuid,
      parentUuid,
      sessionId: 's',
      timestamp: at(seq),
      message,
      ...more,
    },
  });
  const answer = (id: string, content: object[], usage: object = {}) => ({
    ...{ role: 'assistant', id, model: 'm', content, usage },
  });
  const use = (id: string) => ({ type: 'tool_use', id, name: 'Read', input: {} });
  const result = (id: string, content: string) => ({
    role: 'user',
    content: [{ type: 'tool_result', tool_use_id: id, content }],
  });
  const QUESTION = line('q', null, 0, { role: 'user', content: 'Read both.' });

  it('that share a message id without a request id are one call, billed by the last of them', () => {
    const { of } = read('claude-code', [
      QUESTION,
      line('a1', 'q', 1, answer('m1', [{ type: 'text', text: 'I read.' }], { input_tokens: 40, output_tokens: 2 })),
      line('a2', 'a1', 2, answer('m1', [use('t1')], { input_tokens: 40, output_tokens: 30 })),
    ]);
    expect(of('generation.completed').map(({ usage }) => usage)).toMatchObject([
      { input_tokens: 40, output_tokens: 30 },
    ]);
    expect(of('tool.called')).toHaveLength(1);
  });

  it('whose results hang on different lines of one answer show the next call all of them', () => {
    const { of } = read('claude-code', [
      QUESTION,
      line('a1', 'q', 1, answer('m1', [use('t1')])),
      line('a2', 'a1', 2, answer('m1', [use('t2')])),
      line('r1', 'a1', 3, result('t1', 'one')),
      line('r2', 'a2', 4, result('t2', 'two')),
      line('a3', 'r2', 5, answer('m2', [{ type: 'text', text: 'Both.' }])),
    ]);
    const shown = JSON.stringify(of('generation.requested').at(-1)!.input);
    expect([shown.includes('one'), shown.includes('two')]).toEqual([true, true]);
  });

  it('that the program wrote in the place of an answer are an error of the environment, no answer', () => {
    const said = { role: 'assistant', id: 'x', model: '<synthetic>', content: [{ type: 'text', text: 'API Error' }] };
    const { of } = read('claude-code', [
      QUESTION,
      line('e', 'q', 1, said, { isApiErrorMessage: true }),
      line('a', 'e', 2, answer('m1', [{ type: 'text', text: 'Hi!' }])),
    ]);
    expect(of('generation.completed').map(({ response_id }) => response_id)).toEqual(['m1']);
    expect(of('environment.observed')).toMatchObject([{ kind: 'error' }]);
  });
});
