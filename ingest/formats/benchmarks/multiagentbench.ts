/**
 * MultiAgentBench (MARBLE): results, one run a line, and the configurations of its tasks. They meet in the text of the task, for a
 * result names no task. The output of a tool is only in the text of a result.
 */
import type { Refusal } from '../../../errors.ts';
import type { Draft } from '../../events/events.ts';
import { canonicalJson, given, hashId, isRecord, without } from '../../events/json.ts';
import type { Converted, Format, NativeRecord } from '../kit/format.ts';
import { badIdentifier, emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import { runDrafts, taskOf } from '../kit/run.ts';
import { convertMarbleConfig, isMarbleConfig } from './multiagentbench-config.ts';

const NAME = 'multiagentbench';
const emit = emitterFor(NAME);

export const multiagentbench: Format = {
  name: NAME,
  summary: 'MultiAgentBench results {task, coordination_mode, iterations, agent_kpis, …} and its task configurations',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isRecord(record) && (('coordination_mode' in record && 'iterations' in record) || isMarbleConfig(record)),
    ),
  convert: (record) => (isMarbleConfig(record.value) ? convertMarbleConfig(emit, NAME, record) : convertResult(record)),
  restates: new Set(['task.defined', 'team.defined']),
};

type Fields = Readonly<Record<string, unknown>>;

function convertResult(record: NativeRecord): Converted {
  const { value: line } = record;
  if (!isRecord(line)) return refused(refusal('bad_type', '', 'a result object', line));
  const bad = badResult(line);
  if (bad) return refused(bad);
  const episodeId = recordId(NAME, record);
  const agents = new Set<string>();
  let seq = 0;
  const next = () => ({ episode_id: episodeId, seq: seq++ });
  const drafts = (line.iterations as Fields[]).flatMap((iteration, turn) =>
    iterationDrafts(iteration, turn, next, agents),
  );
  const kpis = isRecord(line.agent_kpis) ? line.agent_kpis : {};
  for (const [agent, milestones] of Object.entries(kpis)) {
    drafts.push(
      emit.event('environment.observed', [episodeId, 'milestone', agent], {
        ...next(),
        kind: 'milestone',
        state: { agent, milestones },
      }),
    );
  }
  const { token_usage: tokens, total_milestones: milestones } = line;
  const known = ['task', 'iterations', 'planning_scores', 'communication_scores', 'task_evaluation', 'agent_kpis'];
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task: taskOf(NAME, line.task),
      started: given('unmapped', without(line, ...known, 'token_usage', 'total_milestones')),
      agents,
      events: [...drafts, ...evaluationDrafts(line, episodeId)],
      finished: {
        outcome: 'unknown',
        seq,
        totals: without({ token_usage: tokens, total_milestones: milestones }) ?? {},
      },
    }),
    refusals: [],
    raw: record.canonical,
  };
}

function badResult({ task, iterations }: Fields): Refusal | null {
  if (typeof task !== 'string') return refusal('bad_type', 'task', 'the text of the task', task);
  if (!Array.isArray(iterations)) return refusal('bad_type', 'iterations', 'a list of iterations', iterations);
  for (const [i, iteration] of iterations.entries()) {
    const field = `iterations[${i}]`;
    if (!isRecord(iteration)) return refusal('bad_type', field, 'an iteration object', iteration);
    const { task_results: results } = iteration;
    if (results === undefined || results === null) continue;
    if (!Array.isArray(results)) return refusal('bad_type', `${field}.task_results`, 'a list of results', results);
    for (const [k, result] of results.entries()) {
      const place = `${field}.task_results[${k}]`;
      if (!isRecord(result)) return refusal('bad_type', place, '{agent_id, result} or {agent: result}', result);
      for (const [agent] of resultsIn(result)) {
        const bad = badIdentifier(agent, place);
        if (bad) return bad;
      }
    }
  }
  return null;
}

/** `{agent_id, result}` in the first round of a graph, `{agent: result}` elsewhere. */
const resultsIn = (result: Fields): [agent: unknown, output: unknown][] =>
  'agent_id' in result && 'result' in result ? [[result.agent_id, result.result]] : Object.entries(result);

