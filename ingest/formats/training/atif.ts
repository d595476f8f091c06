/**
 * ATIF, the trajectory format of Harbor, in both directions: one document a run, its sub-agents' trajectories inside it. A step of
 * an agent is a model call, unless it is marked as made without a model or as context copied from elsewhere.
 */
import type { Message } from '../../events/events.ts';
import { asText, canonicalJson, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { textIn } from '../kit/chat-message.ts';
import type { Conversion, Format, NativeRecord } from '../kit/format.ts';
import { emitterFor, refused, revisedEmitter } from '../kit/native.ts';
import { taskOf, timeOfText } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { breaches, isGiven } from './atif-rules.ts';
import { addStep } from './atif-steps.ts';
import { callIdOf, isCall, isCopied, referencesOf, type Trajectory, trajectoryOf } from './atif-trajectory.ts';
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
  write: writeAtif,
};

function convert(record: NativeRecord): Conversion {
  const refusals = breaches(record.value);
  if (refusals.length > 0) return refused(...refusals);
  const document = record.value as JsonObject;
  const named = sessionOf(document) ?? (document.trajectory_id as string | null | undefined);
  const emit = named ? revisedEmitter(NAME) : emitterFor(NAME);
  const trace = new Trace(emit, NAME, record, named ?? undefined);
  const run = runOf(trace, trajectoryOf(document));
  const converted = trace.finish(run);
  const exact = canonicalJson(writeAtif(converted.drafts)) === canonicalJson([document]);
  return {
    ...(exact ? converted : trace.finish({ ...run, started: { ...run.started, unmapped: { record: document } } })),
    repeated: Boolean(named) && record.ordinal > 0,
  };
}

function runOf(trace: Trace, root: Trajectory) {
  const { document, key, steps } = root;
  const extra = isRecord(document.extra) ? document.extra : {};
  // What begins with a copy is a part of another document or a look back at it: that one has the task.
  const begins = steps[0] !== undefined && !isCopied(steps[0]);
  const asked = steps.find((step) => begins && step.source === 'user' && speakerOf(root, step) === root.agent);
  let seq = firstSeq(steps);
  addMembers(trace, root, null, 0);
  addTrajectory(trace, root, () => seq++);
  addRewards(trace, root, true);
  return {
    task: taskOf(NAME, textIn(asked?.message), given('ground_truth', extra.ground_truth), extra.task_id),
    incomplete: steps.length === 0,
    started: {
      native: { format: NAME, trajectory: key },
      session_id: sessionOf(document) ?? undefined,
    },
    finished: {
      outcome: 'unknown' as const,
      totals: isRecord(document.final_metrics) ? document.final_metrics : undefined,
    },
    // Totals go on in the next document, so those of the last one are to show.
    finishedAt: isPart(document) ? timeOfText(steps.at(-1)?.timestamp) : null,
  };
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
function addMembers(trace: Trace, trajectory: Trajectory, parent: Trajectory | null, position: number): void {
  const { document, key, agent: name } = trajectory;
  const { model_name: model, tool_definitions: tools, ...agent } = document.agent as JsonObject;
  const named = typeof model === 'string' ? model : undefined;
  const { session_id, trajectory_id } = document;
  trace.add('agent.defined', [key], {
    agent_id: name,
    name,
    parent_agent_id: parent?.agent,
    model: named,
    tools,
    native: {
      format: NAME,
      version: document.schema_version,
      trajectory: key,
      ...(parent ? { parent: parent.key, position } : {}),
      ids: without({ session_id, trajectory_id }) ?? {},
    },
    unmapped: {
      ...without(document, 'schema_version', 'session_id', 'trajectory_id', 'agent', 'steps', 'subagent_trajectories'),
      agent: { ...without(agent, 'name'), ...(named === undefined ? given('model_name', model) : {}) },
    },
  });
  for (const agent of new Set(trajectory.steps.map((step) => speakerOf(trajectory, step))))
    if (agent !== name) {
      const sidechain = { agent_id: agent, name: agent, parent_agent_id: name, native: { trajectory: key } };
      trace.add('agent.defined', [key, agent], sidechain);
    }
  for (const [i, child] of trajectory.children.entries()) addMembers(trace, child, trajectory, i);
}

/** The steps of a trajectory, with those of a sub-agent after the step that refers to it. */
function addTrajectory(trace: Trace, trajectory: Trajectory, next: () => number): void {
  const waiting = new Set(trajectory.children);
  const inputs = new Map<string, Message[] | null>();
  for (const step of trajectory.steps) {
    const agent = speakerOf(trajectory, step);
    if (!inputs.has(agent)) inputs.set(agent, agent === unnamedIn(trajectory) ? null : []);
    if (replacesContext(step)) inputs.set(agent, null);
    addStep(trace, { ...trajectory, agent }, step, inputs.get(agent)!, next);
    for (const id of referred(step)) {
      const child = [...waiting].find((one) => one.document.trajectory_id === id);
      if (child && waiting.delete(child)) addTrajectory(trace, child, next);
    }
  }
  for (const child of waiting) addTrajectory(trace, child, next);
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
function addRewards(trace: Trace, trajectory: Trajectory, isRoot: boolean): void {
  const { document, key, agent } = trajectory;
  const { episodeId: episode_id } = trace;
  const add = (metrics: unknown, place: string, kind: 'episode' | 'agent' | 'step', id: string): void => {
    const value = isRecord(metrics) && isRecord(metrics.extra) ? metrics.extra.reward : undefined;
    if (typeof value !== 'number' && typeof value !== 'boolean') return;
    const reward = { kind: 'reward', name: 'reward', value: Number(value), by: 'env' } as const;
    trace.feedback([key, place, 'reward'], { target: { kind, id, episode_id }, ...reward }, [key, place]);
  };
  if (isRoot) add(document.final_metrics, 'final', 'episode', episode_id);
  else add(document.final_metrics, 'final', 'agent', agent);
  for (const step of trajectory.steps.filter(isCall))
    add(step.metrics, asText(step.step_id), 'step', `${callIdOf(trajectory, step)}/0`);
  for (const child of trajectory.children) addRewards(trace, child, false);
}
