/** Recorded work of a made-up team, as events: a solver that calls a calculator, and a checker that answers in text. */

type Event = { readonly type: string; readonly data: Readonly<Record<string, unknown>> };

export const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'calculate',
      description: 'the value of an expression',
      parameters: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
    },
  },
  {
    type: 'function',
    function: { name: 'look_up', parameters: { type: 'object', properties: { page: { type: 'integer' } } } },
  },
];

/** Each of `tasks` problems is tried twice: rightly, with reward 1, and wrongly, with reward 0. Event lines of Troupe's own format. */
export function calculatorTeam(tasks: number, tools: readonly unknown[] = TOOLS): string {
  const events: Event[] = [];
  for (let task = 0; task < tasks; task++) {
    const right = String(task + 2);
    events.push({ type: 'task.defined', data: { task_id: `sum-${task}`, query: `${task} + 2`, ground_truth: right } });
    for (const attempt of [0, 1])
      events.push(...episode(task, attempt, attempt === 0 ? right : String(task + 3), tools));
  }
  return events
    .map(({ type, data }, i) => ({
      ...{ specversion: '1.0', id: `event-${i}`, source: '/calculators', type: `troupe.${type}.v1` },
      ...{ time: new Date(Date.UTC(2026, 0, 1, 0, 0, i)).toISOString(), data },
    }))
    .map((event) => `${JSON.stringify(event)}\n`)
    .join('');
}

function episode(task: number, attempt: number, answer: string, defined: readonly unknown[]): readonly Event[] {
  const episode_id = `sum-${task}-${attempt}`;
  const asked = [
    { role: 'system', content: 'You are a careful calculator.' },
    { role: 'user', content: `What is ${task} + 2? Say the number.` },
  ];
  const expression = attempt === 0 ? `${task} + 2` : `${task} + 3`;
  const call = { type: 'tool_call', id: `call_${task}`, name: 'calculate', arguments: { expression } };
  const called = [{ type: 'reasoning', content: `I add ${task} and 2.` }, call];
  const returned = { role: 'tool', content: answer, tool_call_id: `call_${task}` };
  const answerText = `The answer is ${answer}.`;
  const speaks = (
    agent: string,
    turn: number,
    input: readonly unknown[],
    content: unknown,
    tools?: unknown,
  ): Event[] => {
    const who = { episode_id, call_id: `${agent}-${turn}`, agent_id: agent, turn };
    // The checker's model reports its tokens.
    const sampled =
      agent === 'checker'
        ? {
            prompt: { prompt_token_ids: [5, 6, 7 + task] },
            answer: { token_ids: [8, 9, 10 + attempt], logprobs: [-0.5, -1, -0.25], loss_mask: [1, 0, 1] },
          }
        : {};
    return [
      { type: 'generation.requested', data: { ...who, input, ...(tools ? { tools } : {}) } },
      {
        type: 'generation.completed',
        data: { ...who, ...sampled.prompt, choices: [{ index: 0, content, ...sampled.answer }] },
      },
    ];
  };
  const check = [{ role: 'user', content: `Is ${answer} right for ${task} + 2?` }];
  const doubt = { role: 'assistant', content: `I add again: ${answer}.` };
  return [
    { type: 'episode.started', data: { episode_id, task_id: `sum-${task}`, group_id: `sum-${task}`, attempt } },
    ...['solver', 'checker'].map((agent_id) => ({
      type: 'agent.defined',
      data: { episode_id, agent_id, name: agent_id, role: agent_id },
    })),
    ...speaks('solver', 0, asked, called, defined),
    ...speaks('solver', 1, [...asked, { role: 'assistant', content: [call] }, returned], answerText, defined),
    ...speaks('checker', 2, check, doubt.content),
    ...speaks('checker', 3, [...check, doubt, { role: 'user', content: 'So?' }], `It is ${answer}.`),
    {
      type: 'feedback.recorded',
      data: {
        ...{ feedback_id: `${episode_id}/reward`, target: { kind: 'episode', id: episode_id } },
        ...{ kind: 'reward', name: 'reward', value: attempt === 0 ? 1 : 0 },
      },
    },
    { type: 'episode.finished', data: { episode_id, outcome: attempt === 0 ? 'success' : 'failure' } },
  ];
}
