/**
 * Rollouts of prime-rl and runs of verifiers: an episode {id, env, task, traces} or a trace {id, task, agent, nodes} a line, read from
 * PrimeIntellect-ai/verifiers 0.4.0 (verifiers/v1/episode.py, trace.py, graph.py), which PrimeIntellect-ai/prime-rl at 559b4477 dumps
 * (src/prime_rl/monitors/file.py). A trace is a graph of messages; each holds the tokens that it adds to what is before it.
 */
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { refusal, refused } from '../kit/native.ts';
import { chatMessages, isTokenIds } from '../kit/rollout-calls.ts';
import { taskOf, timeOfSeconds } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import { convertResult, isResult } from './verifiers-results.ts';

const NAME = 'prime-rl';

const isTrace = (record: unknown): record is JsonObject =>
  isRecord(record) && Array.isArray(record.nodes) && isRecord(record.task) && isRecord(record.agent);

const isEpisode = (record: unknown): record is JsonObject =>
  isRecord(record) && isRecord(record.task) && Array.isArray(record.traces) && 'ok' in record;

export const primeRl: Format = {
  name: NAME,
  summary: 'prime-rl rollouts and verifiers runs: {id, env, task, traces: [{agent, nodes, calls, rewards}]}',
  recognises: ({ records }) => records.some((record) => isEpisode(record) || isTrace(record) || isResult(record)),
  convert,
};

type Member = { readonly trace: JsonObject; readonly name: string; readonly agentId: string; readonly place: string };

function convert(record: NativeRecord): Conversion {
  const { value } = record;
  if (isResult(value)) return convertResult(NAME, record);
  if (!isEpisode(value) && !isTrace(value))
    return refused(refusal('bad_shape', 'traces', 'an episode {task, traces} or a trace {task, agent, nodes}', value));
  const refusals: NativeRefusal[] = [];
  const members: Member[] = [];
  const names = new Map<string, number>();
  const traces: readonly unknown[] = isEpisode(value) ? (value.traces as unknown[]) : [value];
  for (const [i, trace] of traces.entries()) {
    const place = isEpisode(value) ? `traces[${i}].` : '';
    if (!isTrace(trace)) {
      refusals.push(refusal('bad_shape', `traces[${i}]`, 'a trace {task, agent, nodes}', trace));
      continue;
    }
    const given = (trace.agent as JsonObject).name;
    const name = isIdentifier(given) ? given : 'agent';
    const number = (names.get(name) ?? 0) + 1;
    names.set(name, number);
    members.push({ trace, name, agentId: number === 1 ? name : `${name}#${number}`, place });
  }
  const named = isIdentifier(value.id);
  const trace = Trace.revised(NAME, record, named ? (value.id as string) : undefined);
  for (const member of members) addTrace(trace, member, versionOf(value), refusals);
  for (const member of members) addJudgements(trace, member, members.length === 1);
  return { ...trace.finish(runOf(value, members), refusals), repeated: named && record.ordinal > 0 };
}

/** The version of the policy, where one made the whole episode. */
function versionOf({ run }: JsonObject): string | undefined {
  const work = isRecord(run) && isRecord(run.work) ? run.work : {};
  const { start, end } = isRecord(work.policy) ? work.policy : {};
  return Number.isSafeInteger(start) && start === end ? asText(start) : undefined;
}

