/**
 * Results of tau2-bench (sierra-research/tau2-bench, src/tau2/data_model/simulation.py at 143a213f, message.py at 2e2a017b): one document
 * {info, tasks, simulations}, or results.json with an index and a file for each simulation. A simulation is an episode between an agent and
 * a simulated user, which may have tools of its own. Its times have no zone and stay unknown.
 */
import type { Draft } from '../../events/events.ts';
import { canonicalJson, hashId, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import {
  type Conversion,
  type Format,
  type Head,
  listsOf,
  type NativeRecord,
  type NativeRefusal,
} from '../kit/format.ts';
import { refusal, refused, revisedEmitter } from '../kit/native.ts';
import { isWhole, Reader } from '../kit/reader.ts';
import { Trace } from '../kit/trace.ts';
import { AGENT, addMessages, badMessages, type Native } from './tau2-bench-messages.ts';

const NAME = 'tau2-bench';
const emit = revisedEmitter(NAME);

const isResults = (record: unknown): record is Native =>
  isRecord(record) &&
  isRecord(record.info) &&
  'environment_info' in record.info &&
  'num_trials' in record.info &&
  Array.isArray(record.tasks);

export const isSimulation = (record: unknown): record is Native =>
  isRecord(record) &&
  'termination_reason' in record &&
  'task_id' in record &&
  ('messages' in record || 'ticks' in record);

const isComplete = (record: unknown): boolean => isResults(record) && Array.isArray(record.simulations);

export const tau2Bench: Format = {
  name: NAME,
  summary: 'tau2-bench results {info, tasks, simulations}, or results.json and a file for each simulation',
  recognises: ({ records }) => records.some((record) => isResults(record) || isSimulation(record)),
  gathers: ({ records }: Head) => (records.every(isComplete) ? null : `import:${NAME}`),
  convert,
  restates: ['task.defined', 'team.defined'],
};

function convert(record: NativeRecord): Conversion {
  const records = isComplete(record.value) ? [record.value] : listsOf(record.value).flat();
  const refusals: NativeRefusal[] = [];
  const results: Native[] = [];
  const found: { readonly sim: Native; readonly place: string; readonly at: number; readonly of: Native | null }[] = [];
  const alone: { readonly sim: Native; readonly at: number }[] = [];
  for (const [at, one] of records.entries()) {
    if (isResults(one)) {
      results.push(one);
      const sims = Array.isArray(one.simulations) ? (one.simulations as unknown[]) : [];
      for (const [i, sim] of sims.entries()) {
        const place = `simulations[${i}]`;
        if (isSimulation(sim)) found.push({ sim, place, at, of: one });
        else refusals.push({ ...refusal('bad_shape', place, 'a simulation with its task and how it ended', sim), at });
      }
    } else if (isSimulation(one)) alone.push({ sim: one, at });
    else refusals.push({ ...refusal('bad_shape', '', 'results {info, tasks, simulations} or a simulation', one), at });
  }
  const indexed = new Map(results.flatMap((one) => indexOf(one).map((id) => [id, one] as const)));
  const headers = results.filter((one) => !isComplete(one));
  // Before results had an index, only the folder showed which results a simulation belongs to.
  const only = headers.length === 1 && indexOf(headers[0]!).length === 0 ? headers[0]! : null;
  for (const { sim, at } of alone) found.push({ sim, at, place: '', of: indexed.get(sim.id as string) ?? only });
  const there = new Set(alone.map(({ sim }) => sim.id));
  for (const [id, one] of indexed)
    if (!there.has(id) && !isComplete(one))
      refusals.push(refusal('bad_reference', 'simulation_index', `the file simulations/${id}.json`, undefined));
  if (found.length === 0 && refusals.length === 0)
    return refused(refusal('bad_shape', 'simulations', 'at least one simulation', records));
  const bodies: string[] = [];
  const drafts = found.flatMap(({ sim, place, at, of }): Draft[] => {
    const bad = badMessages(sim.messages, place === '' ? 'messages' : `${place}.messages`, sim.ticks);
    if (bad) {
      refusals.push({ ...bad, at });
      return [];
    }
    const canonical = canonicalJson(sim);
    bodies.push(canonical);
    return simulationDrafts(new Reader(sim), of, canonical);
  });
  return { drafts, refusals, raw: null, bodies, repeated: record.ordinal > 0 };
}

const indexOf = ({ simulation_index: index }: Native): string[] =>
  Array.isArray(index) ? index.flatMap((one) => (isRecord(one) && isIdentifier(one.id) ? [one.id] : [])) : [];

/** Runs that failed before they could be judged; the benchmark counts them in none of its rates. */
const NOT_JUDGED: ReadonlySet<unknown> = new Set(['infrastructure_error', 'context_window_exceeded']);
const BROKEN: ReadonlySet<unknown> = new Set([...NOT_JUDGED, 'unexpected_error', 'agent_error', 'user_error']);

function simulationDrafts(sim: Reader, results: Native | null, canonical: string): Draft[] {
  const id = sim.any('id');
  const episodeId = isIdentifier(id) ? id : hashId(NAME, canonical);
  const reason = sim.any('termination_reason');
  const nativeTask = sim.these('task_id');
  const info = new Reader(isRecord(results?.info) ? results.info : {});
  const domain = info.object('environment_info')?.any('domain_name');
  const task = results && isIdentifier(domain) ? taskOf(results, domain, nativeTask?.task_id) : null;
  const team = results ? teamOf(info.native) : null;
  const rewarded = sim.any('reward_info');
  const rewards = isRecord(rewarded) && !NOT_JUDGED.has(reason) ? new Reader(rewarded) : null;
  const reward = rewards?.number('reward') ?? null;
  const agent = info.object('agent_info');
  const messages = sim.list('messages', 'a list of messages') as readonly Native[];
  const trace = Trace.revised(NAME, { value: null, canonical, ordinal: 0 }, episodeId);
  trace.member(AGENT);
  addMessages(trace, messages, agent?.text('llm'), agent?.object('llm_args')?.native);
  if (rewards) addRewards(trace, rewards, reward);
  const attempt = sim.any('trial');
  const tags = { ...nativeTask, domain, ...sim.these('seed', 'mode', 'start_time', 'end_time') };
  const costs = { ...sim.these('agent_cost', 'user_cost'), duration_s: sim.any('duration') };
  const run = trace.finish({
    task,
    incomplete: messages.length === 0,
    started: {
      team_id: team?.team_id,
      native: { format: NAME, ids: nativeTask ?? {} },
      group_id: task && team ? hashId(NAME, task.task_id, team.team_id) : undefined,
      attempt: isWhole(attempt) && attempt >= 0 ? attempt : undefined,
      tags,
    },
    finished: {
      outcome: BROKEN.has(reason) ? 'error' : reward === null ? 'unknown' : reward >= 1 ? 'success' : 'failure',
      stop_reason: typeof reason === 'string' ? reason : undefined,
      totals: without(costs),
      unmapped: sim.rest(),
    },
  });
  return [...(team ? [emit.state('team.defined', team)] : []), ...run.drafts];
}

function taskOf(results: Native, domain: string, id: unknown) {
  const native = (results.tasks as unknown[]).find((one) => isRecord(one) && one.id === id);
  if (!isRecord(native) || !isIdentifier(id)) return null;
  const task = new Reader(native);
  task.any('id');
  const { instructions } = isRecord(native.user_scenario) ? native.user_scenario : {};
  return {
    task_id: `${NAME}/${domain}/${id}`,
    source: NAME,
    query:
      instructions == null || typeof instructions === 'string'
        ? (instructions ?? undefined)
        : canonicalJson(instructions),
    reference: task.any('evaluation_criteria'),
    tags: { domain, task_id: id },
    unmapped: task.rest(),
  };
}

/** Who plays: the agent with its model and the rules of the domain, and the simulated user. */
function teamOf({ agent_info: agent, user_info: user, environment_info: environment }: Native) {
  const policy = isRecord(environment) ? environment.policy : undefined;
  const hash = hashId(NAME, agent ?? null, user ?? null, policy ?? null);
  return {
    team_id: `${NAME}/${hash}`,
    name: isRecord(agent) && isIdentifier(agent.implementation) ? agent.implementation : NAME,
    content_hash: hash,
    agents: [{ name: AGENT, ...(isRecord(agent) ? agent : {}) }],
    unmapped: without({ user, policy }) ?? {},
  };
}

function addRewards(trace: Trace, rewards: Reader, reward: number | null): void {
  const parts = rewards.any('reward_breakdown');
  const add = (kind: 'reward' | 'score', name: string, value: number, unmapped?: Record<string, unknown>): void =>
    trace.feedback([kind, name], { kind, name, value, by: 'env', unmapped });
  if (reward !== null) add('reward', 'reward', reward, rewards.rest());
  for (const [part, value] of Object.entries(isRecord(parts) ? parts : {}))
    if (typeof value === 'number' && isIdentifier(part)) add('score', part, value);
}
