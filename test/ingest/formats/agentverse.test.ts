import { describe, expect, it } from 'vitest';
import { known, read } from './support/convert.ts';

const line = (...logs: unknown[]) => ({ input: 'How long?', response: '20', label: '20', spend: 0.5, logs });
const JUDGED = (score: string) => ({
  agent: 'evaluator',
  content: `Evaluation result: Score: ${score}\nAdvice: look again`,
});
const REJECT = { agent: 'system', content: 'Bad score! Reject!' };
const ACCEPT = { agent: 'system', content: 'Good score! Accept!' };

describe('a run of AgentVerse', () => {
  it('makes each entry of a module a step, and each verdict the end of a round', () => {
    const native = line(
      { module: 'Solver', content: '21' },
      JUDGED('False'),
      REJECT,
      { module: 'Solver', content: '20', cost: 3 },
      JUDGED('True'),
      ACCEPT,
    );
    expect(known(native)).toBe('agentverse');
    const { of, refused } = read('agentverse', native);
    expect(refused).toEqual([]);
    expect(of('generation.completed').map(({ agent_id, turn }) => [agent_id, turn])).toEqual([
      ['Solver', 0],
      ['evaluator', 0],
      ['Solver', 1],
      ['evaluator', 1],
    ]);
    expect(of('generation.completed')[2]!.unmapped).toEqual({ cost: 3 });
    expect(of('decision.made').map(({ by, kind, turn }) => [by, kind, turn])).toEqual([
      ['system', 'reject', 0],
      ['system', 'accept', 1],
    ]);
    expect(of('feedback.recorded').map(({ value, explanation }) => [value, explanation])).toEqual([
      [false, 'look again'],
      [true, 'look again'],
    ]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'success', answer: '20', totals: { spend: 0.5 } }]);
    expect(of('task.defined')).toMatchObject([{ query: 'How long?', ground_truth: '20' }]);
  });

  it('takes what a CEO decides apart by its kind', () => {
    const { of } = read(
      'agentverse',
      line({ module: 'CEO', content: { decision: 'Stop', recruit_number: 2, direction: 'check', maximum_tokens: 64 } }),
    );
    expect(of('decision.made').map(({ by, kind, decision }) => [by, kind, decision])).toEqual([
      ['CEO', 'stop', { decision: 'Stop' }],
      ['CEO', 'recruit', { recruit_number: 2, direction: 'check' }],
      ['CEO', 'budget', { maximum_tokens: 64 }],
    ]);
    expect(of('generation.completed')[0]!.choices).toMatchObject([
      { content: expect.stringContaining('"recruit_number":2') },
    ]);
    expect(of('episode.finished')[0]!.outcome).toBe('unknown');
  });

  it('reads scores as they are written, and none where there is no number', () => {
    const scores = ['8', '[8, 9.5]', '(1,0)', 'good', ''].map((score) =>
      read('agentverse', line(JUDGED(score)))
        .of('feedback.recorded')
        .map(({ value }) => value),
    );
    expect(scores).toEqual([[8], [[8, 9.5]], [[1, 0]], [], []]);
  });

  it('refuses an entry that cannot be read and keeps the others; without logs or input the line', () => {
    const { refused, of } = read(
      'agentverse',
      line('x', { content: 'y' }, { module: 'A', content: 3 }, { module: 'A', content: 'z' }),
    );
    expect(refused).toEqual(['bad_type logs[0]', 'bad_type logs[1].agent', 'bad_type logs[2].content']);
    expect(of('generation.completed')).toHaveLength(1);
    expect(read('agentverse', { ...line(), logs: 'none' }).refused).toEqual(['bad_type logs']);
    expect(read('agentverse', { logs: [] }).refused).toEqual(['bad_type input']);
  });
});
