/**
 * Results of tau2-bench (sierra-research/tau2-bench, src/tau2/data_model/simulation.py at 143a213f, message.py at 2e2a017b): one document
 * {info, tasks, simulations}, or results.json with an index and a file for each simulation. A simulation is an episode between an agent and
 * a simulated user, which may have tools of its own. Its times have no zone and stay unknown.
 */
import type { Draft, EventData } from '../../events/events.ts';
import { canonicalJson, given, hashId, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import {
  type Converted,
  type Format,
  type Head,
  listsOf,
  type NativeRecord,
  type NativeRefusal,
} from '../kit/format.ts';
import { refusal, refused, revisedEmitter } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts } from '../kit/run.ts';
import { AGENT, badMessages, type Fields, messageDrafts } from './tau2-bench-messages.ts';

const NAME = 'tau2-bench';
const emit = revisedEmitter(NAME);

const isResults = (record: unknown): record is Fields =>
  isRecord(record) &&
  isRecord(record.info) &&
  'environment_info' in record.info &&
  'num_trials' in record.info &&
  Array.isArray(record.tasks);

export const isSimulation = (record: unknown): record is Fields =>
  isRecord(record) &&
  'termination_reason' in record &&
  'task_id' in record &&
  ('messages' in record || 'ticks' in record);

const isWhole = (record: unknown): boolean => isResults(record) && Array.isArray(record.simulations);

export const tau2Bench: Format = {
  name: NAME,
  summary: 'tau2-bench results {info, tasks, simulations}, or results.json and a file for each simulation',
  recognises: ({ records }) => records.some((record) => isResults(record) || isSimulation(record)),
  gathers: ({ records }: Head) => (records.every(isWhole) ? null : `import:${NAME}`),
  convert,
  restates: new Set(['task.defined', 'team.defined']),
};

function convert(record: NativeRecord): Converted {
  const records = isWhole(record.value) ? [record.value] : listsOf(record.value).flat();
  const refusals: NativeRefusal[] = [];
  const results: Fields[] = [];
  const found: { readonly sim: Fields; readonly place: string; readonly at: number; readonly of: Fields | null }[] = [];
  const alone: { readonly sim: Fields; readonly at: number }[] = [];
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
  const headers = results.filter((one) => !isWhole(one));
  // Before results had an index, only the folder showed which results a simulation belongs to.
  const only = headers.length === 1 && indexOf(headers[0]!).length === 0 ? headers[0]! : null;
  for (const { sim, at } of alone) found.push({ sim, at, place: '', of: indexed.get(sim.id as string) ?? only });
  const there = new Set(alone.map(({ sim }) => sim.id));
  for (const [id, one] of indexed)
    if (!there.has(id) && !isWhole(one))
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
    return simulationDrafts(sim, of, canonical);
  });
  return { drafts, refusals, raw: null, bodies, repeated: record.ordinal > 0 };
}

const indexOf = ({ simulation_index: index }: Fields): string[] =>
  Array.isArray(index) ? index.flatMap((one) => (isRecord(one) && isIdentifier(one.id) ? [one.id] : [])) : [];

/** Runs that failed before they could be judged; the benchmark counts them in none of its rates. */
const NOT_JUDGED: ReadonlySet<unknown> = new Set(['infrastructure_error', 'context_window_exceeded']);
const BROKEN: ReadonlySet<unknown> = new Set([...NOT_JUDGED, 'unexpected_error', 'agent_error', 'user_error']);

