/**
 * A planner and an executor: the planner delegates a search, the executor writes a program of tool calls for it, the team runs the program,
 * and what it found is inserted into the planner's context again only if the program ran to its end and found something.
 *
 *   node --import tsx examples/planner-executor/team.ts --url http://127.0.0.1:7717 [--planner policy:planner] [--executor policy:executor]
 */

import type { Answer } from '../lib/gateway.ts';
import { seedOf } from '../lib/random.ts';
import { type Play, runTeam, type Tools } from '../lib/worker.ts';

type Question = { readonly task_id: string; readonly prompt: string; readonly answer: string };
type Found = { readonly output: string | null; readonly error: string | null };

/** The pages that can be opened, and what stands on each. */
const PAGES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  lamp: { colour: 'red', price: 'low', shop: 'north' },
  chair: { colour: 'blue', price: 'low', shop: 'south' },
  desk: { colour: 'black', price: 'high', shop: 'north' },
  radio: { colour: 'white', price: 'high', shop: 'south' },
  phone: { colour: 'red', price: 'low', shop: 'south' },
  kettle: { colour: 'blue', price: 'low', shop: 'north' },
  clock: { colour: 'black', price: 'high', shop: 'south' },
  table: { colour: 'white', price: 'high', shop: 'north' },
};
const WORDS_OF_PROGRAM = 4;

/** Share of the words of a program that stand where the right one has them. */
function rightWords(program: string, search: string): number {
  const [page, field] = search.split(' ');
  const right = ['open', page, 'read', field];
  const words = program.split(' ');
  return right.filter((word, i) => words[i] === word).length / WORDS_OF_PROGRAM;
}

/** Runs `open PAGE read FIELD …` up to the first error; `onTool` gets each call of a tool that exists. */
function runProgram(program: string, onTool: (name: string, argument: string, found: Found) => void): Found {
  const words = program.split(' ');
  let page: Readonly<Record<string, string>> | null = null;
  let output: string | null = null;
  for (let i = 0; i < words.length; i += 2) {
    const [name, argument = ''] = [words[i]!, words[i + 1]];
    if (name !== 'open' && name !== 'read') return { output: null, error: `no tool ${name}` };
    const result: string | undefined = name === 'open' ? PAGES[argument] && argument : page?.[argument];
    const error = result === undefined ? `cannot ${name} ${argument}` : null;
    onTool(name, argument, { output: result ?? null, error });
    if (error !== null) return { output: null, error };
    if (name === 'open') page = PAGES[argument]!;
    else output = result!;
  }
  return { output, error: null };
}

const play: Play<Question> = async ({ episode_id, task, seed }, tools) => {
  const { gateway, recorder, models } = tools;
  const ask = async (role: string, turn: number, content: string, maxTokens: number): Promise<Answer> => {
    const messages = [{ role: 'user' as const, content }];
    const call = { episode: episode_id, role, turn, model: models[role]!, messages, n: 1, maxTokens, temperature: 1 };
    const [answer] = await gateway.ask({ ...call, seed: seedOf(seed, role, turn) >>> 1 });
    return answer!;
  };
  const search = task.prompt;
  const plan = await ask('planner', 0, `search ${search}`, 3);
  // A plan that names no page and field delegates the question itself, so that a planner that errs does not stop the executor.
  const subtask = rightWords(`open ${plan.text.replace(' ', ' read ')}`, search) === 1 ? plan.text : search;
  const handed = { from_agent: 'planner', to_agent: 'executor', kind: 'delegate' as const, reason: subtask };
  recorder.event({ name: 'control.transferred', id: `${episode_id}/handed`, data: { episode_id, ...handed, turn: 0 } });
  const program = await ask('executor', 1, `program ${subtask}`, WORDS_OF_PROGRAM + 1);
  const found = runRecorded(episode_id, program, tools);
  const inserted = found.error === null && found.output !== null;
  const decision = { inserted, found: found.output, error: found.error };
  recorder.decision({ episode_id, by: 'planner', kind: 'reinsert', decision, turn: 1 });
  const reply = await ask('planner', 2, `search ${search} found ${inserted ? found.output : 'nothing'}`, 2);
  const right = reply.text === task.answer;
  const parts = [rightWords(program.text, search), found.output === task.answer ? 1 : 0, right ? 1 : 0];
  return { reward: parts.reduce((a, b) => a + b) / parts.length, answer: reply.text, solved: right };
};

function runRecorded(episode_id: string, { stepId, text }: Answer, { recorder }: Tools): Found {
  const call_id = stepId.slice(0, stepId.lastIndexOf('/'));
  const who = { episode_id, call_id, agent_id: 'executor', turn: 1 };
  const outcome = ({ output, error }: Found) =>
    error === null ? { status: 'ok' as const, output } : { status: 'error' as const, error };
  const id = `${call_id}/program`;
  let nested = 0;
  const found = runProgram(text, (name, argument, result) => {
    const nestedId = `${id}/${nested++}`;
    const inside = { ...who, tool_call_id: nestedId, parent_tool_call_id: id };
    recorder.toolCall({ ...inside, name, arguments: { argument }, ...outcome(result) });
  });
  recorder.toolCall({
    ...who,
    tool_call_id: id,
    name: 'program',
    type: 'code',
    arguments: { text },
    ...outcome(found),
  });
  return found;
}

await runTeam<Question>({
  name: 'planner and executor',
  source: '/examples/planner-executor',
  runner: 'search',
  agents: [
    { name: 'planner', role: 'planner', prompt: 'search PAGE FIELD' },
    { name: 'executor', role: 'executor', prompt: 'program PAGE FIELD' },
  ],
  models: { planner: 'policy:planner', executor: 'policy:executor' },
  play,
});
