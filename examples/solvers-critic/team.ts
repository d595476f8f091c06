/**
 * Two solvers, a critic and an evaluator: both solvers answer, the critic agrees or says why not, at most three times, and the evaluator
 * writes the answer of the team.
 *
 *   node --import tsx examples/solvers-critic/team.ts --url http://127.0.0.1:7717 [--model policy:student] [--runner solvers]
 */
import type { Answer } from '../lib/gateway.ts';
import { seedOf } from '../lib/random.ts';
import { type Play, runTeam } from '../lib/worker.ts';

type Problem = { readonly task_id: string; readonly prompt: string; readonly answer: string };

const ROUNDS = 3;
const MOST_TOKENS = 12;

/** What an answer has in its last box. */
const boxed = (text: string): string => /.*\\boxed\{([^{}]*)\}/.exec(text)?.[1] ?? 'nothing';

const play: Play<Problem> = async ({ episode_id, task, seed }, { gateway, recorder, models }) => {
  const ask = async (agent: string, turn: number, content: string): Promise<Answer> => {
    const role = agent.replace(/-\d$/, '');
    const messages = [{ role: 'user' as const, content: `${role} ${content}` }];
    const call = { episode: episode_id, agent, role, turn, model: models.model!, messages, maxTokens: MOST_TOKENS };
    const [answer] = await gateway.ask({ ...call, n: 1, temperature: 1, seed: seedOf(seed, agent, turn) >>> 1 });
    return answer!;
  };
  let [answers, agreed, turn] = [[] as string[], false, 0];
  for (; turn < ROUNDS && !agreed; turn++) {
    const asked = turn === 0 ? task.prompt : `${task.prompt} instead of ${answers.join(' ')}`;
    const solved = await Promise.all(['solver-1', 'solver-2'].map((agent) => ask(agent, turn, asked)));
    answers = solved.map(({ text }) => boxed(text));
    const { text } = await ask('critic', turn, `${task.prompt} answers ${answers.join(' ')}`);
    agreed = text.includes('[Agree]');
    recorder.decision({ episode_id, by: 'critic', kind: agreed ? 'accept' : 'reject', decision: { answers }, turn });
  }
  const { text } = await ask('evaluator', turn, `${task.prompt} answers ${answers.join(' ')}`);
  const answer = boxed(text);
  const right = answer === task.answer;
  return { reward: right ? 1 : 0, answer, solved: right };
};

await runTeam<Problem>({
  name: 'solvers and critic',
  source: '/examples/solvers-critic',
  runner: 'solvers',
  agents: ['solver-1', 'solver-2', 'critic', 'evaluator'].map((name) => ({
    name,
    role: name.replace(/-\d$/, ''),
    prompt: 'ROLE larger NUMBER KIND NUMBER KIND',
  })),
  models: { model: 'policy:student' },
  play,
});
