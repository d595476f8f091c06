/**
 * Who&When: logs of teams that failed, each labelled by a person with the agent and the entry of the decisive mistake. Speakers are
 * in `name` in one half of the set and in `role` in the other, there with a suffix in brackets for the recipient or purpose.
 */
import type { Refusal } from '../../../errors.ts';
import type { Draft, EventData } from '../../events/events.ts';
import { asText, given, hashId, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type AuthorKind, bareName, kindOf } from '../kit/authors.ts';
import type { Converted, Format, NativeRecord } from '../kit/format.ts';
import { emitterFor, rawRecord, recordId, refusal, refused, taskIdOfText } from '../kit/native.ts';

const NAME = 'who-when';
const emit = emitterFor(NAME);

export const whoWhen: Format = {
  name: NAME,
  summary: 'Who&When failure logs: one document a run, with history and mistake_agent, mistake_step, mistake_reason',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isRecord(record) && Array.isArray(record.history) && ('mistake_agent' in record || 'mistake_step' in record),
    ),
  convert,
  restates: new Set(['task.defined']),
};

type Entry = {
  readonly seq: number;
  readonly speaker: string;
  readonly kind: AuthorKind;
  readonly native: NativeEntry;
};
type NativeEntry = Readonly<Record<string, unknown>> & { readonly content: string; readonly role: string };

function convert(record: NativeRecord): Converted {
  const { value, canonical } = record;
  if (!isRecord(value)) return refused(refusal('bad_type', '', 'a log object', value));
  if (!Array.isArray(value.history)) return refused(refusal('bad_type', 'history', 'a list of entries', value.history));
  const refusals: Refusal[] = [];
  const entries = value.history.flatMap((native, seq) => entryOf(native, seq, refusals));
  const task = taskOf(value, refusals);
  const episodeId = recordId(NAME, record);
  const raw = rawRecord(emit, episodeId, canonical);
  const label = labelOf(value, episodeId, value.history.length, entries, refusals);
  const drafts: Draft[] = [
    ...(task ? [emit.state('task.defined', task)] : []),
    raw.draft,
    emit.event('episode.started', [episodeId], {
      episode_id: episodeId,
      ...(task ? { task_id: task.task_id } : {}),
      native: { format: NAME },
      raw: { artifact_id: raw.artifactId },
    }),
    ...agentDrafts(value.system_prompt, entries, episodeId),
    ...entries.flatMap((entry) => entryDrafts(entry, episodeId)),
    ...(label ? [emit.event('feedback.recorded', [episodeId], label)] : []),
    emit.event('episode.finished', [episodeId], {
      episode_id: episodeId,
      outcome: outcomeOf(value),
      seq: value.history.length,
      ...given('unmapped', restOf(value, label !== null)),
    }),
  ];
  return { drafts, refusals, raw: canonical };
}

function taskOf(value: Record<string, unknown>, refusals: Refusal[]): EventData<'task.defined'> | null {
  const { question, question_ID: id, ground_truth: truth, level } = value;
  const text = typeof question === 'string' ? question : null;
  if (id !== undefined && id !== null && !isIdentifier(id)) {
    refusals.push(refusal('bad_identifier', 'question_ID', 'a text without U+0000 and lone surrogates', id));
  }
  const taskId = isIdentifier(id) ? id : text === null ? null : taskIdOfText(text);
  if (taskId === null) return null;
  return {
    task_id: taskId,
    source: NAME,
    ...(text === null ? {} : { query: text }),
    ...given('ground_truth', truth),
    ...(level === undefined || level === null ? {} : { difficulty: asText(level) }),
  };
}

function entryOf(native: unknown, seq: number, refusals: Refusal[]): Entry[] {
  const field = `history[${seq}]`;
  const refuse = (...problem: Parameters<typeof refusal>): Entry[] => {
    refusals.push(refusal(...problem));
    return [];
  };
  if (!isRecord(native)) return refuse('bad_type', field, 'an entry object', native);
  if (typeof native.content !== 'string') return refuse('bad_type', `${field}.content`, 'a text', native.content);
  if (typeof native.role !== 'string') return refuse('bad_type', `${field}.role`, 'a text', native.role);
  const named = native.name === undefined || native.name === null ? 'role' : 'name';
  const author = native[named];
  if (!isIdentifier(author)) return refuse('bad_identifier', `${field}.${named}`, 'the name of the speaker', author);
  const speaker = bareName(author);
  return [{ seq, speaker, kind: kindOf(speaker), native: native as NativeEntry }];
}

function agentDrafts(prompts: unknown, entries: readonly Entry[], episodeId: string): Draft[] {
  const instructions = isRecord(prompts) ? prompts : {};
  const speakers = entries.filter((entry) => entry.kind === 'agent').map((entry) => entry.speaker);
  const names = new Set([
    ...Object.keys(instructions).filter((name) => isIdentifier(name) && kindOf(name) === 'agent'),
    ...speakers,
  ]);
  return [...names].map((name) =>
    emit.event('agent.defined', [episodeId, name], {
      episode_id: episodeId,
      agent_id: name,
      name,
      ...(typeof instructions[name] === 'string' ? { system_instructions: instructions[name] } : {}),
    }),
  );
}

