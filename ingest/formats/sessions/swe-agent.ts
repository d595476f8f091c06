/**
 * SWE-agent trajectories, one document a run. An entry of the trajectory is a step; its tool calls stand in the history beside it,
 * and where the model wrote commands as text, the action is the call. Demonstrations are no work of the model.
 */
import type { Refusal } from '../../../errors.ts';
import { given, isRecord, type JsonObject, parseRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { refusal, refused } from '../kit/native.ts';
import { format } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { addStep, entriesOf, openingMessages } from './swe-agent-steps.ts';

const NAME = 'swe-agent';

const isHistory = (history: unknown): boolean =>
  Array.isArray(history) &&
  history.some((entry) => isRecord(entry) && 'agent' in entry && 'role' in entry && 'content' in entry);

/** Steps of other programs have an action and an observation too, but no text of the model beside a command. */
const isStep = (step: unknown): boolean =>
  isRecord(step) && typeof step.action === 'string' && ('response' in step || 'thought' in step);

export const sweAgent = format({
  name: NAME,
  summary: 'SWE-agent trajectories {trajectory, history, info, replay_config}, one document a run',
  called: 'a trajectory object',
  recognises: (record) =>
    !('mistake_agent' in record) &&
    ((Array.isArray(record.trajectory) && record.trajectory.some(isStep)) || isHistory(record.history)),
  convert({ native: document }, record) {
    const bad = badDocument(document);
    if (bad.length > 0) return refused(...bad);
    const history = ((document.history ?? []) as unknown[]).filter(isRecord);
    const entries = entriesOf(document.trajectory as readonly JsonObject[] | undefined, history);
    const config = configOf(document.replay_config);
    const problem = isRecord(config?.problem_statement) ? config.problem_statement : {};
    const opening = openingMessages(history, entries[0]?.query);
    const asked = opening.find(({ message, demonstration }) => message.role === 'user' && !demonstration);
    const agent = history.map((entry) => entry.agent).find(isIdentifier) ?? 'main';
    const model = modelOf(config);
    const { swe_agent_version: version, ...info } = (document.info ?? {}) as JsonObject;
    const { submission, exit_status: status, model_stats: stats, ...more } = info;
    const patch = typeof submission === 'string' && submission !== '' ? submission : undefined;
    const trace = Trace.of(NAME, record);
    let seq = 0;
    const next = () => seq++;
    for (const [i, { message, demonstration }] of opening.entries()) {
      const { role, content } = message;
      const flags = demonstration ? ['demonstration'] : undefined;
      trace.add('message.sent', [i], { seq: next(), message_id: `h${i}`, from: role, role, content, flags });
    }
    for (const [i, entry] of entries.entries()) addStep(trace, agent, model, entry, i, next);
    trace.patch(patch);
    return trace.finish({
      task: taskOf(NAME, problem.text ?? problem.problem_statement ?? asked?.text, {}, problem.id),
      flags: Array.isArray(document.trajectory) ? [] : ['history_only'],
      started: {
        native: { format: NAME, ...given('version', version) },
        unmapped: without({
          ...without(document, 'trajectory', 'history', 'info', 'replay_config'),
          replay_config: config ? without(config, 'problem_statement') : (document.replay_config ?? undefined),
          problem_statement: without(problem, 'id', 'text'),
        }),
      },
      agents: [{ agent_id: agent, model }],
      finished: {
        outcome: outcomeOf(status),
        seq,
        exit_status: typeof status === 'string' ? status : undefined,
        totals: isRecord(stats) ? stats : undefined,
        unmapped: without({
          ...more,
          ...(isRecord(stats) ? {} : { model_stats: stats }),
          ...(typeof submission === 'string' ? {} : { submission }),
        }),
      },
    });
  },
});

function badDocument({ trajectory, history, info }: JsonObject): Refusal[] {
  const found: Refusal[] = [];
  if (trajectory === undefined && history === undefined) {
    found.push(refusal('bad_type', 'trajectory', 'a list of steps', trajectory));
  } else if (trajectory !== undefined && !Array.isArray(trajectory)) {
    found.push(refusal('bad_type', 'trajectory', 'a list of steps', trajectory));
  }
  if (history !== undefined && !Array.isArray(history)) {
    found.push(refusal('bad_type', 'history', 'a list of messages', history));
  }
  for (const [i, step] of (Array.isArray(trajectory) ? trajectory : []).entries()) {
    const field = `trajectory[${i}]`;
    if (!isRecord(step)) found.push(refusal('bad_type', field, 'a step object', step));
    else if (typeof step.action !== 'string') found.push(refusal('bad_type', `${field}.action`, 'a text', step.action));
  }
  if (info !== undefined && !isRecord(info)) found.push(refusal('bad_type', 'info', 'an object', info));
  return found;
}

/** A configuration is JSON in a text, in older files an object; null where it cannot be read. */
function configOf(config: unknown): JsonObject | null {
  if (isRecord(config)) return config;
  if (typeof config !== 'string') return null;
  const parsed = parseRecord(config);
  return 'refusal' in parsed || !isRecord(parsed.value) ? null : parsed.value;
}

function modelOf(config: JsonObject | null): string | undefined {
  const agent = config?.agent;
  const name = isRecord(agent) && isRecord(agent.model) ? agent.model.name : undefined;
  return typeof name === 'string' ? name : undefined;
}

/** How a run ended does not show whether its patch is right. */
function outcomeOf(status: unknown) {
  if (typeof status !== 'string' || status.startsWith('submitted')) return 'unknown' as const;
  if (/time/.test(status)) return 'timeout' as const;
  return /error/.test(status) ? ('error' as const) : ('aborted' as const);
}