function runOf(whole: JsonObject, members: readonly Member[]) {
  const { env, group, run, timing } = whole;
  const task = whole.task as JsonObject;
  const data = isRecord(task.data) ? task.data : {};
  const envName = isRecord(env) ? [env.id, env.name].find((one) => isIdentifier(one)) : undefined;
  const key = [task.key, task.hash].find(isIdentifier);
  const prompt = typeof data.prompt === 'string' ? data.prompt : askedIn(data.prompt);
  const faults = [whole, ...members.map(({ trace }) => trace)].flatMap(({ errors: some }) =>
    Array.isArray(some) ? some.filter(isRecord) : [],
  );
  const stops = members.map(({ trace }) => trace.stop_condition).filter((one) => typeof one === 'string');
  const started = [timing, members[0]?.trace.timing].find(isRecord);
  return {
    task: taskOf(
      NAME,
      prompt,
      {
        ground_truth: data.answer ?? undefined,
        tags: { ...given('env', envName), ...given('type', task.type), data: without(data, 'prompt') ?? {} },
      },
      key === undefined ? undefined : `${envName ?? NAME}/${key}`,
    ),
    started: {
      group_id: isRecord(group) && isIdentifier(group.id) ? group.id : undefined,
      session_id: isRecord(run) && isIdentifier(run.id) ? run.id : undefined,
      tags: without({ run: run ?? undefined, env: envName }),
    },
    startedAt: timeOfSeconds(started?.start),
    agents: members.map(({ agentId, name, trace: { tools } }) => ({
      ...{ agent_id: agentId, name, role: name },
      tools: Array.isArray(tools) && tools.length > 0 ? tools : undefined,
    })),
    finished: {
      outcome: whole.ok === false && faults.length > 0 ? 'error' : 'unknown',
      stop_reason: stops.length > 0 ? [...new Set(stops)].join(', ') : undefined,
      unmapped: faults.length > 0 ? { errors: faults } : undefined,
    } as const,
  };
}

const askedIn = (messages: unknown): string | null => {
  const asked = Array.isArray(messages) ? messages.find((one) => isRecord(one) && one.role === 'user') : null;
  return isRecord(asked) && typeof asked.content === 'string' ? asked.content : null;
};

/** Rewards that were given and metrics; a reward that is null was never computed. */
function addJudgements(trace: Trace, { trace: native, agentId }: Member, alone: boolean): void {
  const rewards = Object.entries(isRecord(native.rewards) ? native.rewards : {}).flatMap(([name, one]) =>
    isRecord(one) && typeof one.score === 'number' && isIdentifier(name)
      ? [{ name, score: one.score, weight: typeof one.weight === 'number' ? one.weight : 1 }]
      : [],
  );
  const sum = rewards.reduce((all, { score, weight }) => all + score * weight, 0);
  if (rewards.length > 0) trace.judged('reward', 'reward', sum, agentId);
  if (rewards.length > 0 && alone) trace.judged('reward', 'reward', sum);
  for (const { name, score, weight } of rewards) trace.judged('score', name, score, agentId, { weight });
  for (const [name, value] of Object.entries(isRecord(native.metrics) ? native.metrics : {}))
    if (typeof value === 'number' && isIdentifier(name)) trace.judged('score', name, value, agentId);
}

type Node = { readonly native: JsonObject; readonly message: ChatMessage; readonly parent: number | null };

