import { describe, expect, it } from 'vitest';
import { known, read } from './support/convert.ts';

const call = (id: string | undefined, args: unknown) => ({
  ...(id ? { id } : {}),
  type: 'function',
  function: { name: 'calc', arguments: args },
});
const row = (conversation: unknown[], more: object = {}) => ({
  unique_trajectory_id: 'x-1',
  task_instruction: 'You add.',
  tools: [{ name: 'calc' }],
  few_shot_examples: [],
  split: 'train',
  dataset: 'demo',
  conversation,
  ...more,
});
const ASKED = { role: 'user', content: 'How long?' };

describe('a trajectory of xLAM', () => {
  it('is the episode of its id, its instruction the system prompt of each call', () => {
    const native = row([
      ASKED,
      { role: 'assistant', content: '', tool_calls: [call('c', { x: 1 })] },
      { role: 'tool', tool_call_id: 'c', content: '2' },
      { role: 'assistant', content: '2' },
    ]);
    expect(known(native)).toBe('xlam');
    const { of, refused } = read('xlam', native);
    expect(refused).toEqual([]);
    expect(of('episode.started')).toMatchObject([{ episode_id: 'x-1', unmapped: { few_shot_examples: [] } }]);
    expect(
      of('generation.requested').map(({ input, tools }) => [
        (input as { role: string }[]).map(({ role }) => role),
        tools,
      ]),
    ).toEqual([
      [['system', 'user'], [{ name: 'calc' }]],
      [['system', 'user', 'assistant', 'tool'], [{ name: 'calc' }]],
    ]);
    expect(of('tool.called')).toMatchObject([{ tool_call_id: 'c', arguments: { x: 1 } }]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'c', output: '2' }]);
    expect(of('task.defined')[0]).toMatchObject({ query: 'How long?', split: 'train', tags: { dataset: 'demo' } });
    expect(of('agent.defined')).toEqual([]);
  });

  it('pairs results without an id with the calls in their order', () => {
    const asks = { role: 'assistant', content: null, tool_calls: [call(undefined, '{}'), call(undefined, '{}')] };
    const { of } = read(
      'xlam',
      row([
        ASKED,
        asks,
        { role: 'tool', name: 'calc', content: 'one' },
        { role: 'tool', name: 'calc', content: 'two' },
      ]),
    );
    const called = of('tool.called').map(({ tool_call_id }) => tool_call_id);
    expect(of('tool.returned').map(({ tool_call_id, output }) => [tool_call_id, output])).toEqual([
      [called[0], 'one'],
      [called[1], 'two'],
    ]);
  });

  it('keeps arguments that cannot be read as they are written, flagged', () => {
    const { of, refused } = read(
      'xlam',
      row([ASKED, { role: 'assistant', content: '', tool_calls: [call('c', '{bad')] }]),
    );
    expect(refused).toEqual([]);
    expect(of('tool.called')).toMatchObject([{ arguments: null, arguments_raw: '{bad' }]);
    expect(of('episode.started')[0]!.flags).toEqual(['no_token_ids', 'unparsed_tool_call']);
  });

  it('is refused without an id or a conversation that can be read', () => {
    expect(read('xlam', row([ASKED], { unique_trajectory_id: undefined })).refused).toEqual([
      'bad_type unique_trajectory_id',
    ]);
    expect(read('xlam', row([], { conversation: {} })).refused).toEqual(['bad_type conversation']);
    expect(read('xlam', row([{ role: 'tool', content: '2' }])).refused).toEqual([
      'bad_type conversation[0].tool_call_id',
    ]);
    expect(read('xlam', row([{ role: 'robot' }])).refused).toEqual(['bad_type conversation[0].role']);
  });
});