function iterationDrafts(
  iteration: Fields,
  turn: number,
  next: () => { episode_id: string; seq: number },
  agents: Set<string>,
): Draft[] {
  const {
    task_assignments: assigned,
    task_results: results,
    summary,
    continue_simulation: goesOn,
    communications,
  } = iteration;
  const drafts: Draft[] = [];
  const decide = (kind: string, decision: unknown): void => {
    const place = next();
    drafts.push(emit.event('decision.made', [place.episode_id, place.seq], { ...place, turn, kind, decision }));
  };
  if (assigned !== undefined && assigned !== null) decide('assign', assigned);
  for (const [agent, output] of ((results ?? []) as Fields[]).flatMap(resultsIn)) {
    agents.add(agent as string);
    const place = next();
    const call = { ...place, turn, call_id: `m${place.seq}` };
    const { model, functions } = partsOf(typeof output === 'string' ? output : canonicalJson(output));
    drafts.push(
      emit.event('generation.completed', [place.episode_id, place.seq], {
        ...call,
        agent_id: agent as string,
        choices: [{ index: 0, content: model }],
      }),
      ...functions.map((content, i) =>
        emit.event('environment.observed', [place.episode_id, place.seq, i], {
          ...call,
          seq: next().seq,
          kind: 'output',
          content,
        }),
      ),
    );
  }
  for (const [i, text] of (Array.isArray(communications) ? communications : []).entries()) {
    drafts.push(...messagesIn(text, turn, `${turn}.${i}`, next));
  }
  if (summary !== undefined && summary !== null) decide('plan', { summary });
  if (typeof goesOn === 'boolean') decide(goesOn ? 'continue' : 'stop', { continue_simulation: goesOn });
  const rest = without(
    iteration,
    'iteration',
    'task_assignments',
    'task_results',
    'summary',
    'continue_simulation',
    'communications',
  );
  if (rest) {
    const place = next();
    drafts.push(
      emit.event('environment.observed', [place.episode_id, place.seq], {
        ...place,
        turn,
        kind: 'iteration',
        unmapped: rest,
      }),
    );
  }
  return drafts;
}

const FUNCTION = 'Result from the function:';

/** The output of the model, and then of the functions it called. */
function partsOf(text: string): { readonly model: string; readonly functions: readonly string[] } {
  const [output = '', ...functions] = text.split(FUNCTION);
  const model = output.replace(/^Result from the model:/, '');
  return { model: model.endsWith('\n') ? model.slice(0, -1) : model, functions };
}

/** A chat as one text: "In Session <id> \nFrom a to b: …", each message to the next "From". */
function messagesIn(text: unknown, turn: number, id: string, next: () => { episode_id: string; seq: number }): Draft[] {
  const whole = typeof text === 'string' ? text : canonicalJson(text);
  const session = /^In Session (\S+)\s*\n?/.exec(whole);
  const parts = whole.slice(session?.[0].length ?? 0).split(/^(?=From .{1,200}? to .{1,200}?: )/m);
  return parts
    .filter((part) => part.trim() !== '')
    .map((part, i) => {
      const message = /^From (.{1,200}?) to (.{1,200}?): ([\s\S]*)$/.exec(part);
      const place = next();
      return emit.event('message.sent', [place.episode_id, place.seq], {
        ...place,
        turn,
        message_id: `c${id}.${i}`,
        ...(message ? { from: message[1]!, to: [message[2]!] } : {}),
        content: (message?.[3] ?? part).replace(/\n$/, ''),
        ...given('channel', session?.[1]),
      });
    });
}

/** All that was scored, in one list; −1 stands for no score. */
function evaluationDrafts(line: Fields, episodeId: string): Draft[] {
  const { planning_scores: planning, communication_scores: talk, task_evaluation: task } = line;
  const listed = (name: string, scores: unknown): Fields[] =>
    (Array.isArray(scores) ? scores : []).flatMap((value, turn) =>
      typeof value === 'number' && value !== -1 ? [{ name, turn, value }] : [],
    );
  const ratingsOfTask =
    typeof task === 'number' ? [{ name: 'task', value: task }] : isRecord(task) ? ratings(task, 'task') : [];
  const value = [...listed('planning', planning), ...listed('communication', talk), ...ratingsOfTask];
  if (value.length === 0) return [];
  return [
    emit.event('feedback.recorded', [episodeId], {
      feedback_id: hashId(NAME, episodeId, 'evaluation'),
      target: { kind: 'episode', id: episodeId, episode_id: episodeId },
      kind: 'score',
      name: 'evaluation',
      value,
      by: 'model',
    }),
  ];
}

/** The leaves of a rating, which may be by aspect or by buyer and seller. */
const ratings = (rated: Fields, name: string): Fields[] =>
  Object.entries(rated).flatMap(([aspect, value]) =>
    isRecord(value)
      ? ratings(value, `${name}.${aspect}`)
      : value === -1 || value === null
        ? []
        : [{ name: `${name}.${aspect}`, value }],
  );
