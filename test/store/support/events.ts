/** Small builders: events as a team of two would record them. */
import { decodeDraft } from '../../../ingest/events/decode.ts';
import type { Draft, Event, EventData, EventName } from '../../../ingest/events/events.ts';

let counter = 0;

/** A valid event; throws where the data is not valid, so that a test cannot pass on a refusal. */
export function event<N extends EventName>(
  name: N,
  data: EventData<N>,
  {
    id = `id-${counter++}`,
    source = '/test',
    time = null as string | null,
    type_version = undefined as number | undefined,
  } = {},
): Event {
  const decoded = decodeDraft({ name, type_version, source, id, time, data } as unknown as Draft);
  if (decoded.refusal) throw new Error(JSON.stringify(decoded.refusal));
  return decoded.event;
}

/** Times a second apart, so that the order of what happened is known. */
export const at = (second: number): string => new Date(Date.UTC(2026, 8, 10, 10, 0, second)).toISOString();

/** One episode: a solver answers twice with a tool in between, a user writes, a reward comes. */
export function anEpisode(
  id: string,
  { task = 'task-1', reward = 1 as number | null, group = null as string | null } = {},
): Event[] {
  const e = <N extends EventName>(n: number, name: N, data: EventData<N>) =>
    event(name, data, { id: `${id}-${n}`, time: at(n) });
  return [
    e(0, 'task.defined', { task_id: task, query: `What is ${task}?`, ground_truth: '42' }),
    e(1, 'episode.started', { episode_id: id, task_id: task, group_id: group, tags: { kind: 'test' } }),
    e(2, 'agent.defined', { episode_id: id, agent_id: 'solver', name: 'Solver', role: 'solver' }),
    e(3, 'message.sent', { episode_id: id, message_id: 'm1', from: 'user', role: 'user', content: `What is ${task}?` }),
    e(4, 'generation.requested', {
      episode_id: id,
      call_id: `${id}-c1`,
      agent_id: 'solver',
      turn: 0,
      input: [{ role: 'user', content: `What is ${task}?` }],
    }),
    e(5, 'generation.completed', {
      episode_id: id,
      call_id: `${id}-c1`,
      agent_id: 'solver',
      turn: 0,
      choices: [{ index: 0, content: 'let me see', token_ids: [1, 2, 3], logprobs: [-0.5, -0.25, -1] }],
      usage: { input_tokens: 4, output_tokens: 3 },
    }),
    e(6, 'tool.called', { episode_id: id, tool_call_id: 't1', call_id: `${id}-c1`, name: 'calc', arguments: { x: 6 } }),
    e(7, 'tool.returned', { episode_id: id, tool_call_id: 't1', status: 'ok', output: '42' }),
    e(8, 'generation.requested', {
      episode_id: id,
      call_id: `${id}-c2`,
      agent_id: 'solver',
      turn: 1,
      input: [
        { role: 'user', content: `What is ${task}?` },
        { role: 'assistant', content: 'let me see' },
      ],
    }),
    e(9, 'generation.completed', {
      episode_id: id,
      call_id: `${id}-c2`,
      agent_id: 'solver',
      turn: 1,
      choices: [
        { index: 0, content: '42', chosen: true },
        { index: 1, content: '41' },
      ],
    }),
    e(10, 'episode.finished', { episode_id: id, outcome: 'success', answer: '42' }),
    e(11, 'feedback.recorded', {
      feedback_id: `${id}-reward`,
      target: { kind: 'episode', episode_id: id },
      kind: 'reward',
      name: 'reward',
      value: reward,
    }),
  ];
}

/** Two episodes with everything that makes order matter: a task defined twice, foreign feedback before its target, amendments. */
export const aStory = (): Event[] => [
  ...anEpisode('e1', { reward: 1 }),
  ...anEpisode('e2', { reward: null }),
  event('task.defined', { task_id: 'task-1', query: 'Said again, later' }, { id: 'again', time: at(30) }),
  event(
    'feedback.recorded',
    {
      feedback_id: 'late',
      target: { kind: 'foreign', id: 'resp-9' },
      kind: 'score',
      name: 'helpful',
      value: 0.5,
    },
    { id: 'late', time: at(31) },
  ),
  event(
    'generation.completed',
    { episode_id: 'e2', call_id: 'c9', choices: [], response_id: 'resp-9' },
    { id: 'r9', time: at(8) },
  ),
  event(
    'record.amended',
    {
      key: 'e/e1',
      target: { source: '/test', id: 'e1-9' },
      op: 'set',
      set: [{ path: '/choices/1/content', value: '40' }],
    },
    { id: 'a1', time: at(40) },
  ),
  event(
    'record.amended',
    { key: 'e/e1', target: { source: '/test', id: 'e1-11' }, op: 'merge', patch: { value: 0 } },
    { id: 'a2', time: at(41) },
  ),
];

/** An episode with two programs and two tests as candidates, run against each other and against the truth as far as it goes. */
export function anExecution(id: string, { task = 'task-x', reward = 1 as number | null } = {}): Event[] {
  const choices = (texts: readonly string[]) =>
    texts.map((content, index) => ({ index, content, token_ids: [index, 1, 2].slice(index), chosen: index === 0 }));
  const answered = (role: string, n: number) => [
    event('agent.defined', { episode_id: id, agent_id: role, role }, { id: `${id}-${role}`, time: at(n) }),
    event(
      'generation.completed',
      {
        episode_id: id,
        call_id: `${id}-${role}`,
        agent_id: role,
        turn: 0,
        choices: choices([`${role} a`, `${role} b`]),
      },
      { id: `${id}-${role}-answered`, time: at(n) },
    ),
  ];
  return [
    event('task.defined', { task_id: task, query: task, ground_truth: '42' }, { id: `${task}-defined`, time: at(0) }),
    event('episode.started', { episode_id: id, task_id: task }, { id: `${id}-start`, time: at(1) }),
    ...answered('coder', 2),
    ...answered('verifier', 3),
    event(
      'feedback.recorded',
      {
        feedback_id: `${id}-matrix`,
        target: { kind: 'episode', episode_id: id },
        kind: 'execution',
        name: 'tests',
        matrix: {
          programs: [
            { step_id: `${id}-coder/0`, valid: true, behaviour: 'x' },
            { step_id: `${id}-coder/1`, valid: true, behaviour: 'y' },
            { name: 'truth', reference: true },
          ],
          tests: [
            { step_id: `${id}-verifier/0`, valid: true, holds: true, behaviour: 'x' },
            { step_id: `${id}-verifier/1`, valid: true, holds: false, behaviour: 'y' },
            { name: 'hidden', ground_truth: true },
          ],
          pass: [
            [1, 0, 1],
            [0, 1, 0],
            [1, 0, 1],
          ],
        },
      },
      { id: `${id}-matrix`, time: at(4) },
    ),
    event('episode.finished', { episode_id: id, outcome: 'success', answer: '42' }, { id: `${id}-end`, time: at(5) }),
    event(
      'feedback.recorded',
      {
        feedback_id: `${id}-reward`,
        target: { kind: 'episode', episode_id: id },
        kind: 'reward',
        name: 'reward',
        value: reward,
      },
      { id: `${id}-reward`, time: at(6) },
    ),
  ];
}
