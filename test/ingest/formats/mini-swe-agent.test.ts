/**
 * In words of ours, written by mini-swe-agent 2.4.6 with each of its models, and by 1.17.3 (`first`), against a scripted model server, which billed 10 + n
 * tokens in, 2 of them from a cache, and 3 n out for its nth answer.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { expectBelow } from '../../support/measured.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, read } from './support/convert.ts';

const FOLDER = join(import.meta.dirname, 'recorded/mini-swe-agent');
const NAMES = ['tools', 'text', 'responses', 'first'];
const trajectory = (name: string): Data & { messages: Data[] } =>
  JSON.parse(readFileSync(join(FOLDER, `${name}.traj.json`), 'utf8'));
const eventsOf = (name: string) => read('mini-swe-agent', trajectory(name)).of;

describe('Trajectories of mini-swe-agent', () => {
  it('are an episode each: the calls that were billed, and each action with what came of it', async () => {
    const paths = NAMES.map((name) => join(FOLDER, `${name}.traj.json`));
    const memory = memoryLog();
    const report = await importFiles(paths, memory);
    expect(report).toMatchObject({ format: 'mini-swe-agent', episodes: 4, calls: 10, tool_calls: 10, errors: [] });
    expect((await importFiles(paths.toReversed(), memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
    for (const name of NAMES) {
      const usage = eventsOf(name)('generation.completed').map((call) => call.usage as Data);
      expect(usage.map((one) => [one.input_tokens, one.cached_input_tokens, one.output_tokens])).toEqual(
        usage.map((_, i) => [11 + i, 2, 3 + 3 * i]),
      );
    }
  });

  it('have no command where the block in the text never ends, which is seen at once', () => {
    const first = trajectory('first');
    const messages = first.messages.map((message) => {
      if (message.role !== 'assistant') return message;
      return { ...message, content: `\`\`\`bash${'\n'.repeat(200_000)}ls${'\n'.repeat(200_000)}` };
    });
    const began = performance.now();
    expect(read('mini-swe-agent', { ...first, messages }).of('tool.called')).toEqual([]);
    expectBelow(performance.now() - began, 5000);
  });

  it('pair calls by their ids, actions in text by their order, and flag codes that are not 0', () => {
    const of = eventsOf('tools');
    expect(of('tool.called').map(({ tool_call_id, type, arguments: asked }) => [tool_call_id, type, asked])).toEqual([
      ['call_1_0', 'function', { command: 'echo one' }],
      ['call_1_1', 'function', { command: 'false' }],
      ['call_3_0', 'function', expect.any(Object)],
    ]);
    const results = [
      ['call_1_0', 'ok', undefined],
      ['call_1_1', 'ok', ['apparent_error']],
    ];
    const resultsOf = (name: string) =>
      eventsOf(name)('tool.returned').map(({ tool_call_id, status, flags }) => [tool_call_id, status, flags]);
    expect(resultsOf('tools')).toEqual(results);
    expect(resultsOf('responses')).toEqual(results);
    expect(eventsOf('text')('tool.called')).toMatchObject([{ type: 'code', arguments: { command: 'echo one' } }, {}]);
    expect(resultsOf('text')).toEqual([['m2/0', 'ok', undefined]]);
    expect(eventsOf('first')('tool.called')).toMatchObject([{ arguments: { command: 'ls missing' } }, {}]);
    expect(resultsOf('first')).toEqual([
      ['m2/0', 'ok', undefined],
      ['m6/0', 'ok', undefined],
    ]);
  });

  it('read the code of an action from the words about it where the record has none, as the first version writes them for SWE-bench', () => {
    const first = trajectory('first');
    first.messages[3]!.content = '<returncode>2</returncode>\n<output>\nnothing\n</output>';
    const [action] = read('mini-swe-agent', first).of('tool.returned');
    expect(action).toMatchObject({ tool_call_id: 'm2/0', status: 'ok', flags: ['apparent_error'] });
  });

  it('hold an answer that could not be read: a call, which later calls are not shown', () => {
    const of = eventsOf('tools');
    expect(of('generation.completed')[1]).toMatchObject({ call_id: 'm5', choices: [{ content: 'no tool' }] });
    const [, , last] = of('generation.requested');
    expect((last!.input as Data[]).map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'tool',
      'tool',
      'user',
    ]);
    expect(of('message.sent').map(({ role }) => role)).toEqual(['system', 'user', 'user']);
  });

  it('end with what was submitted, which judges nothing; the instance is the task', () => {
    for (const name of NAMES)
      expect(eventsOf(name)('episode.finished')).toMatchObject([
        { outcome: 'unknown', exit_status: 'Submitted', answer: 'done\n' },
      ]);
    expect(eventsOf('tools')('task.defined')).toMatchObject([{ task_id: 'words-2' }]);
    const { messages, ...rest } = trajectory('tools');
    const ended = (exit_status: string) =>
      read('mini-swe-agent', { ...rest, messages, info: { exit_status } }).of('episode.finished')[0]!.outcome;
    expect(['LimitsExceeded', 'TimeExceeded', 'ValueError'].map(ended)).toEqual(['aborted', 'timeout', 'error']);
  });

  it('have the times of their messages, where they are written', () => {
    const times = (name: string, event: 'episode.started' | 'episode.finished' | 'generation.completed') =>
      read('mini-swe-agent', trajectory(name)).times(event);
    expect([...times('first', 'episode.started'), ...times('tools', 'episode.started')]).toEqual([
      expect.stringMatching(/^2026-/),
      null,
    ]);
    for (const name of NAMES) {
      const [end] = times(name, 'episode.finished');
      expect(end).toMatch(/^2026-/);
      // The answer that could not be read has no time of its own in version 2.
      for (const time of times(name, 'generation.completed')) expect(time === null || time <= end!).toBe(true);
    }
  });

  it('keep what each answer cost, in dollars; a cost of 0 is unknown', () => {
    const { messages, ...rest } = trajectory('tools');
    const at = (cost: number) =>
      read('mini-swe-agent', {
        ...rest,
        messages: messages.map((message) =>
          message.role === 'assistant' ? { ...message, extra: { ...(message.extra as Data), cost } } : message,
        ),
      }).of('generation.completed')[0]!;
    expect(at(0.25)).toMatchObject({ usage: { cost_usd: 0.25 } });
    expect(at(0.25)).not.toHaveProperty('unmapped');
    expect(at(0).usage).not.toHaveProperty('cost_usd');
  });

  it('keep what can be read beside what cannot', () => {
    const { messages, ...rest } = trajectory('tools');
    const { refused, of } = read('mini-swe-agent', { ...rest, messages: [...messages, 7, { role: 'wizard' }] });
    expect(refused).toEqual(['bad_type messages[8]', 'bad_type messages[9].role']);
    expect(of('generation.completed')).toHaveLength(3);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
    expect(read('mini-swe-agent', { ...rest, messages: [] }).refused).toEqual(['bad_type messages']);
  });
});
