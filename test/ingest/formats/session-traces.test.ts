import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const HEADER = { type: 'session', harness: 'my-agent', id: 's1', name: 'The time' };
const say = (role: string, content: string, more: Data = {}) => ({
  type: 'message',
  message: { role, content, ...more },
});
const CALLS = [{ id: 't1', function: { name: 'get_time', arguments: '{"zone":"UTC"}' } }];
const PLAIN = [
  HEADER,
  say('user', 'What time is it?'),
  say('assistant', '', { toolCalls: CALLS, reasoningContent: 'Ask the clock.' }),
  say('tool', '15:00', { toolCallId: 't1' }),
  say('assistant', 'It is 15:00.', { model: 'm1', timestamp: 1_782_918_000_000 }),
];

/** As llama.cpp's page exports a conversation in which an answer was written anew: a tree below a root that says nothing. */
const node = (id: string, parent: string | null, role: string, content: string, more: Data = {}) =>
  say(role, content, {
    id,
    convId: 's2',
    parent,
    type: 'text',
    timestamp: 1_782_918_000_000 + id.charCodeAt(0),
    ...more,
  });
const TREE = [
  { type: 'session', harness: 'llama.app', id: 's2', name: 'Hi', currNode: 'd', lastModified: 5 },
  node('0', null, 'system', '', { type: 'root' }),
  node('a', '0', 'system', 'Be short.', { type: 'system' }),
  node('b', 'a', 'user', 'Hi'),
  node('c', 'b', 'assistant', 'Hello', { model: 'm', timings: { prompt_n: 3, cache_n: 7, predicted_n: 2 } }),
  node('d', 'b', 'assistant', 'Hey', { model: 'm', timings: { prompt_n: 4, predicted_n: 1 }, toolCalls: '' }),
];

describe('A session trace', () => {
  it('is an episode: each answer a call with the messages before it, each result at its tool call', () => {
    const { of, refused } = read('session-traces', PLAIN);
    expect(refused).toEqual([]);
    expect(of('episode.started')).toMatchObject([
      { episode_id: 's1', tags: { harness: 'my-agent', name: 'The time' }, flags: ['no_token_ids'] },
    ]);
    expect(of('generation.requested').map(({ input }) => (input as Data[]).map(({ role }) => role))).toEqual([
      ['user'],
      ['user', 'assistant', 'tool'],
    ]);
    expect((of('generation.completed')[0]!.choices as Data[])[0]!.content).toMatchObject([
      { type: 'reasoning', content: 'Ask the clock.' },
      { type: 'text', content: '' },
      { type: 'tool_call', id: 't1', name: 'get_time' },
    ]);
    expect(of('tool.called')).toMatchObject([{ tool_call_id: 't1', arguments: { zone: 'UTC' } }]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 't1', output: '15:00' }]);
    expect(of('episode.finished')).toMatchObject([{ answer: 'It is 15:00.', outcome: 'unknown' }]);
  });

  it('may be a tree: an answer that was written anew is shown what the first was; tokens are known with those of the cache', () => {
    const { of } = read('session-traces', TREE);
    const inputs = of('generation.requested').map(({ input }) => (input as Data[]).map(({ content }) => content));
    expect(inputs).toEqual([
      ['Be short.', 'Hi'],
      ['Be short.', 'Hi'],
    ]);
    expect(of('generation.completed').map(({ usage }) => usage)).toEqual([
      { input_tokens: 10, cached_input_tokens: 7, output_tokens: 2 },
      { output_tokens: 1 },
    ]);
    expect(of('message.sent').map(({ role }) => role)).toEqual(['system', 'user']);
  });

  it('of which a part is missing is flagged, and what its calls were shown is unknown', () => {
    const { of } = read('session-traces', TREE.toSpliced(3, 1));
    for (const call of of('generation.requested')) expect(call).not.toHaveProperty('input');
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
    expect(read('session-traces', PLAIN.slice(3)).refused).toEqual(['bad_shape ', 'bad_shape ']);
    expect(read('session-traces', [PLAIN[4], ...PLAIN]).refusals.map(({ at }) => at)).toEqual([0]);
    const { refusals, of: kept } = read('session-traces', [...PLAIN, 7, say('judge', 'x'), say('tool', 'x')]);
    expect(refusals.map(({ at, field }) => [at, field])).toEqual([
      [5, ''],
      [6, 'message.role'],
      [7, 'message.toolCallId'],
    ]);
    expect(kept('generation.completed')).toHaveLength(2);
  });

  it('is the same in two files, in any order, where messages have ids; else a part without a header is refused', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'troupe-traces-'));
    const file = (name: string, lines: unknown[]) => {
      writeFileSync(join(folder, name), lines.map((line) => JSON.stringify(line)).join('\r\n'));
      return join(folder, name);
    };
    const imported = async (...paths: string[]) => {
      const memory = memoryLog();
      const { errors } = await importFiles(paths, memory);
      expect(errors).toEqual([]);
      return memory.events.map(({ id, digest }) => `${id} ${digest}`).sort();
    };
    const whole = await imported(file('whole', TREE));
    expect(await imported(file('b', TREE.slice(4)), file('a', TREE.slice(0, 4)))).toEqual(whole);
    const parts = [file('p2', PLAIN.slice(2)), file('p1', PLAIN.slice(0, 2))];
    const { errors } = await importFiles(parts, memoryLog());
    expect(errors.map(({ file: name, line }) => [name, line])).toEqual([1, 2, 3].map((line) => [parts[0], line]));
    expect(await imported(file('both', [...PLAIN, ...TREE]))).toHaveLength(
      whole.length + (await imported(file('p', PLAIN))).length,
    );
  });

  it('is known without a name, and apart from sessions of Pi, which may name a harness too', () => {
    expect(known(...PLAIN)).toBe('session-traces');
    expect(known(...TREE)).toBe('session-traces');
    const entry = { type: 'message', id: 'a', parentId: null, timestamp: 't', message: { role: 'user', content: 'q' } };
    const ofPi = { type: 'session', harness: 'other', version: 3, id: 's', cwd: '/', timestamp: 't' };
    expect(known(ofPi, entry)).toBe('pi');
    const { parentId: _, ...ofPi1 } = entry;
    expect(known({ type: 'session', id: 's', cwd: '/', timestamp: 't' }, ofPi1, ofPi1)).toBe('pi');
    expect(read('pi', [ofPi, entry]).of('episode.started')).toMatchObject([{ tags: { harness: 'other' } }]);
  });
});
