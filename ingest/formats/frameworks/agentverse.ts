/**
 * AgentVerse task solving and MAS-TTS, one run a line: the output of each module, round by round. Which of the recruited experts wrote it
 * stands only in the text of the modules, so the modules are the agents.
 */
import type { Draft } from '../../events/events.ts';
import { canonicalJson, given, hashId, isRecord, without } from '../../events/json.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { badIdentifier, emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import { runDrafts, taskOf } from '../kit/run.ts';

const NAME = 'agentverse';
const emit = emitterFor(NAME);

export const agentverse: Format = {
  name: NAME,
  summary: 'AgentVerse and MAS-TTS results: {input, response, label, logs: [{module | agent, content}]}',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isRecord(record) &&
        'input' in record &&
        Array.isArray(record.logs) &&
        record.logs.some((log) => isRecord(log) && ('module' in log || 'agent' in log)),
    ),
  convert,
  restates: new Set(['task.defined']),
};

type Entry = { readonly speaker: string; readonly content: string | Record<string, unknown>; readonly rest?: object };

function convert(record: NativeRecord): Conversion {
  const { value: line } = record;
  if (!isRecord(line)) return refused(refusal('bad_type', '', 'a result object', line));
  const task = taskOf(NAME, line.input, given('ground_truth', line.label ?? undefined));
  if (!task) return refused(refusal('bad_type', 'input', 'the text of the task', line.input));
  if (!Array.isArray(line.logs)) return refused(refusal('bad_type', 'logs', 'a list of entries', line.logs));
  const refusals: NativeRefusal[] = [];
  const episodeId = recordId(NAME, record);
  const agents = new Set<string>();
  const drafts: Draft[] = [];
  let turn = 0;
  let verdict: 'accept' | 'reject' | null = null;
  for (const [seq, native] of line.logs.entries()) {
    const entry = entryOf(native, `logs[${seq}]`);
    if ('code' in entry) {
      refusals.push(entry);
      continue;
    }
    const place = { episode_id: episodeId, turn, seq };
    if (entry.speaker === 'system') {
      const judged = verdictOf(entry);
      if (judged) verdict = judged;
      drafts.push(systemDraft(entry, judged, place));
      if (judged) turn++;
    } else {
      agents.add(entry.speaker);
      drafts.push(...entryDrafts(entry, place));
    }
  }
  const { response, spend } = line;
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task,
      agents,
      events: drafts,
      finished: {
        outcome: verdict === 'accept' ? 'success' : verdict === 'reject' ? 'failure' : 'unknown',
        seq: line.logs.length,
        ...(typeof response === 'string' ? { answer: response } : {}),
        ...(spend === undefined || spend === null ? {} : { totals: { spend } }),
        ...given('unmapped', restOf(line)),
      },
    }),
    refusals,
    raw: record.canonical,
  };
}

const restOf = (line: Record<string, unknown>): Record<string, unknown> | undefined =>
  without(line, 'input', 'label', 'logs', 'spend', ...(typeof line.response === 'string' ? ['response'] : []));

function entryOf(native: unknown, field: string): Entry | NativeRefusal {
  if (!isRecord(native)) return refusal('bad_type', field, 'an entry object', native);
  const named = 'module' in native ? 'module' : 'agent';
  const bad = badIdentifier(native[named], `${field}.${named}`);
  if (bad) return bad;
  const { content } = native;
  if (typeof content !== 'string' && !isRecord(content)) {
    return refusal('bad_type', `${field}.content`, 'a text or an object', content);
  }
  const rest = without(native, named, 'content');
  return { speaker: native[named] as string, content, ...(rest ? { rest } : {}) };
}

type Place = { readonly episode_id: string; readonly turn: number; readonly seq: number };

/** "Good score! Accept!" or "Bad score! Reject!" ends a round. */
function verdictOf({ content }: Entry): 'accept' | 'reject' | null {
  if (typeof content !== 'string') return null;
  return /\baccept/i.test(content) ? 'accept' : /\breject/i.test(content) ? 'reject' : null;
}

function systemDraft({ content, rest }: Entry, verdict: 'accept' | 'reject' | null, place: Place): Draft {
  const unmapped = given('unmapped', rest as Record<string, unknown> | undefined);
  if (verdict) {
    return emit.event('decision.made', [place.episode_id, place.seq], {
      ...place,
      by: 'system',
      kind: verdict,
      decision: content,
      ...unmapped,
    });
  }
  return emit.event('environment.observed', [place.episode_id, place.seq], {
    ...place,
    kind: 'output',
    content,
    ...unmapped,
  });
}

function entryDrafts({ speaker, content, rest }: Entry, place: Place): Draft[] {
  const { episode_id: episodeId, seq } = place;
  const text = typeof content === 'string' ? content : canonicalJson(content);
  const call = { ...place, call_id: `m${seq}`, agent_id: speaker };
  return [
    emit.event('generation.completed', [episodeId, seq], {
      ...call,
      choices: [{ index: 0, content: text }],
      ...given('unmapped', rest as Record<string, unknown> | undefined),
    }),
    ...(isRecord(content) ? decisionDrafts(speaker, content, place) : []),
    ...(speaker.toLowerCase() === 'evaluator' ? scoreDrafts(text, place) : []),
  ];
}

/** What a CEO decided, each by its kind; what it weighed stays in its text. */
function decisionDrafts(by: string, content: Record<string, unknown>, place: Place): Draft[] {
  const { decision, recruit_number: number, direction, maximum_tokens: tokens } = content;
  const word = typeof decision === 'string' ? decision.trim().toLowerCase() : '';
  const draft = (kind: string, what: unknown): Draft =>
    emit.event('decision.made', [place.episode_id, place.seq, kind], { ...place, by, kind, decision: what });
  return [
    ...(word === 'continue' || word === 'stop' ? [draft(word, { decision })] : []),
    ...(number === undefined ? [] : [draft('recruit', { recruit_number: number, ...given('direction', direction) })]),
    ...(tokens === undefined ? [] : [draft('budget', { maximum_tokens: tokens })]),
  ];
}

function scoreDrafts(text: string, { episode_id: episodeId, turn, seq }: Place): Draft[] {
  const value = scoreIn(/\bScore:\s*([^\n]*)/i.exec(text)?.[1]?.trim() ?? '');
  if (value === null) return [];
  const advice = /\bAdvice:\s*([\s\S]*)/i.exec(text)?.[1]?.trim();
  return [
    emit.event('feedback.recorded', [episodeId, seq], {
      feedback_id: hashId(NAME, episodeId, seq),
      target: { kind: 'episode', id: episodeId, episode_id: episodeId, entry: seq },
      kind: 'score',
      name: 'evaluation',
      value,
      by: 'model',
      annotator: 'evaluator',
      seq,
      ...(advice ? { explanation: advice } : {}),
      unmapped: { turn },
    }),
  ];
}

/** True or False, a number, or a list of numbers; null for anything else. */
function scoreIn(word: string): boolean | number | number[] | null {
  if (/^(true|false)$/i.test(word)) return word.toLowerCase() === 'true';
  const numbers = word
    .replace(/^[[(]|[\])]$/g, '')
    .split(',')
    .map((one) => one.trim());
  if (!numbers.every((one) => /^-?\d+(\.\d+)?$/.test(one))) return null;
  return /^[[(]/.test(word) ? numbers.map(Number) : numbers.length === 1 ? Number(word) : null;
}
