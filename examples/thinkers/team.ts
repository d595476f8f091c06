/**
 * A meta-thinker and a reasoner: the thinker sees the question and says one word, the reasoner sees the numbers and that word, and answers.
 * They go on for `max_turns` turns, a setting of the rollout, or until the thinker, who sees the last answer, says done.
 *
 *   node --import tsx examples/thinkers/team.ts --url http://127.0.0.1:7717 [--thinker policy:thinker] [--reasoner policy:reasoner]
 */
import type { Answer } from '../lib/gateway.ts';
import { seedOf } from '../lib/random.ts';
import { earned, type Play, runTeam } from '../lib/worker.ts';

type Question = { readonly task_id: string; readonly prompt: string; readonly answer: string };

const play: Play<Question> = async ({ episode_id, task, seed, params }, { gateway, models, recorder }) => {
  const ask = async (role: string, model: string, turn: number, ...texts: string[]): Promise<Answer> => {
    const messages = texts.map((content) => ({ role: 'user' as const, content }));
    const call = { episode: episode_id, role, turn, model, messages, n: 1, maxTokens: 1, temperature: 1 };
    const [step] = await gateway.ask({ ...call, seed: seedOf(seed, role, turn) >>> 1 });
    return step!;
  };
  const numbers = task.prompt.split(' ').slice(1).join(' ');
  let answer = '';
  const turns = Number(params?.max_turns ?? 1);
  for (let turn = 0; turn < turns; turn++) {
    const thought = await ask('meta-thinking', models.thinker!, turn, `think ${task.prompt} ${answer}`.trim());
    const isDone = thought.text === 'done' && answer !== '';
    // The word is a message of its own: a replay that skips the thinker leaves that out, and the reasoner begins again without it.
    const last = isDone ? thought : await ask('reasoning', models.reasoner!, turn, `solve ${numbers}`, thought.text);
    if (!isDone) answer = last.text;
    // What the two did in this turn, where there are several: an answer, or to leave it as it is.
    if (turns > 1) earned(recorder, episode_id, last.stepId, answer === task.answer ? 1 : 0);
    if (isDone) break;
  }
  const right = answer === task.answer;
  return { reward: right ? 1 : 0, answer, solved: right };
};

await runTeam<Question>({
  name: 'thinker and reasoner',
  source: '/examples/thinkers',
  runner: 'thinkers',
  agents: [
    { name: 'meta-thinking', role: 'meta-thinking', prompt: 'think larger|smaller NUMBER NUMBER [ANSWER]' },
    { name: 'reasoning', role: 'reasoning', prompt: 'solve NUMBER NUMBER WORD' },
  ],
  models: { thinker: 'policy:thinker', reasoner: 'policy:reasoner' },
  play,
});
