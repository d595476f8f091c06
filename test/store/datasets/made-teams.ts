/** Made-up teams for the recipes that come with Troupe and have no rows in published logs: their episodes by recipe. */
import type { Event } from '../../../ingest/events/events.ts';
import { type Call, type Play, played } from '../judging/support/episodes.ts';
import { aTask } from '../judging/support/stories.ts';
import { anExecution, at, event } from '../support/events.ts';

type Plays = readonly (readonly Event[])[];

const says = (role: string, content: string, turn?: number): Call => ({
  role,
  agent: role,
  turn,
  choices: [{ content }],
});

/** One trace of each kind that one of four filters drops, and two that pass. */
const traces = (): Plays => {
  const calls = [says('critic', '<think>x</think> [Agree]', 0), says('solver', '<think>so</think> it is \\boxed{42}')];
  const task = (id: string, tags: object) => aTask(id, { ground_truth: '42', tags: { ...tags } });
  const trace = (id: string, of: string, play: Partial<Play> = {}) =>
    played(id, { task: of, answer: '42', calls, ...play });
  return [
    [
      task('long', { interdisciplinary: true, answer_tokens: 1025 }),
      task('short', { interdisciplinary: true, answer_tokens: 1024 }),
    ],
    trace('kept', 'long'),
    trace('again', 'long'),
    trace('brief', 'short'),
    trace('wrong', 'long', { answer: '41' }),
    trace('blocked', 'long', { calls: [says('critic', '<think>x</think> no', 0), calls[1]!] }),
    trace('unformed', 'long', { calls: [calls[0]!, says('solver', 'it is 42')] }),
  ];
};

const searches = (): Plays => {
  const tool = (episode: string, call: string, status: 'ok' | 'error') => [
    event(
      'tool.called',
      { episode_id: episode, tool_call_id: `${call}-t`, call_id: call, name: 'search' },
      { time: at(2) },
    ),
    event('tool.returned', { episode_id: episode, tool_call_id: `${call}-t`, call_id: call, status }, { time: at(3) }),
  ];
  const search = (id: string, reward: number) =>
    played(id, {
      reward,
      calls: [
        says('planner', 'Find it.'),
        says('executor', 'search()'),
        says('executor', 'find()'),
        says('executor', 'It is 4.'),
      ],
    });
  return [
    [
      ...search('solved', 1),
      ...tool('solved', 'c0', 'ok'),
      ...tool('solved', 'c1', 'ok'),
      ...tool('solved', 'c2', 'error'),
    ],
    [...search('failed', 0), ...tool('failed', 'c1', 'ok')],
  ];
};

/** Two programs and two tests that differ, and an episode whose programs all pass. */
const executions = (): Plays => {
  const same = [
    ...anExecution('same').filter(({ name }) => name !== 'feedback.recorded'),
    event('feedback.recorded', {
      feedback_id: 'same-matrix',
      target: { kind: 'episode', episode_id: 'same' },
      kind: 'execution',
      name: 'tests',
      matrix: {
        programs: ['same-coder/0', 'same-coder/1'].map((step_id) => ({ step_id, valid: true })),
        tests: [{ name: 'hidden', ground_truth: true }],
        pass: [[1], [1]],
      },
    }),
  ];
  return [anExecution('x'), same];
};

const trees = (): Plays => {
  const node = (parent?: string, correct?: boolean): Call => ({
    choices: [{ content: 'x', parent, says: correct === undefined ? {} : { correct } }],
  });
  return [
    played('tree', {
      calls: [node(), node('c0/0', true), node('c0/0', false), node('c0/0', true), node('gone/0', true)],
    }),
    played('sure', { calls: [node(), node('c0/0', true)] }),
  ];
};

const samples = (): Plays => {
  const sample = (group: string, id: string, small: number, large: number, referee: string) =>
    played(id, { group, calls: [says('writer', id)], says: { ifd_small: small, ifd_large: large, referee } });
  return [
    sample('a', 'wide', 0.9, 0.4, 'generated'),
    sample('a', 'narrow', 0.8, 0.7, 'generated'),
    sample('b', 'tied', 0.9, 0.4, 'tie'),
    sample('b', 'second', 0.7, 0.5, 'generated'),
  ];
};

const orders = (): Plays => {
  const run = (id: string, state: Record<string, unknown>, answer: string) => [
    ...played(id, { task: 'order', answer, calls: [says('assistant', 'Sending.'), says('assistant', 'Done.')] }),
    event('environment.observed', { episode_id: id, kind: 'state', seq: 9, state }, { time: at(10) }),
  ];
  return [
    [aTask('order', { reference: { state: { order: 'sent' }, outputs: ['54.04'] } })],
    run('right', { order: 'sent' }, '54.04'),
    run('other', { order: 'kept' }, '54.04'),
    run('silent', { order: 'sent' }, 'unknown'),
  ];
};

/** A generator, two verifiers of its answer of which one is right, and two refiners. */
const corrections = (): Plays => {
  const asked = (role: string, call: number, input: string): Event =>
    event(
      'generation.requested',
      { episode_id: 'malt', call_id: `c${call}`, agent_id: role, role, input: [{ role: 'user', content: input }] },
      { time: at(1) },
    );
  const answer = (role: string, parent: string | undefined, content: string, correct?: boolean): Call => ({
    role,
    agent: role,
    choices: [{ content, parent, says: correct === undefined ? {} : { correct } }],
  });
  return [
    [
      ...played('malt', {
        calls: [
          answer('generator', undefined, '41'),
          answer('verifier', 'c0/0', 'It is wrong.'),
          answer('verifier', 'c0/0', 'It is right.'),
          answer('refiner', 'c1/0', '42', true),
          answer('refiner', 'c1/0', 'It is 42.', true),
          answer('refiner', 'c1/0', '43', false),
          answer('refiner', 'c2/0', '41', false),
        ],
      }),
      asked('generator', 0, 'What is 6 · 7?'),
      ...[1, 2].map((call) => asked('verifier', call, 'Is 41 right?')),
      ...[3, 4, 5].map((call) => asked('refiner', call, '41 is wrong. Correct it.')),
      asked('refiner', 6, '41 is right. Correct it.'),
    ],
  ];
};

/** A failed attempt whose third answer is labelled as the mistake, one that failed without a label, and one that succeeded with one. */
const mistakes = (): Plays => {
  const attempt = (id: string, outcome: 'success' | 'failure') =>
    played(id, {
      outcome,
      calls: [says('planner', 'Add them.'), says('solver', '6 · 7'), says('solver', '41'), says('planner', 'Done.')],
    });
  const label = (episode_id: string) =>
    event('feedback.recorded', {
      feedback_id: `${episode_id}-mistake`,
      target: { kind: 'step', episode_id, id: 'c2/0' },
      kind: 'failure',
      name: 'mistake',
      label: 'wrong arithmetic',
    });
  return [
    [...attempt('mistaken', 'failure'), label('mistaken')],
    attempt('unlabelled', 'failure'),
    [...attempt('lucky', 'success'), label('lucky')],
  ];
};

export const MADE_TEAMS: Readonly<Record<string, () => Plays>> = {
  m500: traces,
  'm1-32b': traces,
  browsemaster: searches,
  'cure-coder': executions,
  'cure-tester': executions,
  masprm: trees,
  'star-agents': samples,
  'apigen-mt': orders,
  malt: corrections,
  'before-mistake': mistakes,
};
