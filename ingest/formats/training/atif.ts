/**
 * ATIF, the trajectory format of Harbor, in both directions: one document a run, its sub-agents' trajectories inside it. A step of
 * an agent is a model call, unless it is marked as made without a model or as context copied from elsewhere.
 */
import type { Draft, EventData, Message } from '../../events/events.ts';
import { asText, canonicalJson, given, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import { isIdentifier } from '../../events/text.ts';
import { textIn } from '../kit/chat-message.ts';
import { toolLedger } from '../kit/conversation.ts';
import type { Conversion, Format, NativeRecord } from '../kit/format.ts';
import { type Emitter, emitterFor, recordId, refused, revisedEmitter } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf, timeOfText } from '../kit/run.ts';
import { breaches, isGiven } from './atif-rules.ts';
import { trajectorySteps } from './atif-steps.ts';
import {
  callIdOf,
  isCall,
  isCopied,
  type Numbering,
  referencesOf,
  type Trajectory,
  trajectoryOf,
} from './atif-trajectory.ts';
import { writeAtif } from './atif-write.ts';

const NAME = 'atif';

export const atif: Format = {
  name: NAME,
  summary: 'ATIF trajectories of Harbor: one document a run, {schema_version: "ATIF-v1.…", agent, steps}',
  recognises: ({ records }) =>
    records.some((record) => isRecord(record) && /^ATIF/.test(asText(record.schema_version))),
  // What Harbor has converters for and has a session file of its own.
  restatesRunsOf: ['claude-code', 'codex', 'gemini-cli', 'opencode', 'openhands', 'pi'],
  convert,
  restates: new Set(['task.defined']),
  write: writeAtif,
};

function convert(record: NativeRecord): Conversion {
  const refusals = breaches(record.value);
  if (refusals.length > 0) return refused(...refusals);
  const document = record.value as JsonObject;
  const named = sessionOf(document) ?? (document.trajectory_id as string | null | undefined);
  const episodeId = named ?? recordId(NAME, record);
  const emit = named ? revisedEmitter(NAME) : emitterFor(NAME);
  const root = trajectoryOf(document, episodeId, null, 0);
  const drafts = (copy: JsonObject | undefined): Draft[] => episodeDrafts(emit, root, record.canonical, copy);
  const exact = canonicalJson(writeAtif(drafts(undefined))) === canonicalJson([document]);
  return {
    drafts: drafts(exact ? undefined : { record: document }),
    refusals: [],
    raw: record.canonical,
    repeated: Boolean(named) && record.ordinal > 0,
  };
}

function episodeDrafts(emit: Emitter, root: Trajectory, canonical: string, copy: JsonObject | undefined): Draft[] {
  const { document, episodeId, key, steps } = root;
  const extra = isRecord(document.extra) ? document.extra : {};
  // What begins with a copy is a part of another document or a look back at it: that one has the task.
  const begins = steps[0] !== undefined && !isCopied(steps[0]);
  const asked = steps.find((step) => begins && step.source === 'user' && speakerOf(root, step) === root.agent);
  const task = taskOf(NAME, textIn(asked?.message), given('ground_truth', extra.ground_truth), extra.task_id);
  const ledger = toolLedger();
  let seq = firstSeq(steps);
  const place = { next: () => seq++, call: ledger.call, result: ledger.result };
  const drafts = trajectoryDrafts(emit, root, place);
  const tokens = drafts.some(
    (draft) => draft.name === 'generation.completed' && draft.data.choices.some((choice) => choice.token_ids),
  );
  return runDrafts(emit, {
    format: NAME,
    episodeId,
    canonical,
    task,
    started: {
      native: { format: NAME, trajectory: key },
      ...given('session_id', sessionOf(document) ?? undefined),
      flags: [...(tokens ? [] : [NO_TOKEN_IDS]), ...(steps.length === 0 ? ['incomplete'] : [])],
      ...given('unmapped', copy as Record<string, unknown> | undefined),
    },
    events: [...memberDrafts(emit, root, null, 0), ...drafts, ...rewardDrafts(emit, root, true)],
    finished: {
      outcome: 'unknown',
      ...(isRecord(document.final_metrics) ? { totals: document.final_metrics } : {}),
    },
    // Totals go on in the next document, so those of the last one are to show.
    ...(isPart(document) ? { finishedAt: timeOfText(steps.at(-1)?.timestamp) } : {}),
  });
}

/**
 * The session whose steps a document holds. Terminus 2 names a document that goes on with another one SESSION-cont-N and says N again
 * beside the agent.
 */
function sessionOf({ session_id: session, agent }: JsonObject): string | null {
  if (typeof session !== 'string') return null;
  const [, first, part] = /^(.+)-cont-(\d+)$/.exec(session) ?? [];
  const { extra } = agent as JsonObject;
  return part !== undefined && isRecord(extra) && extra.continuation_index === Number(part) ? first! : session;
}

/** Whether a document is one of several of its session. */
const isPart = ({ steps, continued_trajectory_ref: next }: JsonObject): boolean => {
  const [first] = steps as JsonObject[];
  return isGiven(next) || (first !== undefined && isCopied(first));
};

/**
 * Number of the first event. A document that goes on with another one begins with what it copied of it, and the steps of both are those
 * of one session: its numbers begin with the time of its own first step, in milliseconds.
 */
function firstSeq(steps: readonly JsonObject[]): number {
  if (!steps[0] || !isCopied(steps[0])) return 0;
  const own = steps.find((step) => !isCopied(step) && timeOfText(step.timestamp) !== null);
  return own ? Date.parse(timeOfText(own.timestamp)!) : CONTINUED;
}

