/** The rules of ATIF that a trajectory must keep, version 1 in all its minor versions: each breach is named by its native field. */
import type { Refusal } from '../../../errors.ts';
import { isRecord } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import { badIdentifier, refusal } from '../kit/native.ts';

const SOURCES = ['system', 'user', 'agent'];
/** What only a step of an agent may have. */
const AGENT_ONLY = ['model_name', 'reasoning_effort', 'reasoning_content', 'tool_calls', 'metrics'];

export const isGiven = (value: unknown): boolean => value !== undefined && value !== null;

/** Every breach of the rules in a trajectory and those inside it; none where it may be read. */
export function breaches(document: unknown, field = ''): Refusal[] {
  const at = (name: string): string => (field === '' ? name : `${field}.${name}`);
  if (!isRecord(document)) return [refusal('bad_type', field, 'a trajectory object', document)];
  const { schema_version: version, agent, steps, subagent_trajectories: children } = document;
  const found: (Refusal | null)[] = [];
  if (typeof version !== 'string' || !/^ATIF-v1\.\d+$/.test(version)) {
    found.push(refusal('bad_shape', at('schema_version'), 'ATIF-v1.0 or a later ATIF-v1', version));
  }
  if (!isRecord(agent)) found.push(refusal('bad_type', at('agent'), 'an object with name and version', agent));
  else found.push(badIdentifier(agent.name, at('agent.name')));
  for (const name of ['session_id', 'trajectory_id']) {
    if (isGiven(document[name])) found.push(badIdentifier(document[name], at(name)));
  }
  if (!Array.isArray(steps)) found.push(refusal('bad_type', at('steps'), 'a list of steps', steps));
  else
    pushAll(
      found,
      steps.flatMap((step, i) => badStep(step, i, at(`steps[${i}]`))),
    );
  if (Array.isArray(children)) {
    pushAll(
      found,
      children.flatMap((child, i) => breaches(child, at(`subagent_trajectories[${i}]`))),
    );
  } else if (isGiven(children)) {
    found.push(refusal('bad_type', at('subagent_trajectories'), 'a list of trajectories', children));
  }
  return found.filter((one) => one !== null);
}

function badStep(step: unknown, index: number, field: string): (Refusal | null)[] {
  if (!isRecord(step)) return [refusal('bad_type', field, 'a step object', step)];
  const found: (Refusal | null)[] = [];
  if (step.step_id !== index + 1) {
    found.push(refusal('bad_shape', `${field}.step_id`, `${index + 1}, the number of the step`, step.step_id));
  }
  if (!SOURCES.includes(step.source as string)) {
    found.push(refusal('bad_type', `${field}.source`, `one of ${SOURCES.join(', ')}`, step.source));
  }
  found.push(badContent(step.message, `${field}.message`));
  if (step.source !== 'agent') {
    for (const name of AGENT_ONLY.filter((one) => isGiven(step[one]))) {
      found.push(refusal('bad_shape', `${field}.${name}`, 'nothing: only a step of an agent has it', step[name]));
    }
    return [...found, ...badObservation(step.observation, new Set(), `${field}.observation`)];
  }
  const ids = new Set<unknown>();
  if (Array.isArray(step.tool_calls)) {
    for (const [i, call] of step.tool_calls.entries()) {
      found.push(badCall(call, `${field}.tool_calls[${i}]`));
      if (isRecord(call)) ids.add(call.tool_call_id);
    }
  } else if (isGiven(step.tool_calls)) {
    found.push(refusal('bad_type', `${field}.tool_calls`, 'a list of tool calls', step.tool_calls));
  }
  if (isGiven(step.metrics) && !isRecord(step.metrics)) {
    found.push(refusal('bad_type', `${field}.metrics`, 'an object', step.metrics));
  }
  return [...found, ...badObservation(step.observation, ids, `${field}.observation`)];
}

function badCall(call: unknown, field: string): Refusal | null {
  if (!isRecord(call)) return refusal('bad_type', field, 'a tool call object', call);
  if (!isRecord(call.arguments)) return refusal('bad_type', `${field}.arguments`, 'an object', call.arguments);
  return (
    badIdentifier(call.tool_call_id, `${field}.tool_call_id`) ??
    badIdentifier(call.function_name, `${field}.function_name`)
  );
}

function badObservation(observation: unknown, ids: ReadonlySet<unknown>, field: string): (Refusal | null)[] {
  if (!isGiven(observation)) return [];
  if (!isRecord(observation) || !Array.isArray(observation.results)) {
    return [refusal('bad_type', field, 'an object with a list of results', observation)];
  }
  return observation.results.flatMap((result: unknown, i) => {
    const place = `${field}.results[${i}]`;
    if (!isRecord(result)) return [refusal('bad_type', place, 'a result object', result)];
    const { source_call_id: source, content } = result;
    const unknown = isGiven(source) && !ids.has(source);
    return [
      unknown
        ? refusal('bad_reference', `${place}.source_call_id`, 'the id of a tool call of the same step', source)
        : null,
      isGiven(content) ? badContent(content, `${place}.content`) : null,
    ];
  });
}

function badContent(content: unknown, field: string): Refusal | null {
  if (typeof content === 'string') return null;
  if (!Array.isArray(content)) return refusal('bad_type', field, 'a text or a list of parts', content);
  const invalid = content.findIndex((part) => !isRecord(part) || typeof part.type !== 'string' || part.type === '');
  return invalid < 0 ? null : refusal('bad_shape', `${field}[${invalid}]`, 'a part with a type', content[invalid]);
}
