/**
 * Recorded with Pi 0.73.1 against a scripted model server, which billed 10 + n tokens in, 2 of them cached, and 3 n out: n is 10 and 11.
 * `prompt` was recorded with Pi 1.5.2, n from 1, its prompt and tools replaced; its prompt came to the server as it stands in the input.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const FILE = join(import.meta.dirname, 'recorded/pi/session.jsonl');
const LINES = readFileSync(FILE, 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('A session of Pi', () => {
  it('is an episode of 2 calls and 2 tool calls, with the tokens that were billed', async () => {
    const memory = memoryLog();
    const report = await importFiles([FILE], memory);
    expect(report).toMatchObject({
      format: 'pi',
      episodes: 1,
      tasks: 1,
      agents: 1,
      calls: 2,
      tool_calls: 2,
      errors: [],
    });
    expect((await importFiles([FILE], memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
    const { of, times } = read('pi', LINES);
    expect(of('generation.completed').map(({ usage }) => usage)).toMatchObject([
      { input_tokens: 20, cached_input_tokens: 2, output_tokens: 30 },
      { input_tokens: 21, cached_input_tokens: 2, output_tokens: 33 },
    ]);
    expect(of('tool.returned').map(({ tool_call_id, status }) => [tool_call_id, status])).toEqual([
      ['call_10_0', 'ok'],
      ['call_10_1', 'error'],
    ]);
    expect(of('episode.finished')).toMatchObject([{ answer: 'Bern is far.', stop_reason: 'stop' }]);
    // The call began before its answer was written.
    expect(times('generation.requested')[0]! < times('generation.completed')[0]!).toBe(true);
  });

  it('that has grown is the same session', () => {
    const contentOf = (lines: unknown[]) =>
      read('pi', lines).drafts.filter(({ name }) => !/^(artifact|episode)/.test(name));
    expect(contentOf(LINES)).toEqual(expect.arrayContaining(contentOf(LINES.slice(0, 5))));
  });
});

describe('A session of Pi 1', () => {
  const lines = readFileSync(join(import.meta.dirname, 'recorded/pi/prompt.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

  it('says the system prompt and the tools of each call, with the tokens that were billed', async () => {
    expect(await importFiles([join(import.meta.dirname, 'recorded/pi/prompt.jsonl')], memoryLog())).toMatchObject({
      ...{ format: 'pi', episodes: 1, tasks: 1, agents: 1, calls: 3, tool_calls: 2, errors: [] },
    });
    const { of } = read('pi', lines);
    expect(of('generation.completed').map(({ usage }) => usage)).toMatchObject(
      [1, 2, 3].map((n) => ({ input_tokens: 10 + n, cached_input_tokens: 2, output_tokens: 3 * n })),
    );
    const prompt = 'You help.\n\n<tools>\n- read: Reads\n</tools>\n\n<rules>\n- Be brief\n</rules>\n\n/work';
    for (const { input, tools } of of('generation.requested')) {
      expect((input as object[])[0]).toEqual({ role: 'system', content: [{ type: 'text', content: prompt }] });
      expect((tools as { name: string }[]).map(({ name }) => name)).toEqual(['read', 'bash', 'edit', 'write']);
    }
    expect(of('generation.requested').map(({ input }) => (input as object[]).length)).toEqual([2, 5, 7]);
    expect(of('agent.defined')[0]!.system_instructions).toEqual([{ type: 'text', content: prompt }]);
    expect(of('tool.returned').map(({ status }) => status)).toEqual(['ok', 'error']);
  });
});

/** A session with branches, by hand after docs/session-format.md of Pi. */
const HEADER = { type: 'session', version: 3, id: 's', timestamp: '2026-09-10T10:00:00.000Z', cwd: '/w' };
const entry = (id: string, parentId: string | null, fields: object) => ({
  id,
  parentId,
  timestamp: '2026-09-10T10:00:01.000Z',
  type: 'message',
  ...fields,
});
const user = (text: string) => ({ message: { role: 'user', content: text } });
const answer = (text: string, more: object = {}) => ({
  message: { role: 'assistant', content: [{ type: 'text', text }], model: 'm', stopReason: 'stop', ...more },
});
const textsOf = (input: unknown): unknown[] =>
  (input as { content: { content: unknown }[] }[]).map(({ content }) => content[0]!.content);

