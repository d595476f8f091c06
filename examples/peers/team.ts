/**
 * Peers that answer in two rounds: each answers alone, then each reads all answers, rates them from 1 to 5, and answers again. What most of them
 * say at the end is the answer. Who the peers are is the version of the team.
 *
 *   node --import tsx examples/peers/team.ts --url http://127.0.0.1:7717 [--model peer]
 */
import { seedOf } from '../lib/random.ts';
import { type Play, runTeam } from '../lib/worker.ts';

type Sum = { readonly task_id: string; readonly prompt: string; readonly answer: string };
type Member = { readonly name: string; readonly prompt: string };

const play: Play<Sum> = async ({ episode_id, task, seed, team }, { gateway, recorder, models }) => {
  const members = (team?.definition.agents ?? []) as readonly Member[];
  if (members.length === 0) throw new Error('The rollout should name a version of the team, with its agents.');
  const round = (turn: number, content: string) =>
    Promise.all(
      members.map(async ({ name, prompt }) => {
        const messages = [
          { role: 'system' as const, content: prompt },
          { role: 'user' as const, content },
        ];
        const call = { episode: episode_id, role: 'peer', agent: name, turn, model: models.model!, messages };
        const drawn = { n: 1, maxTokens: 32, temperature: 1, seed: seedOf(seed, name, turn) >>> 1 };
        const [step] = await gateway.ask({ ...call, ...drawn });
        return { name, stepId: step!.stepId, words: step!.text.split(' ') };
      }),
    );
  const first = await round(0, task.prompt);
  const second = await round(1, `${task.prompt} heard ${first.map(({ words }) => words[0]).join(' ')}`);
  const about = (stepId: string) => ({ kind: 'step' as const, id: stepId, episode_id });
  for (const { name, words } of second)
    for (const [i, { stepId }] of first.entries()) {
      const rated = {
        target: about(stepId),
        kind: 'score' as const,
        name: 'rating',
        value: Number(words[1 + i]),
        annotator: name,
      };
      recorder.feedback({ feedback_id: `${stepId}/rating/${name}`, ...rated });
    }
  const answers = second.map(({ words }) => words[0]!);
  const count = (answer: string) => answers.filter((one) => one === answer).length;
  const answer = [...answers].sort((a, b) => count(b) - count(a))[0]!;
  for (const { stepId, words } of second) {
    const agrees = {
      target: about(stepId),
      kind: 'label' as const,
      name: 'agrees',
      value: Number(words[0] === answer),
      by: 'code',
    };
    recorder.feedback({ feedback_id: `${stepId}/agrees`, ...agrees });
  }
  const solved = answer === task.answer;
  return { reward: solved ? 1 : 0, answer, solved };
};

await runTeam<Sum>({
  name: 'peers',
  source: '/examples/peers',
  runner: 'peers',
  agents: [{ name: 'peer', role: 'peer', prompt: 'as its version says' }],
  models: { model: 'peer' },
  play,
});
