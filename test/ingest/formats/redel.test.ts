import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { known, read } from './support/convert.ts';

const at = (second: number) => 1_789_000_000 + second;
const spawn = (id: string, name: string, parent: string | null, more: object = {}) => ({
  type: 'kani_spawn',
  timestamp: at(1),
  id,
  name,
  parent,
  depth: parent === null ? 0 : 1,
  always_included_messages: [{ role: 'system', content: `You are ${name}.` }],
  engine_repr: 'm1',
  functions: [],
  ...more,
});
const says = (second: number, id: string, msg: object) => ({
  type: 'kani_message',
  timestamp: at(second),
  id,
  msg: { name: null, extra: {}, ...msg },
});
const ASKED = { type: 'send_message', timestamp: at(0), content: 'How long?' };
const CALL = says(2, 'k1', {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c', type: 'function', function: { name: 'calc', arguments: '{"x":1}' } }],
});
const USED = { type: 'tokens_used', timestamp: at(3), id: 'k1', prompt_tokens: 4, completion_tokens: 2 };
const RESULT = says(4.5, 'k1', { role: 'function', content: 'late', tool_call_id: 'c', is_tool_call_error: true });
const OLD = says(5, 'k2', { role: 'assistant', content: '20', function_call: { name: 'calc', arguments: '{bad' } });
const OLD_RESULT = says(6, 'k2', { role: 'function', name: 'calc', content: '2' });
const ROOT = { type: 'root_message', timestamp: at(7), msg: { role: 'assistant', content: '20' } };
const DONE = { type: 'round_complete', timestamp: at(8), session_id: 's-1' };
const EVENTS = [
  ASKED,
  spawn('k1', 'lead', null),
  spawn('k2', 'helper', 'k1'),
  CALL,
  USED,
  RESULT,
  OLD,
  OLD_RESULT,
  ROOT,
  DONE,
];
const state = (n_events: number, id = 's-1') => ({ id, title: 'How', last_modified: at(9), n_events, state: [] });

describe('a session of ReDel', () => {
  const { of, times, refused } = read('redel', [EVENTS, [state(10)]]);

  it('is one episode of its log and its state, its agents a tree by their ids', () => {
    expect([known(ASKED), known(state(1))]).toEqual(['redel', 'redel']);
    expect(refused).toEqual([]);
    expect(of('episode.started')).toMatchObject([
      { episode_id: 's-1', flags: ['no_token_ids'], unmapped: { state: { title: 'How', n_events: 10 } } },
    ]);
    expect(
      of('agent.defined').map(({ agent_id, name, parent_agent_id, depth }) => [agent_id, name, parent_agent_id, depth]),
    ).toEqual([
      ['k1', 'lead', undefined, 0],
      ['k2', 'helper', 'k1', 1],
    ]);
    expect(of('agent.defined')[0]).toMatchObject({ system_instructions: 'You are lead.', model: 'm1' });
    expect(of('episode.finished')).toMatchObject([{ answer: '20', stop_reason: 'round_complete' }]);
    expect(times('tool.returned')[0]).toBe('2026-09-10T00:26:44.500000Z');
  });

  it('gives each answer the tokens reported after it, and does not count the root message twice', () => {
    expect(of('generation.completed').map(({ agent_id, usage }) => [agent_id, usage])).toEqual([
      ['k1', { input_tokens: 4, output_tokens: 2 }],
      ['k2', undefined],
    ]);
  });

  it('pairs tool calls by id, and old function calls without one by their name', () => {
    const called = of('tool.called').map(({ tool_call_id, arguments_raw }) => [tool_call_id, arguments_raw]);
    expect(called).toEqual([
      ['k1/c', '{"x":1}'],
      ['k2/calc.1', '{bad'],
    ]);
    expect(of('tool.returned').map(({ tool_call_id, status }) => [tool_call_id, status])).toEqual([
      ['k1/c', 'error'],
      ['k2/calc.1', 'ok'],
    ]);
  });

  it('is flagged where the state counts other events than the log holds, and where an event was refused', () => {
    expect(read('redel', [EVENTS, [state(11)]]).of('episode.started')[0]!.flags).toContain('incomplete');
    const bad = read('redel', [[ASKED, spawn('k1', 'a', null), { ...CALL, msg: null }, { ...CALL, id: 3 }, DONE]]);
    expect(bad.refusals.map(({ at: place, field }) => [place, field])).toEqual([
      [2, 'msg'],
      [3, 'id'],
    ]);
    expect(bad.of('episode.started')[0]!.flags).toContain('incomplete');
  });

  it('without a session id is named by its first event, and a state without a log is refused', () => {
    const [one, grown] = [read('redel', [EVENTS.slice(0, 4)]), read('redel', [EVENTS.slice(0, 5)])];
    expect(one.of('episode.started')[0]!.episode_id).toBe(grown.of('episode.started')[0]!.episode_id);
    expect(read('redel', [[state(3)]]).refused).toEqual(['bad_reference id']);
  });

  it('keeps events without a place by their type', () => {
    const { of } = read('redel', [
      [
        ASKED,
        { type: 'session_meta_update', timestamp: at(1), title: 'x' },
        { type: 'error', timestamp: at(2), msg: 'boom' },
      ],
    ]);
    expect(of('environment.observed').map(({ kind, content }) => [kind, content])).toEqual([
      ['session_meta_update', { title: 'x' }],
      ['error', 'boom'],
    ]);
  });

  it('is read from its folder, whatever the files are called and in whichever order they are named', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'troupe-redel-'));
    try {
      const imported = async (log: string, meta: string, turned: boolean) => {
        const folder = join(dir, log);
        await mkdir(folder, { recursive: true });
        await writeFile(join(folder, log), EVENTS.map((event) => JSON.stringify(event)).join('\n'));
        await writeFile(join(folder, meta), JSON.stringify(state(10), null, 1));
        const memory = memoryLog();
        const paths = [join(folder, log), join(folder, meta)];
        const report = await importFiles(turned ? paths.toReversed() : paths, memory);
        expect(report).toMatchObject({ format: 'redel', files: 2, episodes: 1, agents: 2, errors: [] });
        return memory.events.map(({ id, digest }) => `${id} ${digest}`).sort();
      };
      expect(await imported('events.jsonl', 'state.json', false)).toEqual(await imported('zz.log', 'aa', true));
    } finally {
      await rm(dir, { recursive: true });
    }
  });
});