describe('An entry of Pi', () => {
  it('is shown the branch it hangs on, from what the last compaction kept', () => {
    const { of } = read('pi', [
      HEADER,
      entry('a', null, user('one')),
      entry('b', 'a', answer('two')),
      entry('c', 'b', user('three')),
      entry('d', 'a', user('other')),
      entry('e', 'd', answer('branch')),
      entry('f', 'c', { type: 'compaction', summary: 'so far', firstKeptEntryId: 'c', tokensBefore: 9 }),
      entry('g', 'f', answer('last')),
    ]);
    expect(of('generation.requested').map(({ call_id, input }) => [call_id, textsOf(input)])).toEqual([
      ['b', ['one']],
      ['e', ['one', 'other']],
      ['g', ['so far', 'three']],
    ]);
  });

  it('of version 1 follows the entry before it', () => {
    const line = (message: object) => ({ type: 'message', timestamp: '2026-09-10T10:00:01.000Z', ...message });
    const { of } = read('pi', [{ ...HEADER, version: undefined }, line(user('one')), line(answer('two'))]);
    expect(of('generation.requested').map(({ input }) => textsOf(input))).toEqual([['one']]);
  });

  it('of a call that failed is a call without a step', () => {
    const failed = answer('', { content: [], stopReason: 'error', errorMessage: 'overloaded' });
    const { of } = read('pi', [HEADER, entry('a', null, user('one')), entry('b', 'a', failed)]);
    expect(of('generation.completed')).toMatchObject([{ choices: [], error: 'overloaded' }]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'error' }]);
  });

  it('that cannot be read is refused by its place, and the others are kept', () => {
    const { refusals, of } = read('pi', [
      HEADER,
      entry('a', null, { message: { role: 'planner', content: 'x' } }),
      entry('b', 'a', { message: { role: 'toolResult', content: [] } }),
      entry('c', 'b', answer('two')),
    ]);
    expect(refusals.map(({ at, field }) => [at, field])).toEqual([
      [1, 'message.role'],
      [2, 'message.toolCallId'],
    ]);
    expect(of('generation.completed')).toHaveLength(1);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
    expect(read('pi', [entry('c', null, answer('two'))]).refused).toEqual(['bad_shape ']);
  });

  it('is recognised without a name', () => {
    expect(known(...LINES)).toBe('pi');
    expect(known({ type: 'session', harness: 'other', id: 's', cwd: '/' })).toBe('session-traces');
  });
});

/** Recorded with Pi 0.73.1 against a scripted server that billed 10 + n tokens in and 3 n out, by way of the Messages API. */
describe('A session of Pi that was continued', () => {
  const lines = readFileSync(join(FILE, '../picture.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const { of, refused } = read('pi', lines);

  it('is 4 calls with all that was before each, 3 tool calls with a picture, an error and a text', () => {
    expect(refused).toEqual([]);
    expect(
      of('generation.completed').map(({ usage }) => {
        const { input_tokens, output_tokens } = usage as Record<string, number>;
        return [input_tokens, output_tokens];
      }),
    ).toEqual([1, 2, 3, 4].map((n) => [10 + n, 3 * n]));
    expect(of('generation.requested').map(({ input }) => (input as unknown[]).length)).toEqual([1, 4, 6, 8]);
    expect(of('tool.called').map(({ name }) => name)).toEqual(['read', 'bash', 'bash']);
    expect(of('tool.returned')).toMatchObject([
      { status: 'ok', output: [{ type: 'text' }, { type: 'blob', modality: 'image', mime_type: 'image/png' }] },
      { status: 'error' },
      { status: 'ok', output: [{ type: 'text', content: 'three\n' }] },
    ]);
    expect(of('episode.finished')).toMatchObject([{ answer: 'Three.' }]);
  });
});

describe('What a call of Pi 1 is shown', () => {
  const system = (sections: object, more: object = {}) => ({
    message: { role: 'system', content: '', sections, ...more },
  });
  const shown = (...entries: object[]) => {
    const { of, refused } = read('pi', [HEADER, ...entries]);
    expect(refused).toEqual([]);
    const { input, tools } = of('generation.requested').at(-1)! as { input: Data[]; tools?: { name: string }[] };
    const texts = input.map(({ role, content }) => [role, (content as { content: string }[])[0]!.content]);
    return { texts, tools: tools?.map(({ name }) => name) };
  };

  it('are the sections of the prompt as later messages patch them, and the tools that are left', () => {
    const first = system({ a: 'A', b: 'B' }, { toolsAdded: [{ name: 'read' }, { name: 'write' }] });
    const later = system({ b: null, c: 'C' }, { toolsRemoved: [{ name: 'write' }] });
    expect(
      shown(entry('1', null, first), entry('2', '1', user('q')), entry('3', '2', later), entry('4', '3', answer('x'))),
    ).toEqual({
      texts: [
        ['system', 'A\n\nC'],
        ['user', 'q'],
      ],
      tools: ['read'],
    });
  });

  it('are the prompt of a compaction in the place of those before it, and what entries of the branch edited', () => {
    const compaction = {
      type: 'compaction',
      summary: 'S',
      firstKeptEntryId: '1',
      systemMessage: { role: 'system', content: 'New.' },
    };
    const edit = (targetId: string, replacement: unknown) => ({ type: 'context_edit', targetId, replacement });
    expect(
      shown(
        entry('1', null, system({ a: 'Old' })),
        entry('2', '1', user('gone')),
        entry('3', '2', user('long')),
        entry('4', '3', compaction),
        entry('5', '4', edit('2', null)),
        entry('6', '5', edit('3', 'short')),
        entry('7', '6', answer('x')),
      ).texts,
    ).toEqual([
      ['system', 'New.'],
      ['user', 'S'],
      ['user', 'short'],
    ]);
  });

  it('is without what was billed for no answer, which is an observation', () => {
    const usage = { type: 'usage', kind: 'cache_warm', model: 'm', usage: { input: 0, output: 0, cacheRead: 50 } };
    const { of } = read('pi', [
      HEADER,
      entry('1', null, user('q')),
      entry('2', '1', usage),
      entry('3', '2', answer('x')),
    ]);
    expect(of('generation.requested')[0]!.input).toHaveLength(1);
    expect(of('environment.observed')).toMatchObject([
      { kind: 'usage', content: { kind: 'cache_warm', usage: { cached_input_tokens: 50 } } },
    ]);
  });
});
