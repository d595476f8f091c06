/**
 * A tree of answers: a generator answers, each answer is verified, and each verification is refined into another answer. A problem says how
 * many answers a call gives and what the three roles are called; with one answer the tree is a chain. One model plays all roles, or each has
 * its own. Where a problem names candidates, each answer is the best of so many by the value that the judge gives them, the first one where
 * they are equal.
 *
 *   node --import tsx examples/answer-trees/team.ts --url http://127.0.0.1:7717 [--model policy:answerer] [--judge policy:judge]
 *     [--generator policy:generator] [--verifier policy:verifier] [--refiner policy:refiner]
 */
import type { Answer } from '../lib/gateway.ts';
import { seedOf } from '../lib/random.ts';
import { earned, type Play, runTeam } from '../lib/worker.ts';

type Problem = {
  readonly task_id: string;
  readonly prompt: string;
  readonly answer: string;
  /** Answers of a call. */
  readonly width: number;
  /** Candidates of an answer, among which the judge chooses. */
  readonly candidates?: number;
  /** Names of generator, verifier and refiner. */
  readonly roles: readonly [string, string, string];
};

/** The options that give a role a model of its own, by turn. */
const OWN = ['generator', 'verifier', 'refiner'] as const;
const VERDICTS = ['right', 'wrong'];

const play: Play<Problem> = async ({ episode_id, task, seed }, { gateway, recorder, models }) => {
  const [generator, verifier, refiner] = task.roles;
  const ask = async (role: string, turn: number, content: string, parent?: Answer): Promise<readonly Answer[]> => {
    const messages = [{ role: 'user' as const, content }];
    const call = {
      episode: episode_id,
      role,
      turn,
      model: models[OWN[turn]!] || models.model!,
      messages,
      maxTokens: 1,
    };
    const above = parent === undefined ? {} : { parent: parent.stepId };
    const drawn = { n: task.candidates ?? task.width, temperature: 1, seed: seedOf(seed, parent?.stepId ?? '') >>> 1 };
    const answers = await gateway.ask({ ...call, ...above, ...drawn });
    return task.candidates === undefined ? answers : [await bestOf(answers, turn)];
  };
  const bestOf = async (answers: readonly Answer[], turn: number): Promise<Answer> => {
    const asked = { episode: episode_id, role: 'judge', turn, model: models.judge! };
    const values = await Promise.all(answers.map(({ ids }) => gateway.value({ ...asked, ids })));
    return answers[values.indexOf(Math.max(...values))]!;
  };
  const note = (of: Answer, kind: 'label' | 'score', name: string, value: boolean | number): void => {
    const target = { kind: 'step' as const, id: of.stepId, episode_id };
    recorder.feedback({ feedback_id: `${of.stepId}/${name}`, target, kind, name, value, by: 'env' });
  };
  const right = ({ text }: Answer): boolean => text === task.answer;
  /** What a step earned by itself, and whether it has the form of an answer. */
  const mark = (of: Answer, good: boolean, formed: boolean): void => {
    earned(recorder, episode_id, of.stepId, good ? 1 : 0);
    note(of, 'score', 'format', formed ? 1 : 0);
  };
  const solution = (of: Answer): Answer => {
    note(of, 'label', 'correct', right(of));
    mark(of, right(of), /^[1-9]$/.test(of.text));
    return of;
  };
  const refinements = async (answer: Answer, verdict: Answer): Promise<readonly Answer[]> => {
    note(verdict, 'label', 'flags_error', verdict.text === 'wrong');
    mark(verdict, verdict.text === (right(answer) ? 'right' : 'wrong'), VERDICTS.includes(verdict.text));
    const asked = `refine ${task.prompt} answer ${answer.text} ${verdict.text}`;
    return (await ask(refiner, 2, asked, verdict)).map(solution);
  };
  const below = async (answer: Answer): Promise<readonly Answer[]> => {
    const verdicts = await ask(verifier, 1, `verify ${task.prompt} answer ${answer.text}`, answer);
    return (await Promise.all(verdicts.map((verdict) => refinements(answer, verdict)))).flat();
  };
  const answers = (await ask(generator, 0, `generate ${task.prompt}`)).map(solution);
  const leaves = (await Promise.all(answers.map(below))).flat();
  const reward = leaves.filter(right).length / leaves.length;
  return { reward, answer: leaves[0]!.text, solved: reward > 0.5 };
};

await runTeam<Problem>({
  name: 'tree of answers',
  source: '/examples/answer-trees',
  runner: 'trees',
  agents: [
    { name: 'generator', role: 'generator', prompt: 'generate larger NUMBER NUMBER' },
    { name: 'verifier', role: 'verifier', prompt: 'verify larger NUMBER NUMBER answer NUMBER' },
    { name: 'refiner', role: 'refiner', prompt: 'refine larger NUMBER NUMBER answer NUMBER right|wrong' },
  ],
  models: { model: 'policy:answerer', judge: 'policy:judge', generator: '', verifier: '', refiner: '' },
  play,
});
