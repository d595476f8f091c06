/**
 * A team of three that no example has: a router chooses the operation that a word means, a worker computes it, a checker says whether the
 * result is right. Each is rewarded for what it did itself. It leases attempts of the runner `three`.
 *
 *   node --import tsx proofs/three-roles.ts --url http://127.0.0.1:7717
 */
import { seedOf } from '../examples/lib/random.ts';
import { earned, type Play, runTeam } from '../examples/lib/worker.ts';
import { KINDS, resultOf, type Sum } from './three-roles-tasks.ts';

const play: Play<Sum> = async ({ episode_id, task, seed }, { gateway, recorder, models }) => {
  const { word, kind, a, b } = task;
  const ask = async (role: string, turn: number, content: string) => {
    const messages = [{ role: 'user' as const, content }];
    const call = {
      episode: episode_id,
      role,
      turn,
      model: models.model!,
      messages,
      n: 1,
      maxTokens: 3,
      temperature: 1,
    };
    const [answer] = await gateway.ask({ ...call, seed: seedOf(seed, role, turn) >>> 1 });
    return answer!;
  };
  const right = resultOf(kind, a, b);
  const routed = await ask('router', 0, `router ${word} ${a} ${b}`);
  earned(recorder, episode_id, routed.stepId, routed.text === kind ? 1 : 0);
  // A route that is none is worked on as the first one, so that a router that errs does not stop the others.
  const way = KINDS.includes(routed.text) ? routed.text : KINDS[0]!;
  const worked = await ask('worker', 1, `worker ${way} ${a} ${b}`);
  earned(recorder, episode_id, worked.stepId, worked.text === resultOf(way, a, b) ? 1 : 0);
  const result = /^\d+$/.test(worked.text) ? worked.text : '0';
  const checked = await ask('checker', 2, `checker ${word} ${a} ${b} is ${result}`);
  const holds = result === right;
  earned(recorder, episode_id, checked.stepId, checked.text === (holds ? 'yes' : 'no') ? 1 : 0);
  const solved = holds && checked.text === 'yes';
  return { reward: solved ? 1 : 0, answer: result, solved };
};

await runTeam<Sum>({
  name: 'router, worker and checker',
  source: '/proofs/three-roles',
  runner: 'three',
  agents: ['router', 'worker', 'checker'].map((name) => ({ name, role: name, prompt: `${name} …` })),
  models: { model: 'policy:team' },
  play,
});
