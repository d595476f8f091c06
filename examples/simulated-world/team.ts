/**
 * An agent whose tools do not exist: a model plays the world (Simia). It answers each call of a tool from a reference that the agent does not
 * see, ends the conversation, and says at last whether the agent did right: 1 or 0, which is the reward.
 *
 *   node --import tsx examples/simulated-world/team.ts --url http://127.0.0.1:7717 [--agent policy:agent] [--world world]
 */
import { seedOf } from '../lib/random.ts';
import { type Play, runTeam } from '../lib/worker.ts';

type Question = {
  readonly task_id: string;
  readonly prompt: string;
  readonly answer: string;
  /** The right call and what comes of it, which is shown to the world alone. */
  readonly reference: string;
};

const TURNS = 3;
/** What the world says when the conversation is over. */
const END = '[TERMINATE]';

const play: Play<Question> = async ({ episode_id, task, seed }, { gateway, recorder, models }) => {
  const transcript: string[] = [];
  let result = '';
  const ask = async (role: 'agent' | 'world', turn: number, system: string | null, content: string) => {
    const user = { role: 'user' as const, content };
    const messages = system === null ? [user] : [{ role: 'system' as const, content: system }, user];
    const call = { episode: episode_id, role, turn, model: models[role]!, messages, n: 1, temperature: 1 };
    const maxTokens = role === 'agent' ? 1 : 64;
    const [answer] = await gateway.ask({ ...call, maxTokens, seed: seedOf(seed, role, turn) >>> 1 });
    return answer!;
  };
  for (let turn = 0; turn < TURNS; turn++) {
    const { text, stepId } = await ask('agent', turn, null, `ask ${task.prompt} ${result && `heard ${result}`}`.trim());
    transcript.push(text);
    const world = await ask('world', turn, `Simulate. Reference: ${task.reference}`, transcript.join(' '));
    if (world.text === END) break;
    result = world.text;
    transcript.push(result);
    const call = { episode_id, call_id: stepId.slice(0, stepId.lastIndexOf('/')), agent_id: 'agent', turn };
    recorder.toolCall({
      ...call,
      tool_call_id: `${stepId}/tool`,
      name: text,
      arguments: {},
      status: 'ok',
      output: result,
    });
  }
  const verdict = await ask('world', TURNS, `Grade with 1 or 0. Reference: ${task.reference}`, transcript.join(' '));
  // A world that says neither is a failed attempt, not a reward of 0.
  if (!/^[01]$/.test(verdict.text)) throw new Error(`The world should grade with 1 or 0; it answered ${verdict.text}.`);
  const right = verdict.text === '1';
  return { reward: right ? 1 : 0, answer: transcript.at(-1)!, solved: right };
};

await runTeam<Question>({
  name: 'agent in a simulated world',
  source: '/examples/simulated-world',
  runner: 'simulated',
  agents: [
    { name: 'agent', role: 'agent', prompt: 'ask WHAT THING [heard RESULT]' },
    { name: 'world', role: 'world', prompt: 'Simulate or grade. Reference: TOOL RESULT' },
  ],
  models: { agent: 'policy:agent', world: 'world' },
  play,
});
