/**
 * tau-bench results: customer-service conversations between a simulated user and one tool-calling agent, each with a final reward.
 * The numeric task_id collides between its domains, so a task is named by the hash of its content.
 */
import type { Refusal } from '../../../errors.ts';
import type { Draft, EventData } from '../../events/events.ts';
import { canonicalJson, given, hashId, isRecord, sha256, without } from '../../events/json.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { badConversation, conversationDrafts } from '../kit/conversation.ts';
import type { Converted, Format, NativeRecord } from '../kit/format.ts';
import { emitterFor, rawRecord, recordId, refusal, refused } from '../kit/native.ts';

const NAME = 'tau-bench';
const AGENT = 'agent';
const emit = emitterFor(NAME);

export const tauBench: Format = {
  name: NAME,
  summary: 'tau-bench results: a JSON array of {task_id, trial, reward, info, traj}',
  recognises: ({ records }) =>
    records.some((record) => isRecord(record) && 'traj' in record && 'reward' in record && isRecord(record.info)),
  convert,
  restates: new Set(['task.defined', 'team.defined']),
};

function convert(record: NativeRecord): Converted {
  const { value, canonical } = record;
  if (!isRecord(value)) return refused(refusal('bad_type', '', 'a result object', value));
  const { traj, info } = value;
  if (!isRecord(info)) return refused(refusal('bad_type', 'info', 'an object with the task', info));
  const failed = info.error !== undefined && info.error !== null;
  if (!isRecord(info.task) && !failed) {
    return refused(refusal('bad_type', 'info.task', 'the task as an object', info.task));
  }
  const bad = failed && traj == null ? null : badConversation(traj, 'traj');
  if (bad) return refused(bad);

  const messages = (traj ?? []) as ChatMessage[];
  const episodeId = recordId(NAME, record);
  const raw = rawRecord(emit, episodeId, canonical);
  const task = isRecord(info.task) ? taskOf(info.task, value.task_id) : null;
  const system = messages[0]?.role === 'system' ? messages[0] : null;
  const team = system ? teamOf(system) : null;
  const refusals: Refusal[] = [];
  const drafts: Draft[] = [];

  if (task) drafts.push(emit.state('task.defined', task));
  if (team) drafts.push(emit.state('team.defined', team));
  drafts.push(
    raw.draft,
    emit.event('episode.started', [episodeId], {
      episode_id: episodeId,
      ...(task ? { task_id: task.task_id } : {}),
      ...(team ? { team_id: team.team_id } : {}),
      ...(task && team ? { group_id: hashId(NAME, task.task_id, team.team_id) } : {}),
      ...wholeNumber(value.trial, 'attempt', 'trial', refusals),
      native: { format: NAME, ids: given('task_id', value.task_id) },
      raw: { artifact_id: raw.artifactId },
    }),
    emit.event('agent.defined', [episodeId], {
      episode_id: episodeId,
      agent_id: AGENT,
      name: AGENT,
      ...(typeof system?.content === 'string' ? { system_instructions: system.content } : {}),
    }),
    ...conversationDrafts(emit, messages, { episodeId, agentOf: () => AGENT, turns: true, reportsError }),
  );
  if (failed) {
    drafts.push(
      emit.event('environment.observed', [episodeId], {
        episode_id: episodeId,
        kind: 'error',
        content: info.error,
        seq: messages.length,
      }),
    );
  }
  const reward = rewardOf(value.reward, refusals);
  if (reward !== null) drafts.push(rewardDraft(episodeId, reward));
  drafts.push(
    emit.event('episode.finished', [episodeId], {
      episode_id: episodeId,
      outcome: failed ? 'error' : reward === null ? 'unknown' : reward >= 1 ? 'success' : 'failure',
      seq: messages.length + 1,
      ...given('unmapped', restOf(value, info)),
    }),
  );
  return { drafts, refusals, raw: canonical };
}

/** The environment answers what a tool threw, and a name that is no tool, as text (sierra-research/tau-bench, tau_bench/envs/base.py). */
const reportsError = (output: string): boolean => /^(?:Error: |Unknown action )/.test(output);

function taskOf(task: Record<string, unknown>, nativeId: unknown): EventData<'task.defined'> {
  const { instruction, actions, outputs, user_id: user } = task;
  return {
    task_id: `${NAME}/${sha256(canonicalJson(task)).slice(0, 16)}`,
    source: NAME,
    ...(typeof instruction === 'string' ? { query: instruction } : {}),
    ...given('reference', actions),
    ...given('ground_truth', outputs),
    tags: { ...given('task_id', nativeId), ...given('user_id', user) },
    ...given(
      'unmapped',
      without(task, 'actions', 'outputs', 'user_id', ...(typeof instruction === 'string' ? ['instruction'] : [])),
    ),
  };
}

/** The team is its one agent and its instructions. */
function teamOf(system: ChatMessage): EventData<'team.defined'> {
  const hash = hashId(NAME, AGENT, system.content ?? null);
  return {
    team_id: `${NAME}/${hash}`,
    name: NAME,
    content_hash: hash,
    agents: [{ name: AGENT, ...given('system_instructions', system.content) }],
  };
}

const rewardDraft = (episodeId: string, value: number): Draft =>
  emit.event('feedback.recorded', [episodeId], {
    feedback_id: hashId(NAME, episodeId, 'reward'),
    target: { kind: 'episode', id: episodeId, episode_id: episodeId },
    kind: 'reward',
    name: 'reward',
    value,
    by: 'env',
  });

/** No reward is null, not 0. */
function rewardOf(value: unknown, refusals: Refusal[]): number | null {
  if (typeof value === 'number') return value;
  if (value !== undefined && value !== null) refusals.push(refusal('bad_number', 'reward', 'a number or null', value));
  return null;
}

function wholeNumber<K extends string>(
  value: unknown,
  name: K,
  field: string,
  refusals: Refusal[],
): { [key in K]?: number } {
  if (value === undefined || value === null) return {};
  if (Number.isSafeInteger(value)) return given(name, value as number);
  refusals.push(refusal('bad_number', field, 'a whole number', value));
  return {};
}

function restOf(value: Record<string, unknown>, info: Record<string, unknown>): Record<string, unknown> | undefined {
  const rest = without(value, 'traj', 'info', 'task_id', 'trial', 'reward') ?? {};
  return without({ ...rest, info: without(info, 'task', 'error') });
}