function entryDrafts({ seq, speaker, kind, native }: Entry, episodeId: string): Draft[] {
  const { content, role } = native;
  const inEpisode = { episode_id: episodeId, seq };
  const named = native.name !== undefined && native.name !== null;
  const plainRole = named ? { role } : role === speaker ? {} : { speaker: role };
  const unmapped = given('unmapped', without({ ...without(native, 'content', 'role', 'name'), ...plainRole }));
  if (kind === 'user') {
    const sender = { message_id: `m${seq}`, from: speaker, role: named ? role : 'user' };
    return [emit.event('message.sent', [episodeId, seq], { ...inEpisode, ...sender, content, ...unmapped })];
  }
  if (kind === 'environment') {
    const state = { name: speaker };
    return [
      emit.event('environment.observed', [episodeId, seq], {
        ...inEpisode,
        kind: 'output',
        content,
        state,
        ...unmapped,
      }),
    ];
  }
  const call = { ...inEpisode, call_id: `m${seq}`, agent_id: speaker };
  const choices = [{ index: 0, content }];
  const receiver = /\(->([^()]+)\)\s*$/.exec(role)?.[1]?.trim();
  return [
    emit.event('generation.completed', [episodeId, seq], { ...call, choices, ...unmapped }),
    ...(receiver !== undefined && isIdentifier(receiver) && kindOf(receiver) === 'agent'
      ? [
          emit.event('control.transferred', [episodeId, seq], {
            ...inEpisode,
            from_agent: speaker,
            to_agent: receiver,
            kind: 'delegate',
          }),
        ]
      : []),
  ];
}

/** The mistake as feedback on its agent, with the entry named; null where the source has no label or one that cannot be read. */
function labelOf(
  value: Record<string, unknown>,
  episodeId: string,
  size: number,
  entries: readonly Entry[],
  refusals: Refusal[],
): EventData<'feedback.recorded'> | null {
  const { mistake_agent: agent, mistake_step: step, mistake_reason: reason, mistake_type: type } = value;
  if (agent === undefined && step === undefined) return null;
  const refuse = (...problem: Parameters<typeof refusal>): null => {
    refusals.push(refusal(...problem));
    return null;
  };
  const written = typeof step === 'string' && /^\d+$/.test(step.trim()) ? Number(step) : step;
  if (!Number.isSafeInteger(written)) return refuse('bad_number', 'mistake_step', 'the index of a history entry', step);
  const entry = written as number;
  if (entry < 0 || entry >= size) {
    return refuse('bad_reference', 'mistake_step', `an index from 0 to ${size - 1} into history`, step);
  }
  if (!isIdentifier(agent)) return refuse('bad_identifier', 'mistake_agent', 'the name of an agent', agent);
  const name = bareName(agent);
  const found = entries.find((one) => one.seq === entry);
  const matches = found?.kind === 'agent' && found.speaker === name && name === agent;
  return {
    feedback_id: hashId(NAME, episodeId, 'mistake'),
    target: {
      kind: 'agent',
      id: name,
      episode_id: episodeId,
      entry,
      ...(found?.kind === 'agent' ? { step_id: `m${entry}/0` } : {}),
    },
    kind: 'failure',
    name: 'mistake',
    taxonomy: { name: NAME },
    by: 'human',
    ...(typeof reason === 'string' ? { explanation: reason } : {}),
    ...(typeof type === 'string' ? { label: type } : {}),
    ...(matches ? {} : { flags: ['agent_mismatch'] }),
  };
}

function outcomeOf({ is_correct: correct, is_corrected: corrected }: Record<string, unknown>) {
  const label = correct ?? corrected;
  return label === false ? 'failure' : label === true ? 'success' : 'unknown';
}

/** Fields of the source that no event has a place for. */
function restOf(value: Record<string, unknown>, labelled: boolean): Record<string, unknown> | undefined {
  const { mistake_reason: reason, mistake_type: type, level, system_prompt: prompts } = value;
  const unused = isRecord(prompts)
    ? Object.entries(prompts).filter(([name, prompt]) => kindOf(name) !== 'agent' || typeof prompt !== 'string')
    : [];
  const unreadable = {
    ...(unused.length > 0 ? { system_prompt: Object.fromEntries(unused) } : {}),
    ...(isRecord(prompts) ? {} : given('system_prompt', prompts)),
    ...(typeof level === 'number' ? { level } : {}),
    ...(typeof reason === 'string' ? {} : given('mistake_reason', reason)),
    ...(typeof type === 'string' ? {} : given('mistake_type', type)),
  };
  const known = [
    'question',
    'question_ID',
    'ground_truth',
    'level',
    'history',
    'system_prompt',
    'is_correct',
    'is_corrected',
  ];
  const label = ['mistake_agent', 'mistake_step', 'mistake_reason', 'mistake_type'];
  return without({ ...without(value, ...known, ...(labelled ? label : [])), ...unreadable });
}
