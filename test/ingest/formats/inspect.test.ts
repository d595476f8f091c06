/** Recorded with inspect_ai 0.3.285 and a scripted model that billed 10 + n tokens in and 3 n out for its nth answer. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { known, read } from './support/convert.ts';

const FILE = join(import.meta.dirname, 'recorded/inspect/log.jsonl');
const LOG = JSON.parse(readFileSync(FILE, 'utf8')) as { eval: object; samples: Record<string, unknown>[] };

describe('A log of Inspect in which a planner hands over to a writer', () => {
  it('is an episode: 4 calls of 2 agents, 5 tool calls, a score, the tokens that were billed', async () => {
    const memory = memoryLog();
    expect(await importFiles([FILE], memory)).toMatchObject({
      ...{ format: 'inspect', episodes: 1, tasks: 1, agents: 2, calls: 4, tool_calls: 5, feedback: 1, errors: [] },
    });
    expect((await importFiles([FILE], memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
    const { of } = read('inspect', LOG);
    expect(of('generation.completed').map(({ agent_id, usage }) => [agent_id, usage])).toMatchObject([
      ['planner', { input_tokens: 11, output_tokens: 3 }],
      ['planner', { input_tokens: 12, output_tokens: 6 }],
      ['writer', { input_tokens: 13, output_tokens: 9 }],
      ['planner', { input_tokens: 14, output_tokens: 12 }],
    ]);
    expect(of('agent.defined').map(({ agent_id, parent_agent_id }) => [agent_id, parent_agent_id])).toEqual([
      ['planner', undefined],
      ['writer', 'planner'],
    ]);
    expect(of('tool.returned').map(({ tool_call_id, status }) => [tool_call_id, status])).toEqual([
      ['c1', 'ok'],
      ['c2', 'error'],
      ['c3', 'ok'],
      ['c4', 'ok'],
      ['c5', 'ok'],
    ]);
    expect(of('control.transferred')).toMatchObject([
      { from_agent: 'planner', to_agent: 'writer', kind: 'handoff', tool_call_id: 'c3' },
    ]);
    expect(of('feedback.recorded')).toMatchObject([{ kind: 'score', name: 'includes', value: 1, label: 'C' }]);
    expect(of('task.defined')).toMatchObject([
      { task_id: 'cities/bern', query: 'How far is Bern?', ground_truth: 'far' },
    ]);
  });

  it('shows each call the messages that its ranges name, with their attachments', () => {
    const { of } = read('inspect', LOG);
    const inputs = of('generation.requested').map(
      ({ input }) => input as { role: string; content: { content: string }[] }[],
    );
    expect(inputs.map((input) => input.map(({ role }) => role).join(' '))).toEqual([
      'system user',
      'system user assistant tool tool',
      'system user assistant tool tool assistant tool',
      'system user assistant tool tool assistant tool assistant user',
    ]);
    expect(inputs[0]![0]!.content[0]!.content).toBe('You plan.');
    expect(inputs[2]![0]!.content[0]!.content).toBe('You write.');
  });
});

const sample = (more: object) => ({ id: 1, epoch: 2, input: 'q', target: 't', ...more });
const log = (...samples: unknown[]) => ({
  version: 2,
  eval: { run_id: 'r', eval_id: 'e', task: 'k', model: 'm' },
  samples,
});

describe('A sample of Inspect', () => {
  it('without events is read from its messages', () => {
    const { of } = read(
      'inspect',
      log(
        sample({
          messages: [
            { role: 'user', content: 'q' },
            { role: 'assistant', content: '', tool_calls: [{ id: 'c', function: 'f', arguments: { x: 1 } }] },
            { role: 'tool', tool_call_id: 'c', content: '', error: { type: 'timeout', message: 'late' } },
            {
              role: 'assistant',
              content: [
                { type: 'reasoning', reasoning: 'hm' },
                { type: 'text', text: 'a' },
              ],
            },
          ],
          scores: { s: { value: { good: 0.25, bad: 'I' } } },
          limit: { type: 'message', limit: 4 },
          output: { completion: 'a', usage: { input_tokens: 7, output_tokens: 2 } },
        }),
      ),
    );
    // The output of a sample is its last answer; what the others were billed is not in the file.
    expect(of('generation.completed').map(({ usage }) => usage)).toEqual([
      undefined,
      { input_tokens: 7, output_tokens: 2 },
    ]);
    expect(of('tool.called')).toMatchObject([{ name: 'f', arguments: { x: 1 } }]);
    expect(of('tool.returned')).toMatchObject([{ status: 'error' }]);
    expect(of('feedback.recorded').map(({ name, value }) => [name, value])).toEqual([
      ['s/good', 0.25],
      ['s/bad', 0],
    ]);
    expect(of('episode.started')).toMatchObject([{ attempt: 1, group_id: expect.any(String) }]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'unknown', stop_reason: 'limit: message' }]);
  });

  it('with a transcript, as logs had it until November 2024, is read from its events, and what they refer to', () => {
    const named = '0a1b'.repeat(8);
    const reply = { role: 'assistant', content: `tc://${named}` };
    const event = (input: string, answer: object) => ({
      event: 'model',
      model: 'm',
      input: [{ role: 'user', content: input }],
      output: { choices: [{ message: answer, stop_reason: 'stop' }], usage: { input_tokens: 7, output_tokens: 2 } },
    });
    const events = [event('q', reply), event('and?', { role: 'assistant', content: 'no' })];
    const transcript = { events, content: { [named]: 'yes' } };
    const { of } = read('inspect', log(sample({ messages: [reply], transcript })));
    expect(of('generation.completed').map(({ choices, usage }) => [choices, usage])).toMatchObject(
      ['yes', 'no'].map((content) => [
        [{ content: [{ type: 'text', content }] }],
        { input_tokens: 7, output_tokens: 2 },
      ]),
    );
  });

  it('has all tokens that the model read, whether those of a cache are counted beside the input or within it', () => {
    const usage = (total: number) => ({
      input_tokens: 7,
      input_tokens_cache_read: 5,
      output_tokens: 2,
      total_tokens: total,
    });
    const messages = [{ role: 'assistant', content: 'a' }];
    const [beside, within] = [14, 9].map((total) => {
      const output = { completion: 'a', usage: usage(total) };
      return read('inspect', log(sample({ messages, output }))).of('generation.completed')[0]!.usage;
    });
    expect(beside).toMatchObject({ input_tokens: 12, cached_input_tokens: 5 });
    expect(within).toMatchObject({ input_tokens: 7, cached_input_tokens: 5 });
  });

  it('and its epochs are one group, and one that failed has outcome error', () => {
    const { of } = read('inspect', log(sample({ epoch: 1 }), sample({ error: { message: 'x' } })));
    const [first, second] = of('episode.started');
    expect(first!.episode_id).not.toBe(second!.episode_id);
    expect(first!.group_id).toBe(second!.group_id);
    expect(of('episode.finished').map(({ outcome }) => outcome)).toEqual(['unknown', 'error']);
  });

  it('that cannot be read is refused by its field, and the others are kept', () => {
    const { refused, of } = read('inspect', log({ id: null, epoch: 1 }, sample({ events: [3] }), sample({})));
    expect(refused).toEqual(['bad_type samples[0].id', 'bad_type samples[1].events']);
    expect(of('episode.started')).toHaveLength(1);
    expect(read('inspect', log()).refused).toEqual(['bad_shape samples']);
  });

  it('is recognised without a name', () => {
    expect(known(LOG)).toBe('inspect');
    expect(known({ eval: { task: 'x' } })).toBe(null);
  });
});
