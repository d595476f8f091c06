/** Made-up plays of a small team, as Troupe's own events: sampled tokens with their log-probabilities, and a reward. */
export const WORDS = ['what', 'is', 'plus', 'zero', 'one', 'two', 'three', 'four'];
const SPECIAL = 2;
const idOf = (word: string): number => SPECIAL + WORDS.indexOf(word);
const END = 1;

/** `tasks` times four plays of one task, of which the even ones are right. */
export function plays(tasks: number): object[] {
  const events: object[] = [];
  const tell = (name: string, id: string, data: object, second: number) =>
    events.push({
      specversion: '1.0',
      type: `troupe.${name}.v1`,
      source: '/made-up',
      id,
      time: new Date(1_760_000_000_000 + second * 1000).toISOString(),
      datacontenttype: 'application/json',
      data,
    });
  for (let task = 0; task < tasks; task++) {
    const [a, b] = [WORDS[3 + (task % 3)]!, WORDS[3 + (task % 2)]!];
    const question = `what is ${a} plus ${b}`;
    tell('task.defined', `task-${task}`, { task_id: `task-${task}`, query: question }, 0);
    for (let attempt = 0; attempt < 4; attempt++) {
      const episode_id = `play-${task}-${attempt}`;
      const right = attempt % 2 === 0;
      const answer = right ? WORDS[3 + (task % 3) + (task % 2)]! : 'what';
      const at = task * 40 + attempt * 10;
      tell(
        'episode.started',
        `${episode_id}-start`,
        { episode_id, task_id: `task-${task}`, group_id: `task-${task}` },
        at,
      );
      tell(
        'agent.defined',
        `${episode_id}-agent`,
        { episode_id, agent_id: 'solver', name: 'solver', role: 'solver' },
        at,
      );
      tell(
        'generation.requested',
        `${episode_id}-ask`,
        {
          episode_id,
          call_id: `${episode_id}-call`,
          agent_id: 'solver',
          input: [{ role: 'user', content: question }],
        },
        at + 1,
      );
      tell(
        'generation.completed',
        `${episode_id}-answer`,
        {
          episode_id,
          call_id: `${episode_id}-call`,
          agent_id: 'solver',
          prompt_token_ids: question.split(' ').map(idOf),
          choices: [
            { index: 0, content: answer, finish_reason: 'stop', token_ids: [idOf(answer), END], logprobs: [-2, -1.5] },
          ],
        },
        at + 2,
      );
      tell(
        'feedback.recorded',
        `${episode_id}-reward`,
        {
          feedback_id: `${episode_id}-reward`,
          target: { kind: 'episode', episode_id },
          kind: 'reward',
          name: 'reward',
          value: right ? 1 : 0,
        },
        at + 3,
      );
      tell('episode.finished', `${episode_id}-end`, { episode_id, outcome: right ? 'success' : 'failure' }, at + 4);
    }
  }
  return events;
}

/** The same plays with a second agent, the checker, that says what the first says. */
export const teamPlays = (tasks: number): object[] =>
  (plays(tasks) as { readonly id: string; readonly data: Readonly<Record<string, unknown>> }[]).flatMap((event) => {
    const { agent_id, call_id } = event.data;
    if (agent_id === undefined) return [event];
    const other = { agent_id: 'checker', name: 'checker', role: 'checker', call_id: `${call_id}-checker` };
    const known = Object.entries(other).filter(([name]) => name in event.data);
    return [event, { ...event, id: `${event.id}-checker`, data: { ...event.data, ...Object.fromEntries(known) } }];
  });
