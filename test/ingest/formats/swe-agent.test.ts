import { describe, expect, it } from 'vitest';
import { known, read } from './support/convert.ts';

const step = (action: string, more: object = {}) => ({
  action,
  observation: '',
  response: `do ${action}`,
  thought: `do ${action}`,
  state: { open_file: 'a' },
  ...more,
});
const answer = (action: string, more: object = {}) => ({
  role: 'assistant',
  agent: 'main',
  content: `do ${action}`,
  thought: `do ${action}`,
  action,
  ...more,
});
const SYSTEM = { role: 'system', agent: 'main', content: 'You program.', message_type: 'system_prompt' };
const DEMO = [
  { role: 'user', agent: 'main', content: 'A demonstration.', is_demo: true },
  { role: 'assistant', agent: 'main', content: 'do ls', action: 'ls', is_demo: true },
];
const ASKED = { role: 'user', agent: 'main', content: 'Fix it.', message_type: 'observation' };
const CONFIG = { agent: { model: { name: 'm1' } }, problem_statement: { id: 'i-1', text: 'Fix it.', type: 'text' } };
const document = (trajectory: object[], history: object[], more: object = {}) => ({
  environment: 'main',
  trajectory,
  history: [SYSTEM, ...DEMO, ASKED, ...history],
  info: { exit_status: 'submitted', submission: 'diff --git a', model_stats: { api_calls: 1 }, review: 1 },
  replay_config: JSON.stringify(CONFIG),
  ...more,
});
const calls = (...ids: string[]) =>
  ids.map((id) => ({ id, type: 'function', function: { name: 'bash', arguments: `{"command":"${id}"}` } }));

describe('a trajectory of SWE-agent', () => {
  it('is an episode of the problem in its configuration, text or object, with its patch', () => {
    for (const replay_config of [JSON.stringify(CONFIG), CONFIG]) {
      const native = document([step('ls')], [answer('ls')], { replay_config });
      expect(known(native)).toBe('swe-agent');
      const { of, refused, bodies } = read('swe-agent', native);
      expect(refused).toEqual([]);
      expect(of('task.defined')).toMatchObject([{ task_id: 'i-1', query: 'Fix it.' }]);
      expect(of('agent.defined')).toMatchObject([{ agent_id: 'main', model: 'm1' }]);
      expect(of('episode.finished')).toMatchObject([
        { outcome: 'unknown', exit_status: 'submitted', totals: { api_calls: 1 }, unmapped: { review: 1 } },
      ]);
      expect(of('artifact.attached')[1]).toMatchObject({ role: 'patch' });
      expect(bodies).toEqual(['diff --git a']);
    }
  });

  it('takes tool calls from the history beside each step, two in one step as two', () => {
    const history = [
      answer('a', { tool_calls: calls('c1') }),
      { role: 'tool', agent: 'main', content: 'one', tool_call_ids: ['c1'] },
      answer('b', { tool_calls: calls('c1', 'c2') }),
      { role: 'tool', agent: 'main', content: 'two', tool_call_ids: ['c2'] },
    ];
    const { of } = read(
      'swe-agent',
      document([step('a', { observation: 'seen', execution_time: 0.5 }), step('b')], history),
    );
    expect(of('tool.called').map(({ call_id, name, arguments: asked }) => [call_id, name, asked])).toEqual([
      ['t0', 'bash', { command: 'c1' }],
      ['t1', 'bash', { command: 'c1' }],
      ['t1', 'bash', { command: 'c2' }],
    ]);
    expect(new Set(of('tool.called').map(({ tool_call_id }) => tool_call_id)).size).toBe(3);
    expect(of('tool.returned')[0]).toMatchObject({ output: 'seen', duration_ms: 500 });
    expect(of('tool.returned').at(-1)!.output).toBe('two');
    expect(of('generation.completed')[0]!.choices).toMatchObject([
      {
        content: [
          { type: 'text', content: 'do a' },
          { type: 'tool_call', id: 'c1' },
        ],
      },
    ]);
  });

  it('takes the action as the call where the model wrote commands as text', () => {
    const { of } = read(
      'swe-agent',
      document([step('open a.py\n', { observation: 'code', state: '{"open_file":"a.py"}\n' }), step('')], []),
    );
    expect(of('tool.called')).toMatchObject([{ name: 'open', type: 'code', arguments: { command: 'open a.py\n' } }]);
    expect(of('tool.returned')).toMatchObject([{ output: 'code' }]);
    expect(of('generation.completed')).toHaveLength(2);
    expect(of('environment.observed').map(({ kind, state }) => [kind, state])).toEqual([
      ['state', { open_file: 'a.py' }],
      ['state', { open_file: 'a' }],
    ]);
  });

  it('keeps a thought of its own as reasoning, and the messages as sent as the input', () => {
    const { of } = read(
      'swe-agent',
      document([step('ls', { thought: 'hm', query: [SYSTEM, ASKED] }), step('cd', { messages: 'x' })], []),
    );
    expect(of('generation.completed')[0]!.choices).toMatchObject([
      { content: [{ type: 'reasoning', content: 'hm' }, { type: 'text' }] },
    ]);
    expect(of('generation.requested')).toMatchObject([
      { call_id: 't0', model: 'm1', input: [{ role: 'system' }, { role: 'user' }] },
    ]);
    expect(of('generation.completed')[1]!.unmapped).toMatchObject({ query: 'x' });
  });

  it('does not take demonstrations for the work of the model', () => {
    const { of } = read('swe-agent', document([step('ls')], [answer('ls', { tool_calls: calls('c') })]));
    expect(of('message.sent').map(({ from, flags }) => [from, flags])).toEqual([
      ['system', undefined],
      ['user', ['demonstration']],
      ['assistant', ['demonstration']],
      ['user', undefined],
    ]);
    expect(of('tool.called')).toMatchObject([{ name: 'bash' }]);
  });

  it('reads a history alone, and names the task by its text where nothing else does', () => {
    const history = [
      SYSTEM,
      ASKED,
      answer('ls', { tool_calls: calls('c') }),
      { role: 'tool', agent: 'main', content: 'a.py', tool_call_ids: ['c'] },
    ];
    expect(known({ history })).toBe('swe-agent');
    const { of } = read('swe-agent', { history });
    expect(of('generation.completed')).toHaveLength(1);
    expect(of('tool.returned')).toMatchObject([{ output: 'a.py' }]);
    expect(of('task.defined')[0]!.task_id).toMatch(/^text\//);
    expect(of('episode.started')[0]!.flags).toContain('history_only');
  });

  it('says how it ended, which is not whether it is right', () => {
    const outcomes = [
      'submitted',
      'submitted (exit_cost)',
      'exit_cost',
      'exit_error',
      'exit_command_timeout',
      null,
    ].map(
      (exit_status) =>
        read('swe-agent', document([], [], { info: { exit_status } })).of('episode.finished')[0]!.outcome,
    );
    expect(outcomes).toEqual(['unknown', 'unknown', 'aborted', 'error', 'timeout', 'unknown']);
  });

  it('is refused where a step has no action or info is null', () => {
    const bad = document([step('ls'), { observation: '' }], [], { info: null });
    expect(read('swe-agent', bad).refused).toEqual(['bad_type trajectory[1].action', 'bad_type info']);
    expect(read('swe-agent', { trajectory: {}, info: {} }).refused).toEqual(['bad_type trajectory']);
  });
});
