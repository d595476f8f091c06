/**
 * MultiAgentBench (MARBLE): results, one run a line, and the configurations of its tasks. They meet in the text of the task, for a
 * result names no task. The output of a tool is only in the text of a result.
 */
import { canonicalJson, hashId, isRecord } from '../../events/json.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { badIdentifier, emitterFor } from '../kit/native.ts';
import { demand, format, isBoolean, Reader, unreadable } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'multiagentbench';
const emit = emitterFor(NAME);

type Native = Readonly<Record<string, unknown>>;

export const multiagentbench = format({
  name: NAME,
  summary: 'MultiAgentBench results {task, coordination_mode, iterations, agent_kpis, …} and its task configurations',
  called: 'a result object',
  recognises: (row) => ('coordination_mode' in row && 'iterations' in row) || isConfig(row),
  convert: (row, record) => (isConfig(row.native) ? convertConfig(row, record) : convertResult(row, record)),
  restates: ['task.defined', 'team.defined'],
});

function convertResult(row: Reader, record: NativeRecord): Conversion {
  const task = taskOf(NAME, row.text('task', 'the text of the task'));
  const trace = Trace.of(NAME, record);
  let seq = 0;
  const next = (): number => seq++;
  for (const [turn, native] of row.list('iterations', 'a list of iterations').entries()) {
    const at = `iterations[${turn}]`;
    if (!isRecord(native)) return unreadable('bad_type', at, 'an iteration object', native);
    addIteration(trace, new Reader(native, at), turn, next);
  }
  const kpis = row.any('agent_kpis');
  for (const [agent, milestones] of Object.entries(isRecord(kpis) ? kpis : {})) {
    const state = { agent, milestones };
    trace.add('environment.observed', ['milestone', agent], { seq: next(), kind: 'milestone', state });
  }
  const value = scoresOf(row);
  if (value.length > 0) trace.feedback(['evaluation'], { kind: 'score', name: 'evaluation', value, by: 'model' }, []);
  const totals = row.these('token_usage', 'total_milestones') ?? {};
  return trace.finish({
    task,
    started: { unmapped: row.rest() },
    finished: { outcome: 'unknown', seq, totals },
  });
}

/** `{agent_id, result}` in the first round of a graph, `{agent: result}` elsewhere. */
function resultsIn(iteration: Reader): [agent: string, output: unknown][] {
  if (!iteration.has('task_results')) return [];
  return iteration.list('task_results', 'a list of results').flatMap((result, k) => {
    const at = `${iteration.path('task_results')}[${k}]`;
    if (!isRecord(result)) return unreadable('bad_type', at, '{agent_id, result} or {agent: result}', result);
    const isNamed = 'agent_id' in result && 'result' in result;
    const results = isNamed ? [[result.agent_id, result.result] as const] : Object.entries(result);
    for (const [agent] of results) demand(badIdentifier(agent, at));
    return results as [string, unknown][];
  });
}

function addIteration(trace: Trace, iteration: Reader, turn: number, next: () => number): void {
  const assigned = iteration.any('task_assignments');
  if (assigned !== undefined) trace.decided(next(), 'assign', assigned, { turn });
  for (const [agent, output] of resultsIn(iteration)) {
    const { model, functions } = partsOf(typeof output === 'string' ? output : canonicalJson(output));
    const seq = next();
    trace.answer(seq, agent, model, { turn });
    for (const [i, content] of functions.entries()) {
      const about = { turn, call_id: `m${seq}`, seq: next() };
      trace.add('environment.observed', [seq, i], { ...about, kind: 'output', content });
    }
  }
  for (const [i, text] of (iteration.list('communications') ?? []).entries())
    addMessages(trace, text, turn, `${turn}.${i}`, next);
  iteration.any('communications');
  const summary = iteration.any('summary');
  if (summary !== undefined) trace.decided(next(), 'plan', { summary }, { turn });
  const goesOn = iteration.any('continue_simulation');
  if (isBoolean(goesOn)) trace.decided(next(), goesOn ? 'continue' : 'stop', { continue_simulation: goesOn }, { turn });
  iteration.any('iteration');
  const unmapped = iteration.rest();
  if (unmapped) trace.observed(next(), 'iteration', { turn, unmapped });
}