function addTrace(
  trace: Trace,
  { trace: native, agentId, place }: Member,
  version: string | undefined,
  refusals: NativeRefusal[],
): void {
  const nodes = nodesOf(native.nodes as unknown[], place, refusals);
  const calls = (Array.isArray(native.calls) ? native.calls : []).filter(isRecord);
  const byNode = new Map(calls.filter(({ node }) => Number.isSafeInteger(node)).map((call) => [call.node, call]));
  const traceId = isIdentifier(native.id) ? native.id : agentId;
  let turn = 0;
  for (const [i, node] of nodes.entries()) {
    if (node?.native.sampled !== true) continue;
    const path = pathTo(nodes, node.parent);
    const call = byNode.get(i) ?? {};
    const own = splitTokens(node.native);
    const before = path?.map((one) => one.native.token_ids);
    const { logprobs, advantages, reference_logprobs, timestamp, parent } = node.native;
    trace.rollout({
      ...{ callId: `${traceId}/${i}`, agentId, turn: turn++ },
      input: path?.map(({ message }) => message) ?? [],
      answer: node.message,
      finish: call.finish_reason,
      sampled: {
        prompt: before?.every(isTokenIds) ? [...before.flat(), ...own.scaffold] : undefined,
        ...{ ids: own.ids, logprobs, mask: own.mask },
      },
      ...aboutCall(call, version),
      unmapped: without({
        advantages: advantages ?? undefined,
        reference_logprobs: reference_logprobs ?? undefined,
        ...(path ? {} : { parent }),
      }),
      ...(isRecord(call.time) ? {} : { completedAt: timeOfSeconds(timestamp) }),
    });
  }
  for (const [i, call] of calls.filter(({ node, error }) => node == null && isRecord(error)).entries())
    trace.rollout({
      ...{ callId: `${traceId}/failed/${i}`, agentId, turn: turn++, input: [], answer: null },
      ...aboutCall(call, version),
    });
  const parents = new Set(nodes.map((node) => node?.parent));
  for (const [i, node] of nodes.entries()) {
    const path = node && !parents.has(i) && node.message.role === 'tool' ? pathTo(nodes, i) : null;
    const messages = path?.map(({ message }) => message);
    if (messages) trace.lastResults({ callId: `${traceId}/${i}`, agentId, turn }, messages);
  }
}

/** What the program noted of a call beside its message. */
function aboutCall(call: JsonObject, version: string | undefined) {
  const { model, sampling, usage, error, time } = call;
  const span = isRecord(time) ? time : {};
  const params = isRecord(sampling) ? without(nonNull(sampling)) : undefined;
  return {
    asked: { ...(typeof model === 'string' ? { model } : {}), ...given('params', params) },
    completed: {
      ...(typeof model === 'string' ? { response_model: model } : {}),
      // `prompt_tokens` are without those from the cache.
      ...given('usage', usageOf(usage, 'beside')),
      ...given('model_version', version),
      ...given('error', error ?? undefined),
    },
    askedAt: timeOfSeconds(span.start || null),
    completedAt: timeOfSeconds(span.end || null),
  };
}

const nonNull = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));

/** The messages of a trace; one that is none is refused, and what hangs on it has no known beginning. */
function nodesOf(nodes: readonly unknown[], place: string, refusals: NativeRefusal[]): (Node | null)[] {
  return nodes.map((native, i) => {
    const field = `${place}nodes[${i}]`;
    if (!isRecord(native)) {
      refusals.push(refusal('bad_type', field, 'a node {parent, message}', native));
      return null;
    }
    const read = chatMessages([native.message], `${field}.message`);
    if ('refusal' in read) {
      refusals.push(read.refusal);
      return null;
    }
    const parent = native.parent ?? null;
    // What is no number leads to no node.
    const to = parent === null || typeof parent === 'number' ? parent : Number.NaN;
    return { native, message: without(nonNull(read.messages[0]!)) as ChatMessage, parent: to };
  });
}

/** From the first message to the node; null where a message on the way is not there or the way never ends. */
function pathTo(nodes: readonly (Node | null)[], end: number | null): Node[] | null {
  const path: Node[] = [];
  for (let at = end; at !== null; ) {
    const node = nodes[at];
    if (!node || path.length > nodes.length) return null;
    path.push(node);
    at = node.parent;
  }
  return path.reverse();
}

/** The template before the first token that was sampled belongs to the prompt. */
function splitTokens({ token_ids: ids, mask }: JsonObject): {
  readonly scaffold: readonly number[];
  readonly ids?: readonly number[];
  readonly mask?: readonly (0 | 1)[];
} {
  if (!isTokenIds(ids) || !Array.isArray(mask) || mask.length !== ids.length) return { scaffold: [] };
  const from = mask.indexOf(true);
  if (from < 0) return { scaffold: [] };
  return {
    scaffold: ids.slice(0, from),
    ids: ids.slice(from),
    mask: mask.slice(from).map((one) => (one === true ? 1 : 0)),
  };
}
