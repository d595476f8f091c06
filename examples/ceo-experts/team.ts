/**
 * A CEO and its experts: the CEO recruits an expert and sets the budget of tokens of its answer, reads the answer, and accepts it or asks for
 * more. Where a question says `"recruit": "all"` every expert answers, and the CEO says whose answer the team gives.
 *
 *   node --import tsx examples/ceo-experts/team.ts --url http://127.0.0.1:7717 [--ceo policy:ceo] [--expert expert]
 */
import { seedOf } from '../lib/random.ts';
import { type Play, type Played, runTeam, type Tools } from '../lib/worker.ts';

type Question = {
  readonly task_id: string;
  readonly prompt: string;
  readonly answer: string;
  readonly domain: string;
  readonly recruit?: 'all';
};
type Ask = (role: string, turn: number, content: string, maxTokens: number) => Promise<string>;

const EXPERTS = ['sums', 'rivers', 'kings', 'metals'];
const BUDGETS: Readonly<Record<string, number>> = { little: 4, some: 8, much: 16 };
/** A budget that cannot be read is the largest one. */
const DEFAULT_BUDGET = BUDGETS.much!;
const ROUNDS = 3;
/** Tokens of experts at which nothing of the reward for thrift is left. */
const ALLOWANCE = 32;

/** What the answer of an expert ends with, where that is a number. */
const numberIn = (text: string): string | null => /(?:^| )([1-9])$/.exec(text)?.[1] ?? null;

/** The reward is the mean of three: the expert recruited first knows the subject, the answer is right, and how thrifty it was. */
async function recruitInTurn(episode_id: string, task: Question, ask: Ask, { recorder }: Tools): Promise<Played> {
  let [expertAnswer, spent, first] = [null as string | null, 0, null as string | null];
  for (let turn = 0; turn < ROUNDS; turn++) {
    const reply = await ask(
      'ceo',
      turn,
      turn === 0 ? task.prompt : `${task.prompt} heard ${expertAnswer ?? 'nothing'}`,
      3,
    );
    const [expert = '', budget = ''] = reply.split(' ');
    // Whatever names no expert is the end of the discussion, as an acceptance is.
    const recruited = EXPERTS.includes(expert);
    const tokens = BUDGETS[budget] ?? DEFAULT_BUDGET;
    const decision = recruited ? { expert, tokens } : { heard: expertAnswer };
    recorder.decision({ episode_id, by: 'ceo', kind: recruited ? 'recruit' : 'accept', decision, turn });
    if (!recruited) break;
    first ??= expert;
    spent += tokens;
    expertAnswer = numberIn(await ask(expert, turn, task.prompt, tokens));
  }
  const right = expertAnswer === task.answer;
  const thrift = right ? Math.max(0, 1 - spent / ALLOWANCE) : 0;
  return {
    reward: ((first === task.domain ? 1 : 0) + (right ? 1 : 0) + thrift) / 3,
    answer: expertAnswer,
    solved: right,
  };
}

/** The reward is 1 if the answer that the CEO chooses is right. */
async function recruitAll(episode_id: string, task: Question, ask: Ask, { recorder }: Tools): Promise<Played> {
  const answers = await Promise.all(
    EXPERTS.map(async (expert) => numberIn(await ask(expert, 0, task.prompt, DEFAULT_BUDGET))),
  );
  const expertAnswers = answers.map((answer) => answer ?? 'nothing');
  const [expert = ''] = (await ask('ceo', 1, `${task.prompt} heard ${expertAnswers.join(' ')}`, 2)).split(' ');
  const answer = answers[EXPERTS.indexOf(expert)] ?? null;
  recorder.decision({ episode_id, by: 'ceo', kind: 'select', decision: { expert, answer }, turn: 1 });
  const right = answer === task.answer;
  return { reward: right ? 1 : 0, answer, solved: right };
}

const play: Play<Question> = ({ episode_id, task, seed }, tools) => {
  const { gateway, models } = tools;
  const ask: Ask = async (role, turn, content, maxTokens) => {
    const question = { role: 'user' as const, content };
    const expert = role !== 'ceo';
    const messages = expert ? [{ role: 'system' as const, content: `You know ${role}` }, question] : [question];
    const call = { episode: episode_id, role, turn, model: expert ? models.expert! : models.ceo!, messages, maxTokens };
    const [answer] = await gateway.ask({ ...call, n: 1, temperature: 1, seed: seedOf(seed, role, turn) >>> 1 });
    return answer!.text;
  };
  return (task.recruit === 'all' ? recruitAll : recruitInTurn)(episode_id, task, ask, tools);
};

await runTeam<Question>({
  name: 'ceo and experts',
  source: '/examples/ceo-experts',
  runner: 'experts',
  agents: [
    { name: 'ceo', role: 'ceo', prompt: 'SUBJECT LENGTH KEY [heard NUMBER]' },
    ...EXPERTS.map((name) => ({ name, role: name, prompt: `You know ${name}` })),
  ],
  models: { ceo: 'policy:ceo', expert: 'expert' },
  play,
});
