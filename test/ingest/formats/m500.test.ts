import { describe, expect, it } from 'vitest';
import { known, read } from './support/convert.ts';

const talk = (role: string, ...answers: string[]) => [
  { role: 'system', content: `You are the ${role}.` },
  { role: 'user', content: 'How long?' },
  ...answers.map((content) => ({ role: 'assistant', content })),
];
const ROW = {
  evaluator_messages: talk('judge', 'Correctness: 1'),
  question: 'How long?',
  solution: '20',
  expert_recruiter_messages: talk('recruiter', '<think>who</think>1. algebraist'),
  problem_solver_messages: talk('solver', '21', '20'),
  critic_messages: talk('critic', 'right'),
};

describe('a row of M500', () => {
  it('is one episode, each column the conversation of the agent of its name', () => {
    expect(known(ROW)).toBe('m500');
    const { of, refused } = read('m500', ROW);
    expect(refused).toEqual([]);
    expect(of('agent.defined').map(({ agent_id, system_instructions }) => [agent_id, system_instructions])).toEqual([
      ['expert_recruiter', 'You are the recruiter.'],
      ['problem_solver', 'You are the solver.'],
      ['critic', 'You are the critic.'],
      ['evaluator', 'You are the judge.'],
    ]);
    expect(of('generation.completed').map(({ agent_id }) => agent_id)).toEqual([
      'expert_recruiter',
      'problem_solver',
      'problem_solver',
      'critic',
      'evaluator',
    ]);
    expect(of('generation.requested').map(({ input }) => (input as unknown[]).length)).toEqual([2, 2, 3, 2, 2]);
    expect(new Set(of('generation.completed').map(({ call_id }) => call_id)).size).toBe(5);
    expect(of('task.defined')).toMatchObject([{ query: 'How long?', ground_truth: '20' }]);
  });

  it('says that the order of the roles is not known, and reads the columns in one order wherever they stand', () => {
    expect(read('m500', ROW).of('episode.started')[0]!.flags).toEqual(['no_token_ids', 'order_unknown']);
    const turned = Object.fromEntries(Object.entries(ROW).reverse());
    expect(read('m500', turned).drafts).toEqual(read('m500', ROW).drafts);
  });

  it('is refused whole where a column, a text or the question is missing, so that silence is never learned', () => {
    expect(read('m500', { ...ROW, critic_messages: null }).refused).toEqual(['bad_type critic_messages']);
    expect(read('m500', { ...ROW, critic_messages: [{ role: 'assistant' }] }).refused).toEqual([
      'bad_type critic_messages[0].content',
    ]);
    expect(read('m500', { ...ROW, question: undefined }).refused).toEqual(['bad_type question']);
    expect(read('m500', { ...ROW, critic_messages: [{ role: 'robot', content: '' }] }).refused).toEqual([
      'bad_type critic_messages[0].role',
    ]);
  });

  it('keeps further columns of roles and fields without a place', () => {
    const { of } = read('m500', { ...ROW, summarizer_messages: talk('summary', 'done'), rank: 3 });
    expect(of('agent.defined').at(-1)!.agent_id).toBe('summarizer');
    expect(of('episode.started')[0]!.unmapped).toEqual({ rank: 3 });
  });
});
