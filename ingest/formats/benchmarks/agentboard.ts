/**
 * Logs of AgentBoard (hkust-nlp/AgentBoard at bb7255e2, agentboard/utils/logging/logger.py): documents one after the other, each an example
 * {id, task_name, goal, trajectory: {"Interaction Turn N": {Action, Observation, "Progress Rate"}}}. The prompts are not in the file, and
 * what an agent sees first is overwritten in it by what its first action led to.
 */
import type { Draft } from '../../events/events.ts';
import { asText, canonicalJson, given, hashId, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Converted, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from '../kit/run.ts';

const NAME = 'agentboard';
const AGENT = 'agent';
const TURN = /^Interaction Turn (\d{1,6})$/;
const emit = emitterFor(NAME);

type Fields = Readonly<Record<string, unknown>>;

export const agentboard: Format = {
  name: NAME,
  summary: 'AgentBoard logs: {id, task_name, goal, progress_rate, trajectory: {"Interaction Turn 0": …}}',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isRecord(record) &&
        'goal' in record &&
        'progress_rate' in record &&
        isRecord(record.trajectory) &&
        Object.keys(record.trajectory).some((name) => TURN.test(name)),
    ),
  convert,
  restates: new Set(['task.defined']),
};

function convert(record: NativeRecord): Converted {
  const { value: example } = record;
  if (!isRecord(example)) return refused(refusal('bad_type', '', 'an example object', example));
  const { id, task_name: name, goal, difficulty, is_done: done, trajectory } = example;
  if (!isRecord(trajectory)) return refused(refusal('bad_type', 'trajectory', 'turns by name', trajectory));
  const native =
    isIdentifier(name) && (Number.isSafeInteger(id) || isIdentifier(id)) ? `${NAME}/${name}/${asText(id)}` : undefined;
  const task = taskOf(NAME, goal, { tags: without({ task_name: name, difficulty }) ?? {} }, native);
  if (!task) return refused(refusal('bad_type', 'goal', 'the text of the goal', goal));
  const episodeId = recordId(NAME, record);
  const refusals: NativeRefusal[] = [];
  const events = turnsOf(trajectory, refusals).flatMap(({ turn, fields }) => turnDrafts(episodeId, turn, fields));
  const score = (kind: 'reward' | 'score', label: string, value: unknown): Draft[] =>
    typeof value === 'number'
      ? [scoreDraft(episodeId, kind, label, value, { kind: 'episode', id: episodeId, episode_id: episodeId })]
      : [];
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task,
      started: { flags: [NO_TOKEN_IDS, ...(refusals.length > 0 ? ['incomplete'] : [])] },
      agents: [AGENT],
      events: [
        ...events,
        ...score('reward', 'progress_rate', example.progress_rate),
        ...score('score', 'grounding_acc', example.grounding_acc),
      ],
      finished: {
        // Of web tasks a number: how far the reference was reached.
        outcome: done === true || done === 1 ? 'success' : done === false || done === 0 ? 'failure' : 'unknown',
        ...given(
          'unmapped',
          without(
            example,
            'id',
            'task_name',
            'goal',
            'difficulty',
            'progress_rate',
            'grounding_acc',
            'trajectory',
            'is_done',
          ),
        ),
      },
    }),
    refusals,
    raw: record.canonical,
  };
}

function turnsOf(trajectory: Fields, refusals: NativeRefusal[]): { readonly turn: number; readonly fields: Fields }[] {
  const turns = Object.entries(trajectory).flatMap(([name, fields]) => {
    const number = TURN.exec(name)?.[1];
    if (number !== undefined && isRecord(fields)) return [{ turn: Number(number), fields }];
    refusals.push(
      refusal('bad_shape', `trajectory[${JSON.stringify(name).slice(0, 60)}]`, 'a turn "Interaction Turn N"', fields),
    );
    return [];
  });
  return turns.sort((a, b) => a.turn - b.turn);
}

const text = (value: unknown): string => (typeof value === 'string' ? value : canonicalJson(value));

function turnDrafts(episodeId: string, turn: number, { Action: action, Observation: seen, ...rest }: Fields): Draft[] {
  const call = { episode_id: episodeId, call_id: `turn/${turn}`, agent_id: AGENT, turn };
  const progress = [rest['Progress Rate'], rest.Reward].find((value) => typeof value === 'number');
  const acted = action !== undefined && action !== null;
  return [
    ...(acted
      ? [
          emit.event('generation.completed', [episodeId, turn], {
            ...call,
            seq: 2 * turn,
            choices: [{ index: 0, content: text(action) }],
            flags: ['parsed_action'],
          }),
        ]
      : []),
    ...(seen === undefined || seen === null
      ? []
      : [
          emit.event('message.sent', [episodeId, turn], {
            episode_id: episodeId,
            seq: 2 * turn + 1,
            message_id: `observation/${turn}`,
            from: 'environment',
            role: 'environment',
            content: text(seen),
          }),
        ]),
    ...(acted && typeof progress === 'number'
      ? [
          scoreDraft(episodeId, 'score', 'progress_rate', progress, {
            kind: 'step',
            id: `turn/${turn}/0`,
            episode_id: episodeId,
          }),
        ]
      : []),
  ];
}

function scoreDraft(
  episodeId: string,
  kind: 'reward' | 'score',
  name: string,
  value: number,
  target: { readonly kind: 'episode' | 'step'; readonly id: string; readonly episode_id: string },
): Draft {
  const id = hashId(NAME, episodeId, kind, name, target.id);
  return emit.event('feedback.recorded', [id], { feedback_id: id, target, kind, name, value, by: 'env' });
}
