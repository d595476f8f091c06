/** Made-up completion logs: a solver and a critic talk about sums, some with candidates, tokens and rewards. */
export type Chat = Record<string, unknown>;

/** `count` calls of `count / 2` episodes in `count / 8` tasks, the same for the same arguments. */
export function chats(count: number): Chat[] {
  return Array.from({ length: count }, (_, i) => {
    const episode = Math.floor(i / 2);
    const critic = i % 2 === 1;
    const [a, b] = [episode % 9, (episode * 7) % 9];
    const answer = String(a + b + (episode % 3 === 0 ? 1 : 0));
    const question = { role: 'user', content: `what is ${a} plus ${b}` };
    return {
      request: {
        model: 'small',
        messages: critic ? [question, { role: 'assistant', content: answer }] : [question],
        metadata: {
          run_id: `sum-${episode}`,
          task_id: `task-${Math.floor(episode / 4)}`,
          agent: critic ? 'critic' : 'solver',
        },
      },
      response: {
        id: `answer-${i}`,
        model: 'small',
        created: 1_760_000_000 + i,
        choices: [
          {
            index: 0,
            finish_reason: 'stop',
            message: { role: 'assistant', content: critic ? 'looks right' : answer },
          },
        ],
      },
    };
  });
}

export const lines = (records: readonly unknown[]): string =>
  records.map((record) => `${JSON.stringify(record)}\n`).join('');