const FUNCTION = 'Result from the function:';

/** The output of the model, and then of the functions it called. */
function partsOf(text: string): { readonly model: string; readonly functions: readonly string[] } {
  const [output = '', ...functions] = text.split(FUNCTION);
  const model = output.replace(/^Result from the model:/, '');
  return { model: model.endsWith('\n') ? model.slice(0, -1) : model, functions };
}

/** A chat as one text: "In Session <id> \nFrom a to b: …", each message to the next "From". */
function addMessages(trace: Trace, text: unknown, turn: number, id: string, next: () => number): void {
  const whole = typeof text === 'string' ? text : canonicalJson(text);
  const session = /^In Session (\S+)\s*\n?/.exec(whole);
  const parts = whole.slice(session?.[0].length ?? 0).split(/^(?=From .{1,200}? to .{1,200}?: )/m);
  for (const [i, part] of parts.filter((one) => one.trim() !== '').entries()) {
    const [, from, to, said] = /^From (.{1,200}?) to (.{1,200}?): ([\s\S]*)$/.exec(part) ?? [];
    const seq = next();
    trace.add('message.sent', [seq], {
      seq,
      turn,
      message_id: `c${id}.${i}`,
      from,
      to: to === undefined ? undefined : [to],
      content: (said ?? part).replace(/\n$/, ''),
      channel: session?.[1],
    });
  }
}

/** All that was scored, in one list; −1 stands for no score. */
function scoresOf(row: Reader): Native[] {
  const listed = (name: string, scores: unknown): Native[] =>
    (Array.isArray(scores) ? scores : []).flatMap((value, turn) =>
      typeof value === 'number' && value !== -1 ? [{ name, turn, value }] : [],
    );
  const task = row.any('task_evaluation');
  const ofTask =
    typeof task === 'number' ? [{ name: 'task', value: task }] : isRecord(task) ? ratings(task, 'task') : [];
  const talk = listed('communication', row.any('communication_scores'));
  return [...listed('planning', row.any('planning_scores')), ...talk, ...ofTask];
}

/** The leaves of a rating, which may be by aspect or by buyer and seller. */
const ratings = (rated: Native, name: string): Native[] =>
  Object.entries(rated).flatMap(([aspect, value]) =>
    isRecord(value)
      ? ratings(value, `${name}.${aspect}`)
      : value === -1 || value === null
        ? []
        : [{ name: `${name}.${aspect}`, value }],
  );

const isConfig = (row: Native): boolean =>
  Array.isArray(row.agents) &&
  isRecord(row.task) &&
  'content' in row.task &&
  ('coordinate_mode' in row || 'relationships' in row);

/** The configuration of a task: the task and the team that is to do it. */
function convertConfig(row: Reader, { canonical }: NativeRecord): Conversion {
  const native = row.object('task', 'the task as an object');
  const content = native.any('content');
  const output = native.any('output_format');
  const domain = row.text('scenario');
  row.any('scenario');
  const members = row.list('agents', 'a list of agents').filter(isRecord);
  const relations = row.any('relationships');
  const tags = row.these('task_id');
  const constraints = output === undefined ? undefined : { output_format: output };
  const task = taskOf(NAME, content, { domain, constraints, tags, unmapped: row.rest() });
  if (!task) return unreadable('bad_type', 'task.content', 'the text of the task', content);
  const edges = (Array.isArray(relations) ? relations : []).flatMap((edge) =>
    Array.isArray(edge) && edge.length >= 2 && edge.every((end) => typeof end === 'string') ? [edge as string[]] : [],
  );
  const hash = hashId(NAME, members, edges);
  const agents = members.map(({ agent_id: name, ...more }) => ({ name, ...more }));
  const team = { team_id: `${NAME}/${hash}`, name: NAME, content_hash: hash, agents, edges };
  return {
    drafts: [emit.state('task.defined', task), emit.state('team.defined', team)],
    refusals: [],
    raw: canonical,
  };
}
