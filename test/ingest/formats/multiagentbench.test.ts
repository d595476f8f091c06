import { describe, expect, it } from 'vitest';
import { known, read } from './support/convert.ts';

const resultOf = (model: string, ...functions: string[]) =>
  [`Result from the model:${model}`, ...functions.map((text) => `Result from the function:${text}`)].join('\n');
const LINE = {
  task: 'How long?',
  coordination_mode: 'graph',
  iterations: [
    {
      iteration: 1,
      task_assignments: { a: 'add', b: 'check' },
      task_results: [{ agent_id: 'a', result: resultOf('add', '20', '21') }],
      summary: 'added',
      continue_simulation: true,
      communications: ['In Session 07fe \nFrom a to b: first\nsecond line\nFrom b to a: yes\n'],
    },
    {
      iteration: 2,
      task_results: [{ b: resultOf('right\n') }, { a: 'plain', c: { x: 1 } }],
      continue_simulation: false,
      communications: ['?'],
      note: 1,
    },
  ],
  planning_scores: [4, -1],
  communication_scores: [-1, 3],
  token_usage: 9,
  agent_kpis: { a: 2 },
  total_milestones: 2,
  task_evaluation: { innovation: 3, buyer: { price: 5, fit: -1 } },
};

describe('a result of MultiAgentBench', () => {
  const { of, refused } = read('multiagentbench', LINE);

  it('makes each result of an agent a step, in both of their shapes, and the outputs of functions observations of the environment', () => {
    expect(known(LINE)).toBe('multiagentbench');
    expect(refused).toEqual([]);
    expect(
      of('generation.completed').map(({ agent_id, turn, choices }) => [
        agent_id,
        turn,
        (choices as { content: string }[])[0]!.content,
      ]),
    ).toEqual([
      ['a', 0, 'add'],
      ['b', 1, 'right'],
      ['a', 1, 'plain'],
      ['c', 1, '{"x":1}'],
    ]);
    expect(
      of('environment.observed')
        .filter(({ kind }) => kind === 'output')
        .map(({ content, call_id }) => [content, call_id]),
    ).toEqual([
      ['20\n', 'm1'],
      ['21', 'm1'],
    ]);
    expect(of('tool.called')).toEqual([]);
  });

  it('takes a chat apart into messages with sender and receiver', () => {
    expect(of('message.sent').map(({ from, to, content, channel }) => [from, to, content, channel])).toEqual([
      ['a', ['b'], 'first\nsecond line', '07fe'],
      ['b', ['a'], 'yes', '07fe'],
      [undefined, undefined, '?', undefined],
    ]);
  });

  it('keeps what was assigned, summed up and decided', () => {
    expect(of('decision.made').map(({ kind, turn }) => [kind, turn])).toEqual([
      ['assign', 0],
      ['plan', 0],
      ['continue', 0],
      ['stop', 1],
    ]);
    expect(of('environment.observed').find(({ kind }) => kind === 'iteration')!.unmapped).toEqual({ note: 1 });
  });

  it('takes all scores as one evaluation, without those that were not given', () => {
    expect(of('feedback.recorded').map(({ value }) => value)).toEqual([
      [
        { name: 'planning', turn: 0, value: 4 },
        { name: 'communication', turn: 1, value: 3 },
        { name: 'task.innovation', value: 3 },
        { name: 'task.buyer.price', value: 5 },
      ],
    ]);
    const none = { ...LINE, planning_scores: [-1], communication_scores: [], task_evaluation: {} };
    expect(read('multiagentbench', none).of('feedback.recorded')).toEqual([]);
    expect(of('environment.observed').find(({ kind }) => kind === 'milestone')!.state).toEqual({
      agent: 'a',
      milestones: 2,
    });
    expect(of('episode.finished')[0]!.totals).toEqual({ token_usage: 9, total_milestones: 2 });
  });

  it('is refused where iterations or results have another shape', () => {
    expect(read('multiagentbench', { ...LINE, iterations: {} }).refused).toEqual(['bad_type iterations']);
    expect(read('multiagentbench', { ...LINE, task: null }).refused).toEqual(['bad_type task']);
    const pairs = { ...LINE, iterations: [{ task_results: [['a', 'x']] }] };
    expect(read('multiagentbench', pairs).refused).toEqual(['bad_type iterations[0].task_results[0]']);
  });

  it('meets its configuration in the text of the task', () => {
    const config = {
      scenario: 'research',
      task_id: 3,
      agents: [{ agent_id: 'a', type: 'BaseAgent', profile: 'adds' }],
      relationships: [['a', 'b', 'reports to'], 'x'],
      task: { content: 'How long?', output_format: 'a number' },
      metrics: {},
    };
    expect(known(config)).toBe('multiagentbench');
    const converted = read('multiagentbench', config);
    expect(converted.of('task.defined')[0]).toMatchObject({
      task_id: of('task.defined')[0]!.task_id,
      domain: 'research',
      tags: { task_id: 3 },
      unmapped: { metrics: {} },
    });
    expect(converted.of('team.defined')[0]).toMatchObject({
      agents: [{ name: 'a', profile: 'adds' }],
      edges: [['a', 'b', 'reports to']],
    });
  });
});