function simulationDrafts(sim: Fields, results: Fields | null, canonical: string): Draft[] {
  const { id, trial, termination_reason: reason, reward_info: rewarded } = sim;
  const episodeId = isIdentifier(id) ? id : hashId(NAME, canonical);
  const info = (results?.info ?? {}) as Fields;
  const domain = isRecord(info.environment_info) ? info.environment_info.domain_name : undefined;
  const task = results && isIdentifier(domain) ? taskOf(results, domain, sim.task_id) : null;
  const team = results ? teamOf(info) : null;
  const rewards = isRecord(rewarded) && !NOT_JUDGED.has(reason) ? rewarded : null;
  const reward = typeof rewards?.reward === 'number' ? rewards.reward : null;
  const agentInfo = isRecord(info.agent_info) ? info.agent_info : {};
  const messages = messageDrafts(emit, sim.messages as readonly Fields[], {
    episodeId,
    ...given('model', typeof agentInfo.llm === 'string' ? agentInfo.llm : undefined),
    ...given('params', isRecord(agentInfo.llm_args) ? agentInfo.llm_args : undefined),
  });
  return [
    ...(team ? [emit.state('team.defined', team)] : []),
    ...runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical,
      task,
      started: {
        flags: [NO_TOKEN_IDS, ...((sim.messages as unknown[]).length === 0 ? ['incomplete'] : [])],
        native: { format: NAME, ids: given('task_id', sim.task_id) },
        ...(team ? { team_id: team.team_id } : {}),
        ...(task && team ? { group_id: hashId(NAME, task.task_id, team.team_id) } : {}),
        ...(Number.isSafeInteger(trial) && (trial as number) >= 0 ? { attempt: trial as number } : {}),
        tags: without({
          task_id: sim.task_id,
          ...given('domain', domain),
          ...given('seed', sim.seed ?? undefined),
          ...given('mode', sim.mode ?? undefined),
          ...given('start_time', sim.start_time ?? undefined),
          ...given('end_time', sim.end_time ?? undefined),
        })!,
      },
      agents: [AGENT, ...(usesTools(sim) ? ['user'] : [])],
      events: [...messages, ...(rewards ? rewardDrafts(episodeId, rewards, reward) : [])],
      finished: {
        outcome: BROKEN.has(reason) ? 'error' : reward === null ? 'unknown' : reward >= 1 ? 'success' : 'failure',
        ...(typeof reason === 'string' ? { stop_reason: reason } : {}),
        ...given('totals', without({ ...costs(sim), duration_s: sim.duration ?? undefined })),
        ...given('unmapped', without(sim, ...READ)),
      },
    }),
  ];
}

const READ = [
  'id',
  'task_id',
  'trial',
  'seed',
  'mode',
  'start_time',
  'end_time',
  'duration',
  'messages',
  'reward_info',
];
READ.push('termination_reason', 'agent_cost', 'user_cost');

const costs = ({ agent_cost: agent, user_cost: user }: Fields) => ({
  ...given('agent_cost', agent ?? undefined),
  ...given('user_cost', user ?? undefined),
});

const usesTools = ({ messages }: Fields): boolean =>
  (messages as readonly Fields[]).some(({ role, tool_calls: calls }) => role === 'user' && Array.isArray(calls));

function taskOf(results: Fields, domain: string, id: unknown): EventData<'task.defined'> | null {
  const native = (results.tasks as unknown[]).find((one) => isRecord(one) && one.id === id);
  if (!isRecord(native) || !isIdentifier(id)) return null;
  const scenario = isRecord(native.user_scenario) ? native.user_scenario : {};
  const { instructions } = scenario;
  return {
    task_id: `${NAME}/${domain}/${id}`,
    source: NAME,
    ...(instructions === undefined || instructions === null
      ? {}
      : { query: typeof instructions === 'string' ? instructions : canonicalJson(instructions) }),
    ...given('reference', native.evaluation_criteria ?? undefined),
    tags: { domain, task_id: id },
    ...given('unmapped', without(native, 'id', 'evaluation_criteria')),
  };
}

/** Who plays: the agent with its model and the rules of the domain, and the simulated user. */
function teamOf({
  agent_info: agent,
  user_info: user,
  environment_info: environment,
}: Fields): EventData<'team.defined'> {
  const policy = isRecord(environment) ? environment.policy : undefined;
  const hash = hashId(NAME, agent ?? null, user ?? null, policy ?? null);
  return {
    team_id: `${NAME}/${hash}`,
    name: isRecord(agent) && isIdentifier(agent.implementation) ? agent.implementation : NAME,
    content_hash: hash,
    agents: [{ name: AGENT, ...(isRecord(agent) ? agent : {}) }],
    unmapped: without({ ...given('user', user), ...given('policy', policy) }) ?? {},
  };
}

function rewardDrafts(episodeId: string, rewards: Fields, reward: number | null): Draft[] {
  const of = (kind: 'reward' | 'score', name: string, value: number, unmapped?: Fields): Draft =>
    emit.event('feedback.recorded', [episodeId, kind, name], {
      feedback_id: hashId(NAME, episodeId, kind, name),
      target: { kind: 'episode', id: episodeId, episode_id: episodeId },
      kind,
      name,
      value,
      by: 'env',
      ...given('unmapped', unmapped as Record<string, unknown> | undefined),
    });
  const parts = isRecord(rewards.reward_breakdown) ? Object.entries(rewards.reward_breakdown) : [];
  return [
    ...(reward === null ? [] : [of('reward', 'reward', reward, without(rewards, 'reward', 'reward_breakdown'))]),
    ...parts.flatMap(([part, value]) =>
      typeof value === 'number' && isIdentifier(part) ? [of('score', part, value)] : [],
    ),
  ];
}