/** More than a document without times has events. */
const CONTINUED = 1e6;

/** The metadata of a trajectory: its agent, and everything about it that is not a step. */
function memberDrafts(emit: Emitter, trajectory: Trajectory, parent: Trajectory | null, position: number): Draft[] {
  const { document, episodeId, key, agent: name } = trajectory;
  const { model_name: model, tool_definitions: tools, ...agent } = document.agent as JsonObject;
  const own: EventData<'agent.defined'> = {
    episode_id: episodeId,
    agent_id: name,
    name,
    ...(parent ? { parent_agent_id: parent.agent } : {}),
    ...(typeof model === 'string' ? { model } : {}),
    ...given('tools', tools),
    native: {
      format: NAME,
      version: document.schema_version,
      trajectory: key,
      ...(parent ? { parent: parent.key, position } : {}),
      ids:
        without(document, ...Object.keys(document).filter((one) => one !== 'session_id' && one !== 'trajectory_id')) ??
        {},
    },
    unmapped: {
      ...without(document, 'schema_version', 'session_id', 'trajectory_id', 'agent', 'steps', 'subagent_trajectories'),
      agent: {
        ...without(agent, 'name'),
        ...(typeof model === 'string' ? {} : given('model_name', model)),
      },
    },
  };
  const sidechains = [...new Set(trajectory.steps.map((step) => speakerOf(trajectory, step)))].filter(
    (agent) => agent !== name,
  );
  return [
    emit.event('agent.defined', [episodeId, key], own),
    ...sidechains.map((agent) =>
      emit.event('agent.defined', [episodeId, key, agent], {
        episode_id: episodeId,
        agent_id: agent,
        name: agent,
        parent_agent_id: name,
        native: { trajectory: key },
      }),
    ),
    ...trajectory.children.flatMap((child, i) => memberDrafts(emit, child, trajectory, i)),
  ];
}

/** The steps of a trajectory, with those of a sub-agent after the step that refers to it. */
function trajectoryDrafts(emit: Emitter, trajectory: Trajectory, numbering: Numbering): Draft[] {
  const { children, steps } = trajectory;
  const waiting = new Set(children);
  const drafts: Draft[] = [];
  const inputs = new Map<string, Message[] | null>();
  for (const step of steps) {
    const agent = speakerOf(trajectory, step);
    if (!inputs.has(agent)) inputs.set(agent, agent === unnamedIn(trajectory) ? null : []);
    if (replacesContext(step)) inputs.set(agent, null);
    pushAll(drafts, trajectorySteps(emit, { ...trajectory, agent }, step, inputs.get(agent)!, numbering));
    for (const id of referred(step)) {
      const child = [...waiting].find((one) => one.document.trajectory_id === id);
      if (child && waiting.delete(child)) pushAll(drafts, trajectoryDrafts(emit, child, numbering));
    }
  }
  return [...drafts, ...[...waiting].flatMap((child) => trajectoryDrafts(emit, child, numbering))];
}

/**
 * Whose step it is. The converter of Claude Code puts the steps of sub-agents among those of the agent that called them and says so beside
 * each; those of early sessions have no id, so several sub-agents may be one, and what they were shown is unknown.
 */
function speakerOf(trajectory: Trajectory, { extra }: JsonObject): string {
  if (!isRecord(extra) || extra.is_sidechain !== true) return trajectory.agent;
  return isIdentifier(extra.agent_id) ? extra.agent_id : unnamedIn(trajectory);
}

const unnamedIn = ({ agent }: Trajectory): string => `${agent}/sidechain`;

/** After this step the model was shown something else than the steps before; what of them is left is in no document. */
const replacesContext = ({ extra }: JsonObject): boolean =>
  isRecord(extra) && isRecord(extra.context_management) && extra.context_management.boundary === 'replace';

const referred = (step: JsonObject): unknown[] =>
  (((step.observation as JsonObject | null | undefined)?.results ?? []) as JsonObject[])
    .flatMap(referencesOf)
    .map((reference) => reference.trajectory_id)
    .filter(isIdentifier);

/** Rewards have no place of their own in the format; these are where its users put them. */
function rewardDrafts(emit: Emitter, trajectory: Trajectory, isRoot: boolean): Draft[] {
  const { document, episodeId, key, agent } = trajectory;
  const rewardIn = (metrics: unknown): unknown =>
    isRecord(metrics) && isRecord(metrics.extra) ? metrics.extra.reward : undefined;
  const draft = (value: unknown, place: string, target: EventData<'feedback.recorded'>['target']): Draft[] => {
    if (typeof value !== 'number' && typeof value !== 'boolean') return [];
    const id = hashId(NAME, episodeId, key, place, 'reward');
    return [
      emit.event('feedback.recorded', [episodeId, key, place], {
        feedback_id: id,
        target,
        kind: 'reward',
        name: 'reward',
        value: Number(value),
        by: 'env',
      }),
    ];
  };
  const whole = isRoot
    ? ({ kind: 'episode', id: episodeId, episode_id: episodeId } as const)
    : ({ kind: 'agent', id: agent, episode_id: episodeId } as const);
  const steps = trajectory.steps.filter(isCall);
  return [
    ...draft(rewardIn(document.final_metrics), 'final', whole),
    ...steps.flatMap((step) =>
      draft(rewardIn(step.metrics), `${asText(step.step_id)}`, {
        kind: 'step',
        id: `${callIdOf(trajectory, step)}/0`,
        episode_id: episodeId,
      }),
    ),
    ...trajectory.children.flatMap((child) => rewardDrafts(emit, child, false)),
  ];
}
