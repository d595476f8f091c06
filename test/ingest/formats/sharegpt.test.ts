import { describe, expect, it } from 'vitest';
import { known, read } from './support/convert.ts';

const row = (...entries: [from: string, value: string][]) => ({
  conversations: entries.map(([from, value]) => ({ from, value })),
});
const ASKED = ['human', 'How long?'] as [string, string];

describe('a ShareGPT row', () => {
  it('makes each answer a call with everything before it as input, the system prompt first', () => {
    const native = {
      ...row(ASKED, ['gpt', 'Which?'], ['human', 'This.'], ['gpt', '20']),
      system: 'You add.',
      tools: '[{"name":"calc"}]',
      id: 7,
      source: 's',
    };
    expect(known(native)).toBe('sharegpt');
    const { of, refused } = read('sharegpt', native);
    expect(refused).toEqual([]);
    expect(of('generation.requested').map(({ input, tools }) => [(input as unknown[]).length, tools])).toEqual([
      [2, [{ name: 'calc' }]],
      [4, [{ name: 'calc' }]],
    ]);
    expect(of('message.sent').map(({ from }) => from)).toEqual(['system', 'user', 'user']);
    expect(of('episode.started')[0]).toMatchObject({
      flags: ['no_token_ids'],
      native: { ids: { id: 7 } },
      unmapped: { source: 's' },
    });
    expect(of('agent.defined')).toEqual([]);
  });

  it('reads one call or a list of them, and pairs an observation with the last one', () => {
    const one = read(
      'sharegpt',
      row(ASKED, ['function_call', '{"name":"calc","arguments":{"x":1}}'], ['observation', '2'], ['gpt', '2']),
    );
    expect(one.of('tool.called')).toMatchObject([{ name: 'calc', arguments: { x: 1 } }]);
    expect(one.of('tool.called')[0]!.native).toBeUndefined();
    expect(one.of('tool.returned')[0]!.tool_call_id).toBe(one.of('tool.called')[0]!.tool_call_id);
    const two = read(
      'sharegpt',
      row(ASKED, ['function_call', '[{"name":"a","arguments":"{}"},{"name":"b"}]'], ['observation', 'both']),
    );
    expect(two.of('generation.completed')).toHaveLength(1);
    expect(two.of('tool.called').map(({ name, index }) => [name, index])).toEqual([
      ['a', 0],
      ['b', 1],
    ]);
    expect(two.of('tool.returned')[0]!.tool_call_id).toBe(two.of('tool.called')[1]!.tool_call_id);
  });

  it('keeps a call that is not JSON as the text it is, flagged', () => {
    const { of, refused } = read('sharegpt', row(ASKED, ['function_call', '{"name":'], ['observation', '2']));
    expect(refused).toEqual([]);
    expect(of('episode.started')[0]!.flags).toEqual(['no_token_ids', 'unparsed_tool_call']);
    expect(of('generation.completed')).toMatchObject([{ choices: [{ content: '{"name":' }] }]);
    expect(of('tool.called')).toEqual([]);
  });

  it('takes two answers as candidates of one call and the choice between them as a preference', () => {
    const native = { ...row(ASKED), chosen: { from: 'gpt', value: '20' }, rejected: { from: 'gpt', value: '24' } };
    const { of } = read('sharegpt', native);
    expect(of('generation.completed')[0]!.choices).toEqual([
      { index: 0, content: '20', chosen: true },
      { index: 1, content: '24', chosen: false },
    ]);
    expect(of('generation.requested')[0]!.input).toHaveLength(1);
    expect(of('feedback.recorded')).toMatchObject([
      { kind: 'preference', target: { kind: 'pair', id: 'm1/0', other_id: 'm1/1' } },
    ]);
    const judged = read('sharegpt', { ...row(ASKED, ['gpt', '24']), kto_tag: false });
    expect(judged.of('feedback.recorded')).toMatchObject([
      { kind: 'label', name: 'kto_tag', value: false, target: { id: 'm1/0' } },
    ]);
  });

  it('flags a row in which the speakers do not alternate, and takes other names for them', () => {
    const { of } = read('sharegpt', row(['user', 'q'], ['assistant', 'a'], ['assistant', 'b']));
    expect(of('episode.started')[0]!.flags).toEqual(['no_token_ids', 'broken_alternation']);
    expect(of('generation.completed')).toHaveLength(2);
  });

  it('is refused where the model begins, a speaker is unknown or nothing was called', () => {
    expect(read('sharegpt', row(['gpt', 'a'])).refused).toEqual(['bad_shape conversations[0].from']);
    expect(read('sharegpt', row(['system', 's'], ['gpt', 'a'])).refused).toEqual(['bad_shape conversations[1].from']);
    expect(read('sharegpt', row(ASKED, ['robot', 'a'])).refused).toEqual(['bad_type conversations[1].from']);
    expect(read('sharegpt', row(ASKED, ['gpt', 'a'], ['observation', '2'])).refused).toEqual([
      'bad_reference conversations[2].from',
    ]);
    expect(read('sharegpt', { conversations: [] }).refused).toEqual(['bad_shape conversations']);
    expect(read('sharegpt', { conversations: [{ from: 'human', value: 3 }] }).refused).toEqual([
      'bad_type conversations[0].value',
    ]);
  });
});
