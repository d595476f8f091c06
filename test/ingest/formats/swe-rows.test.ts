/** Rows of published runs of coding agents. */
import { describe, expect, it } from 'vitest';
import { type Data, known, read } from './support/convert.ts';

const said = (role: string, text: string | null, system_prompt: string | null = null) => ({
  ...{ mask: false, role, system_prompt },
  text,
});
const nebius = (more: Data = {}) => ({
  instance_id: 'harbour__buoys-3',
  model_name: 'made-up',
  target: true,
  trajectory: [said('system', null, 'You have a shell.'), said('user', 'Count them.'), said('ai', 'ls')],
  ...more,
});

describe('swe-rows', () => {
  it('reads the instructions, the issue and the answers of a row of nebius, its task and whether it was solved', () => {
    const row = nebius({ exit_status: 'submitted', generated_text: 'diff' });
    expect(known(row)).toBe('swe-rows');
    const { of, refused, bodies } = read('swe-rows', row);
    expect(refused).toEqual([]);
    expect(of('generation.requested')).toMatchObject([
      {
        input: [
          { role: 'system', content: 'You have a shell.' },
          { role: 'user', content: 'Count them.' },
        ],
      },
    ]);
    expect(of('generation.completed')).toMatchObject([{ response_model: 'made-up', choices: [{ content: 'ls' }] }]);
    expect(of('task.defined')).toMatchObject([{ task_id: 'harbour__buoys-3', query: 'Count them.' }]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'success', stop_reason: 'submitted' }]);
    expect(bodies).toEqual(['diff']);
  });

  it.each([
    [{ target: false }, 'failure', [0]],
    [{ target: undefined, resolved: 1 }, 'success', [1]],
    [{ target: undefined, resolved: 0 }, 'failure', [0]],
    [{ target: null, resolved: null }, 'unknown', []],
    [{ target: undefined, resolved: 'perhaps' }, 'unknown', []],
  ] as const)('takes %j as %s', (more, outcome, rewards) => {
    const { of } = read('swe-rows', nebius(more));
    expect(of('episode.finished')).toMatchObject([{ outcome }]);
    expect(of('feedback.recorded').map(({ value }) => value)).toEqual(rewards);
  });

  it('pairs the results of SWE-smith, which name their calls in a list, also where the messages are JSON in a text', () => {
    const messages = [
      { role: 'user', content: 'Mend it.' },
      { role: 'assistant', content: '', tool_calls: [{ id: 'c1', function: { name: 'bash', arguments: '{}' } }] },
      { role: 'tool', content: 'a.py', tool_call_ids: ['c1'] },
    ];
    const row = { instance_id: 'a', traj_id: 'a.1', resolved: true };
    for (const list of [messages, JSON.stringify(messages)]) {
      expect(known({ ...row, messages: list })).toBe('swe-rows');
      const { of, refused } = read('swe-rows', { ...row, messages: list });
      expect([refused, of('tool.called').length]).toEqual([[], 1]);
      expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'c1', output: 'a.py' }]);
    }
  });

  it('refuses a row whose messages cannot be read', () => {
    expect(read('swe-rows', { instance_id: 'a', resolved: true, messages: '[{"role"' }).refused).toEqual([
      'bad_type messages',
    ]);
  });
});
