/** Exports of accounts of ChatGPT and Claude.ai. */
import { describe, expect, it } from 'vitest';
import { type Data, known, read } from './support/convert.ts';

describe('chatgpt', () => {
  const message = (id: string, role: string, content: Data, more: Data = {}) => ({
    ...{
      id,
      author: { role, name: null },
      create_time: 1,
      content,
      recipient: 'all',
      metadata: { model_slug: 'made-up' },
    },
    ...more,
  });
  const text = (words: string) => ({ content_type: 'text', parts: [words] });
  /** Nodes with their parents. */
  const conversation = (
    current: string | null,
    ...nodes: readonly (readonly [parent: string | null, message: Data])[]
  ) => ({
    ...{ id: 'c', title: 't', create_time: 1, current_node: current },
    mapping: Object.fromEntries(
      nodes.map(([parent, native]) => [native.id, { id: native.id, message: native, parent, children: [] }]),
    ),
  });
  const asked = message('q', 'user', text('q'));

  it('reads the branch that was shown last, and the last one of the file where none is named', () => {
    const branches = [
      [null, asked],
      ['q', message('a', 'assistant', text('first'))],
      ['q', message('b', 'assistant', text('second'))],
    ] as const;
    for (const [current, said] of [
      ['a', 'first'],
      ['b', 'second'],
      [null, 'second'],
    ] as const) {
      const native = conversation(current, ...branches);
      expect(known(native)).toBe('chatgpt');
      const { of, refused } = read('chatgpt', native);
      expect(refused).toEqual([]);
      expect(of('generation.completed')).toMatchObject([{ response_model: 'made-up', choices: [{ content: said }] }]);
    }
  });

  it('takes what was said to a tool as a call with the thoughts before it, and the answer of the tool as its result', () => {
    const thoughts = { content_type: 'thoughts', thoughts: [{ summary: 's', content: 'Hm.' }] };
    const { of } = read(
      'chatgpt',
      conversation(
        'd',
        [null, asked],
        ['q', message('a', 'assistant', thoughts)],
        ['a', message('b', 'assistant', { content_type: 'code', text: '1+1' }, { recipient: 'python' })],
        [
          'b',
          message(
            'c',
            'tool',
            { content_type: 'execution_output', text: '2' },
            { author: { role: 'tool', name: 'python' } },
          ),
        ],
        ['c', message('d', 'assistant', text('2'))],
      ),
    );
    expect(of('generation.completed').length).toBe(2);
    expect(of('generation.completed')[0]).toMatchObject({
      choices: [{ content: [{ content: 'Hm.' }, { name: 'python', arguments: '1+1' }] }],
    });
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'b', output: '2' }]);
  });

  it('ends at a circle of parents', () => {
    expect(
      read(
        'chatgpt',
        conversation('a', ['b', message('a', 'user', text('x'))], ['a', message('b', 'user', text('y'))]),
      ).of('message.sent').length,
    ).toBe(2);
  });
});

describe('claude-ai', () => {
  const conversation = (...messages: readonly Data[]) => ({
    uuid: 'c',
    name: 'n',
    created_at: '2026-11-02T08:00:00Z',
    chat_messages: messages,
  });
  const asked = { uuid: 'q', sender: 'human', text: 'q', content: [{ type: 'text', text: 'q' }] };

  it('splits an answer at the results of its tools, also where calls have no ids', () => {
    for (const ids of [{}, { id: 'c1', tool_use_id: 'c1' }]) {
      const content = [
        { type: 'thinking', thinking: 'Hm.' },
        { type: 'tool_use', name: 'search', input: { q: 'x' }, ...ids },
        { type: 'tool_result', name: 'search', content: [{ type: 'text', text: 'no' }], is_error: true, ...ids },
        { type: 'text', text: 'a' },
      ];
      const native = conversation(asked, { uuid: 'a', sender: 'assistant', text: 'a', content });
      expect(known(native)).toBe('claude-ai');
      const { of, refused } = read('claude-ai', native);
      expect(refused).toEqual([]);
      expect(of('generation.completed').map(({ choices }) => (choices as Data[])[0]!.content)).toMatchObject([
        [
          { type: 'reasoning', content: 'Hm.' },
          { type: 'tool_call', name: 'search', arguments: { q: 'x' } },
        ],
        'a',
      ]);
      expect(of('tool.returned')).toMatchObject([{ status: 'error', output: 'no' }]);
    }
  });

  it('keeps what was attached, and reads exports that hold texts alone', () => {
    const file = { file_name: 'a.txt', extracted_content: 'tides' };
    const { of } = read(
      'claude-ai',
      conversation({ ...asked, attachments: [file] }, { uuid: 'a', sender: 'assistant', text: 'a' }),
    );
    expect(of('message.sent')).toMatchObject([
      {
        content: [
          { type: 'text', content: 'q' },
          { type: 'file', ...file },
        ],
      },
    ]);
    expect(of('generation.completed')).toMatchObject([{ choices: [{ content: 'a' }] }]);
  });

  it('refuses a message that is none by its place, and reads the others', () => {
    expect(read('claude-ai', conversation(asked, { sender: 'human' })).refused).toEqual(['bad_shape chat_messages[1]']);
  });
});
