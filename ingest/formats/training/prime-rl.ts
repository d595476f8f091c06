/**
 * Rollouts of prime-rl and runs of verifiers: an episode {id, env, task, traces} or a trace {id, task, agent, nodes} a line, read from
 * PrimeIntellect-ai/verifiers 0.4.0 (verifiers/v1/episode.py, trace.py, graph.py), which PrimeIntellect-ai/prime-rl at 559b4477 dumps
 * (src/prime_rl/monitors/file.py). A trace is a graph of messages; each holds the tokens that it adds to what is before it.
 */
import type { Draft } from '../../events/events.ts';
import { asText, given, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { refusal, refused, revisedEmitter } from '../kit/native.ts';
import { chatMessages, distinct, isTokenIds, lastResultDrafts, rolloutCallDrafts } from '../kit/rollout-calls.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf, timeOfSeconds } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';
import { isResult, resultDrafts } from './verifiers-results.ts';

const NAME = 'prime-rl';
const emit = revisedEmitter(NAME);

const isTrace = (record: unknown): record is JsonObject =>
  isRecord(record) && Array.isArray(record.nodes) && isRecord(record.task) && isRecord(record.agent);

const isEpisode = (record: unknown): record is JsonObject =>
  isRecord(record) && isRecord(record.task) && Array.isArray(record.traces) && 'ok' in record;

export const primeRl: Format = {
  name: NAME,
  summary: 'prime-rl rollouts and verifiers runs: {id, env, task, traces: [{agent, nodes, calls, rewards}]}',
  recognises: ({ records }) => records.some((record) => isEpisode(record) || isTrace(record) || isResult(record)),
  convert,
  restates: new Set(['task.defined']),
};

type Member = { readonly trace: JsonObject; readonly name: string; readonly agentId: string; readonly place: string };

function convert(record: NativeRecord): Conversion {
  const { value } = record;
  if (isResult(value)) return resultDrafts(emit, NAME, record);
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
  const episodeId = named ? (value.id as string) : hashId(NAME, record.canonical, record.ordinal);
  const version = versionOf(value);
  const calls = members.flatMap((member) => traceDrafts(episodeId, member, version, refusals));
  const drafts = episodeDrafts(episodeId, record, value, members, calls, refusals.length > 0);
  return { drafts, refusals, raw: record.canonical, repeated: named && record.ordinal > 0 };
}

/** The version of the policy, where one made the whole episode. */
function versionOf({ run }: JsonObject): string | undefined {
  const work = isRecord(run) && isRecord(run.work) ? run.work : {};
  const { start, end } = isRecord(work.policy) ? work.policy : {};
  return Number.isSafeInteger(start) && start === end ? asText(start) : undefined;
}

function episodeDrafts(
  episodeId: string,
  record: NativeRecord,
  whole: JsonObject,
  members: readonly Member[],
  calls: readonly Draft[],
  incomplete: boolean,
): Draft[] {
  const { env, group, run, timing } = whole;
  const task = whole.task as JsonObject;
  const data = isRecord(task.data) ? task.data : {};
  const envName = isRecord(env) ? [env.id, env.name].find((one) => isIdentifier(one)) : undefined;
  const key = [task.key, task.hash].find(isIdentifier);
  const prompt = typeof data.prompt === 'string' ? data.prompt : askedIn(data.prompt);
  const hasTokens = calls.some(
    ({ name, data: event }) =>
      name === 'generation.completed' && (event as { choices: JsonObject[] }).choices.some(({ token_ids: ids }) => ids),
  );
  const faults = [whole, ...members.map(({ trace }) => trace)].flatMap(({ errors: some }) =>
    Array.isArray(some) ? some.filter(isRecord) : [],
  );
  const failed = whole.ok === false && faults.length > 0;
  const stops = members.map(({ trace }) => trace.stop_condition).filter((one) => typeof one === 'string');
  const started = [timing, members[0]?.trace.timing].find(isRecord);
  return runDrafts(emit, {
    format: NAME,
    episodeId,
    canonical: record.canonical,
    task: taskOf(
      NAME,
      prompt,
      {
        ...given('ground_truth', data.answer ?? undefined),
        tags: { ...given('env', envName), ...given('type', task.type), data: without(data, 'prompt') ?? {} },
      },
      key === undefined ? undefined : `${envName ?? NAME}/${key}`,
    ),
    started: {
      flags: [...(hasTokens ? [] : [NO_TOKEN_IDS]), ...(incomplete ? ['incomplete'] : [])],
      ...(isRecord(group) && isIdentifier(group.id) ? { group_id: group.id } : {}),
      ...(isRecord(run) && isIdentifier(run.id) ? { session_id: run.id } : {}),
      ...given('tags', without({ ...given('run', run ?? undefined), ...given('env', envName) })),
    },
    startedAt: timeOfSeconds(started?.start),
    agents: members.map(({ agentId, name, trace }) => ({
      agent_id: agentId,
      name,
      role: name,
      ...given('tools', Array.isArray(trace.tools) && trace.tools.length > 0 ? trace.tools : undefined),
    })),
    events: [...calls, ...members.flatMap((member) => judgements(episodeId, member, members.length === 1))],
    finished: {
      outcome: failed ? 'error' : 'unknown',
      ...(stops.length > 0 ? { stop_reason: [...new Set(stops)].join(', ') } : {}),
      ...given('unmapped', faults.length > 0 ? { errors: faults } : undefined),
    },
  });
}

const askedIn = (messages: unknown): string | null => {
  const asked = Array.isArray(messages) ? messages.find((one) => isRecord(one) && one.role === 'user') : null;
  return isRecord(asked) && typeof asked.content === 'string' ? asked.content : null;
};

/** Rewards that were given and metrics; a reward that is null was never computed. */
function judgements(episodeId: string, { trace, agentId }: Member, alone: boolean): Draft[] {
  const feedback = (
    kind: 'reward' | 'score',
    name: string,
    value: number,
    target: { readonly kind: 'agent' | 'episode'; readonly id: string },
    unmapped?: Record<string, unknown>,
  ): Draft =>
    emit.event('feedback.recorded', [episodeId, kind, name, target.kind, target.id], {
      feedback_id: hashId(NAME, episodeId, kind, name, target.kind, target.id),
      target: { ...target, episode_id: episodeId },
      kind,
      name,
      value,
      by: 'env',
      ...given('unmapped', unmapped),
    });
  const own = { kind: 'agent' as const, id: agentId };
  const rewards = Object.entries(isRecord(trace.rewards) ? trace.rewards : {}).flatMap(([name, one]) =>
    isRecord(one) && typeof one.score === 'number' && isIdentifier(name)
      ? [{ name, score: one.score, weight: typeof one.weight === 'number' ? one.weight : 1 }]
      : [],
  );
  const sum = rewards.reduce((all, { score, weight }) => all + score * weight, 0);
  const whole = rewards.length === 0 ? [] : [own, ...(alone ? [{ kind: 'episode' as const, id: episodeId }] : [])];
  return [
    ...whole.map((target) => feedback('reward', 'reward', sum, target)),
    ...rewards.map(({ name, score, weight }) => feedback('score', name, score, own, { weight })),
    ...Object.entries(isRecord(trace.metrics) ? trace.metrics : {}).flatMap(([name, value]) =>
      typeof value === 'number' && isIdentifier(name) ? [feedback('score', name, value, own)] : [],
    ),
  ];
}

type Node = { readonly native: JsonObject; readonly message: ChatMessage; readonly parent: number | null };

function traceDrafts(
  episodeId: string,
  { trace, agentId, place }: Member,
  version: string | undefined,
  refusals: NativeRefusal[],
): Draft[] {
  const nodes = nodesOf(trace.nodes as unknown[], place, refusals);
  const calls = (Array.isArray(trace.calls) ? trace.calls : []).filter(isRecord);
  const byNode = new Map(calls.filter(({ node }) => Number.isSafeInteger(node)).map((call) => [call.node, call]));
  const traceId = isIdentifier(trace.id) ? trace.id : agentId;
  let turn = 0;
  const drafts = nodes.flatMap((node, i): Draft[] => {
    if (node?.native.sampled !== true) return [];
    const path = pathTo(nodes, node.parent);
    const call = byNode.get(i) ?? {};
    const callId = `${traceId}/${i}`;
    const own = splitTokens(node.native);
    const before = path?.map(({ native }) => native.token_ids);
    const prompt = before?.every(isTokenIds) ? [...before.flat(), ...own.scaffold] : undefined;
    return rolloutCallDrafts(emit, {
      episodeId,
      callId,
      agentId,
      turn: turn++,
      input: path?.map(({ message }) => message) ?? [],
      answer: node.message,
      finish: call.finish_reason,
      sampled: { prompt, ids: own.ids, logprobs: node.native.logprobs, mask: own.mask },
      ...aboutCall(call, version),
      unmapped: without({
        ...given('advantages', node.native.advantages ?? undefined),
        ...given('reference_logprobs', node.native.reference_logprobs ?? undefined),
        ...(path ? {} : { parent: node.native.parent }),
      }),
      ...(isRecord(call.time) ? {} : { completedAt: timeOfSeconds(node.native.timestamp) }),
    });
  });
  const failed = calls
    .filter(({ node, error }) => node == null && isRecord(error))
    .flatMap((call, i) =>
      rolloutCallDrafts(emit, {
        episodeId,
        callId: `${traceId}/failed/${i}`,
        agentId,
        turn: turn++,
        input: [],
        answer: null,
        ...aboutCall(call, version),
      }),
    );
  const parents = new Set(nodes.map((node) => node?.parent));
  const ends = nodes.flatMap((node, i) => {
    const path = node && !parents.has(i) && node.message.role === 'tool' ? pathTo(nodes, i) : null;
    if (!path) return [];
    const about = { episodeId, callId: `${traceId}/${i}`, agentId, turn };
    return lastResultDrafts(
      emit,
      about,
      path.map(({ message }) => message),
    );
  });
  return distinct([...drafts, ...failed, ...ends]);
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
