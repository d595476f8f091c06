/**
 * Logs of AgentBoard (hkust-nlp/AgentBoard at bb7255e2, agentboard/utils/logging/logger.py): documents one after the other, each an example
 * {id, task_name, goal, trajectory: {"Interaction Turn N": {Action, Observation, "Progress Rate"}}}. The prompts are not in the file, and
 * what an agent sees first is overwritten in it by what its first action led to.
 */
import { asText, canonicalJson, hashId, isRecord } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { emitterFor } from '../kit/native.ts';
import { format, Reader, unreadable } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'agentboard';
const AGENT = 'agent';
const TURN = /^Interaction Turn (\d{1,6})$/;
const emit = emitterFor(NAME);

export const agentboard = format({
  name: NAME,
  summary: 'AgentBoard logs: {id, task_name, goal, progress_rate, trajectory: {"Interaction Turn 0": …}}',
  called: 'an example object',
  recognises: ({ goal, progress_rate: progress, trajectory }) =>
    goal !== undefined &&
    progress !== undefined &&
    isRecord(trajectory) &&
    Object.keys(trajectory).some((name) => TURN.test(name)),
  convert(row, record) {
    const trajectory = row.object('trajectory', 'turns by name');
    const { id, task_name: name } = row.native;
    const isNamed = isIdentifier(name) && (Number.isSafeInteger(id) || isIdentifier(id));
    const tags = row.these('task_name', 'difficulty') ?? {};
    const task = taskOf(NAME, row.any('goal'), { tags }, isNamed ? `${NAME}/${name}/${asText(id)}` : undefined);
    if (!task) return unreadable('bad_type', 'goal', 'the text of the goal', row.native.goal);
    row.any('id');
    const trace = Trace.of(NAME, record);
    for (const [turn, fields] of turnsOf(trajectory)) addTurn(trace, turn, fields);
    const score = (kind: 'reward' | 'score', label: string): void => {
      const value = row.any(label);
      if (typeof value === 'number') addScore(trace, kind, label, value, trace.episodeId);
    };
    score('reward', 'progress_rate');
    score('score', 'grounding_acc');
    const done = row.any('is_done');
    return trace.finish(
      {
        task,
        agents: [AGENT],
        finished: {
          // Of web tasks a number: how far the reference was reached.
          outcome: done === true || done === 1 ? 'success' : done === false || done === 0 ? 'failure' : 'unknown',
          unmapped: row.rest(),
        },
      },
      row.problems,
    );
  },
});

function turnsOf(trajectory: Reader): readonly (readonly [turn: number, fields: Reader])[] {
  const turns = Object.keys(trajectory.native).flatMap((name) =>
    trajectory.attempt(() => {
      const number = TURN.exec(name)?.[1];
      const fields = trajectory.any(name);
      if (number !== undefined && isRecord(fields)) return [Number(number), new Reader(fields)] as const;
      const field = `trajectory[${JSON.stringify(name).slice(0, 60)}]`;
      return unreadable('bad_shape', field, 'a turn "Interaction Turn N"', fields);
    }),
  );
  return turns.sort(([a], [b]) => a - b);
}

const text = (value: unknown): string => (typeof value === 'string' ? value : canonicalJson(value));

function addTurn(trace: Trace, turn: number, fields: Reader): void {
  const [action, seen] = [fields.any('Action'), fields.any('Observation')];
  if (action !== undefined) {
    const data = { seq: 2 * turn, call_id: `turn/${turn}`, turn, flags: ['parsed_action'] };
    trace.answer(turn, AGENT, text(action), data);
  }
  if (seen !== undefined) {
    const data = { seq: 2 * turn + 1, message_id: `observation/${turn}`, role: 'environment' };
    trace.message(turn, 'environment', text(seen), data);
  }
  const progress = fields.number('Progress Rate') ?? fields.number('Reward');
  if (action !== undefined && progress !== undefined)
    addScore(trace, 'score', 'progress_rate', progress, `turn/${turn}/0`, 'step');
}

function addScore(
  trace: Trace,
  kind: 'reward' | 'score',
  name: string,
  value: number,
  id: string,
  of: 'episode' | 'step' = 'episode',
): void {
  const target = { kind: of, id, episode_id: trace.episodeId };
  const feedback = hashId(NAME, trace.episodeId, kind, name, id);
  trace.events.push(
    emit.event('feedback.recorded', [feedback], { feedback_id: feedback, target, kind, name, value, by: 'env' }),
  );
}
