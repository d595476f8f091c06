/** Runs of a team of two that failed: a lead hands over, a worker guesses, a tool fails, the lead gives an answer. */
import type { Event, EventData, EventName } from '../../../../ingest/events/events.ts';
import { at, event } from '../../support/events.ts';

type Ending = {
  readonly outcome?: EventData<'episode.finished'>['outcome'];
  readonly reward?: number | null;
  readonly answer?: string;
};

/** Entries 0 to 4: a user, the lead, the worker, a tool's answer, the lead. `first` is the number of the first, null where they have none. */
export function lostRun(
  id: string,
  {
    outcome = 'failure',
    reward = null,
    answer = 'The city has 12 bridges, and that is the final answer.',
  }: Ending = {},
  first: number | null = 0,
): Event[] {
  const e = <N extends EventName>(n: number, name: N, data: EventData<N>) =>
    event(name, data, { id: `${id}-${n}`, time: at(n) });
  const seq = (n: number) => (first === null ? {} : { seq: first + n });
  const says = (n: number, agent: string, content: string) =>
    e(n + 10, 'generation.completed', {
      episode_id: id,
      ...seq(n),
      call_id: `c${n}`,
      agent_id: agent,
      choices: [{ index: 0, content }],
    });
  return [
    e(0, 'task.defined', { task_id: `task-${id}`, query: 'How many bridges?', ground_truth: 17, source: 'made-up' }),
    e(1, 'episode.started', { episode_id: id, task_id: `task-${id}` }),
    e(2, 'agent.defined', { episode_id: id, agent_id: 'lead' }),
    e(3, 'agent.defined', { episode_id: id, agent_id: 'worker' }),
    e(10, 'message.sent', { episode_id: id, ...seq(0), message_id: 'm0', from: 'user', content: 'How many bridges?' }),
    says(1, 'lead', 'Worker, count them.'),
    e(30, 'control.transferred', {
      episode_id: id,
      ...seq(1),
      from_agent: 'lead',
      to_agent: 'worker',
      kind: 'delegate',
    }),
    says(2, 'worker', `I assume that there are 12 of them in ${id}.\n\`\`\`python\nprint(12)\n\`\`\``),
    e(13, 'environment.observed', { episode_id: id, ...seq(3), kind: 'output', content: 'exit code: 1' }),
    says(4, 'lead', answer),
    e(40, 'episode.finished', { episode_id: id, outcome }),
    ...(reward === null
      ? []
      : [
          e(41, 'feedback.recorded', {
            feedback_id: `${id}-reward`,
            target: { kind: 'episode', episode_id: id },
            kind: 'reward',
            name: 'reward',
            value: reward,
          }),
        ]),
  ];
}

/** What a person says went wrong. */
export const label = (id: string, agent: string, entry: number, annotator = 'ann'): Event =>
  event(
    'feedback.recorded',
    {
      feedback_id: `${id}-mistake-${annotator}`,
      target: { kind: 'agent', id: agent, episode_id: id, entry },
      kind: 'failure',
      name: 'mistake',
      by: 'human',
      annotator,
    },
    { id: `${id}-mistake-${annotator}`, time: at(50) },
  );
