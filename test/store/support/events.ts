/** Small builders: events as a team of two would record them. */
import { decodeDraft } from '../../../ingest/decode.ts';
import type { Draft, Event, EventData, EventName } from '../../../ingest/events.ts';

let counter = 0;

/** A valid event; throws where the data is not valid, so that a test cannot pass on a refusal. */
export function event<N extends EventName>(
  name: N,
  data: EventData<N>,
  { id = `id-${counter++}`, source = '/test', time = null as string | null } = {},
): Event {
  const decoded = decodeDraft({ name, source, id, time, data } as unknown as Draft);
  if (decoded.refusal) throw new Error(JSON.stringify(decoded.refusal));
  return decoded.event;
}

/** Times a second apart, so that the order of what happened is known. */
export const at = (second: number): string => new Date(Date.UTC(2026, 8, 10, 10, 0, second)).toISOString();

/** One episode: a solver answers twice with a tool in between, a user speaks, a reward comes. */
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
