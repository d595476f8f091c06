/**
 * MAST-Data (MAD): logs of many systems, labelled with the ways in which a team of agents fails. The full set has one verdict a code,
 * the human set one a person under the names of its round. Logs of AG2 are literals of Python; any other log is one step of nobody.
 */
import type { Draft } from '../../events/events.ts';
import { canonicalJson, given, hashId, isRecord, without } from '../../events/json.ts';
import { parseWritten } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { bareName, kindOf } from '../kit/authors.ts';
import type { Converted, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import { pythonLiterals } from '../kit/python-literals.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from '../kit/run.ts';
import { failureMode, MODES } from './mast-modes.ts';

const NAME = 'mast';
const emit = emitterFor(NAME);

export const mast: Format = {
  name: NAME,
  summary: 'MAST failure data: {mas_name, trace, mast_annotation}, or annotations of three people',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isRecord(record) &&
        'mas_name' in record &&
        'trace' in record &&
        ('mast_annotation' in record || 'annotations' in record),
    ),
  convert,
  restates: new Set(['task.defined']),
};

type Entry = {
  readonly seq: number;
  readonly speaker: string;
  readonly text: string;
  readonly role: unknown;
  readonly rest?: object;
};
type Label = {
  readonly name: string;
  readonly label: string;
  readonly confidence?: number;
  readonly unmapped?: object;
};

function convert(record: NativeRecord): Converted {
  const { value: row } = record;
  if (!isRecord(row)) return refused(refusal('bad_type', '', 'an annotated trace', row));
  const log = logOf(row);
  if ('code' in log) return refused(log);
  const labels = 'mast_annotation' in row ? fullLabels(row.mast_annotation) : humanLabels(row.annotations);
  if (!Array.isArray(labels)) return refused(labels);
  const episodeId = recordId(NAME, record);
  const empty = /^(?:\[\s*\]|\{\s*\})?$/.test(log.text.trim());
  const entries = empty ? [] : entriesIn(log.text);
  const agents = new Set(entries?.map(({ speaker }) => speaker).filter((name) => kindOf(name) === 'agent'));
  const asked = entries?.find(({ speaker }) => kindOf(speaker) === 'user');
  const { mas_name, llm_name, benchmark_name, trace_id, round } = row;
  const known = [
    'mas_name',
    'llm_name',
    'benchmark_name',
    'trace_id',
    'round',
    'trace',
    'mast_annotation',
    'annotations',
  ];
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task: taskOf(NAME, asked?.text),
      started: {
        tags: without({ mas_name, llm_name, benchmark_name, trace_id, round }) ?? {},
        flags: [NO_TOKEN_IDS, ...(empty ? ['incomplete'] : entries ? [] : ['unsegmented'])],
        ...given('unmapped', without({ ...without(row, ...known), trace: log.rest, ...verdictsOf(row) })),
      },
      agents,
      events: entries ? entries.map((entry) => entryDraft(entry, episodeId)) : [wholeDraft(log.text, episodeId)],
      finished: { outcome: 'unknown' },
    }).concat(labels.map((label) => labelDraft(label, episodeId, round))),
    refusals: [],
    raw: record.canonical,
  };
}

/** All verdicts as they are written, the zeros, the unknown ones and those of a minority too. */
const verdictsOf = ({ mast_annotation, annotations }: Record<string, unknown>) =>
  without({ mast_annotation, annotations });

/** The log of a row: in the full set a member of `trace`, in the human set `trace` itself. */
function logOf(row: Record<string, unknown>): { readonly text: string; readonly rest?: object } | NativeRefusal {
  const { trace } = row;
  if ('mast_annotation' in row) {
    if (!isRecord(trace)) return refusal('bad_type', 'trace', 'an object with a trajectory', trace);
    const { trajectory, ...rest } = trace;
    if (typeof trajectory !== 'string') return refusal('bad_type', 'trace.trajectory', 'the log as a text', trajectory);
    return { text: trajectory, rest };
  }
  if (typeof trace === 'string') return { text: trace };
  return refusal('bad_type', 'trace', 'the log as a text', trace);
}

/** The entries of a log of literals, or of JSON; null for a log of any other form. */
function entriesIn(text: string): readonly Entry[] | null {
  const parsed = /^\s*[[{]/.test(text) ? parseWritten(text) : null;
  const values = parsed && !('refusal' in parsed) ? [parsed.value] : pythonLiterals(text);
  const [only] = values ?? [];
  const inside =
    isRecord(only) && !('content' in only)
      ? only.trajectory
      : values?.length === 1 && Array.isArray(only)
        ? only
        : values;
  if (!Array.isArray(inside) || inside.length === 0) return null;
  const entries = inside.map((value: unknown, seq): Entry | null => {
    if (!isRecord(value)) return null;
    const { content, role, name, ...rest } = value;
    const author = isIdentifier(name) ? name : role;
    if (!isIdentifier(author) || content === undefined) return null;
    const lines = [content].flat().map((line) => (typeof line === 'string' ? line : canonicalJson(line)));
    return {
      seq,
      speaker: bareName(author),
      role,
      text: lines.join('\n'),
      ...(Object.keys(rest).length > 0 ? { rest } : {}),
    };
  });
  return entries.every((entry) => entry !== null) ? entries : null;
}

function entryDraft({ seq, speaker, text, role, rest }: Entry, episodeId: string): Draft {
  const place = { episode_id: episodeId, seq };
  const unmapped = given('unmapped', without({ ...rest, ...given('role', role === speaker ? undefined : role) }));
  if (kindOf(speaker) === 'agent') {
    const call = { ...place, call_id: `m${seq}`, agent_id: speaker };
    return emit.event('generation.completed', [episodeId, seq], {
      ...call,
      choices: [{ index: 0, content: text }],
      ...unmapped,
    });
  }
  if (kindOf(speaker) === 'environment') {
    const state = { name: speaker };
    return emit.event('environment.observed', [episodeId, seq], {
      ...place,
      kind: 'output',
      content: text,
      state,
      ...unmapped,
    });
  }
  const message = { ...place, message_id: `m${seq}`, from: speaker, role: 'user', content: text };
  return emit.event('message.sent', [episodeId, seq], { ...message, ...unmapped });
}

const wholeDraft = (text: string, episodeId: string): Draft =>
  emit.event('generation.completed', [episodeId, 0], {
    episode_id: episodeId,
    seq: 0,
    call_id: 'm0',
    choices: [{ index: 0, content: text }],
    flags: ['unsegmented'],
  });

function fullLabels(annotation: unknown): Label[] | NativeRefusal {
  if (!isRecord(annotation)) return refusal('bad_type', 'mast_annotation', 'an object of codes', annotation);
  for (const [code, verdict] of Object.entries(annotation)) {
    if (verdict === 0 || verdict === 1 || verdict === null) continue;
    return refusal('bad_type', `mast_annotation.${code}`, '0, 1 or null', verdict);
  }
  return Object.entries(annotation).flatMap(([code, verdict]) =>
    verdict === 1 ? [{ name: `FM-${code}`, label: MODES.get(code) ?? code }] : [],
  );
}

/** What most of the people who judged a mode saw; the numbers of earlier rounds name other modes than today's. */
function humanLabels(annotations: unknown): Label[] | NativeRefusal {
  if (!Array.isArray(annotations)) return refusal('bad_type', 'annotations', 'a list of failure modes', annotations);
  const labels: Label[] = [];
  for (const [i, annotation] of annotations.entries()) {
    const field = `annotations[${i}]`;
    const mode = isRecord(annotation) ? annotation['failure mode'] : undefined;
    if (typeof mode !== 'string') return refusal('bad_type', `${field}.failure mode`, 'the name of a mode', mode);
    const votes = Object.entries(annotation).filter(([name]) => /^annotator_\d+$/.test(name));
    const bad = votes.find(([, vote]) => typeof vote !== 'boolean' && vote !== null);
    if (bad) return refusal('bad_type', `${field}.${bad[0]}`, 'true, false or null', bad[1]);
    const cast = votes.filter(([, vote]) => vote !== null);
    const ayes = cast.filter(([, vote]) => vote === true).length;
    if (ayes * 2 <= cast.length) continue;
    const title =
      mode
        .split('\n', 1)[0]!
        .replace(/^\s*[\d.]+\s*/, '')
        .trim() || mode.slice(0, 100);
    const code = failureMode(title);
    labels.push({
      name: code ? `FM-${code}` : title,
      label: code ? MODES.get(code)! : title,
      confidence: ayes / cast.length,
    });
  }
  return labels;
}

function labelDraft({ name, label, confidence }: Label, episodeId: string, round: unknown): Draft {
  return emit.event('feedback.recorded', [episodeId, name], {
    feedback_id: hashId(NAME, episodeId, name),
    target: { kind: 'episode', id: episodeId, episode_id: episodeId },
    kind: 'failure',
    name,
    value: true,
    label,
    taxonomy: { name: 'MAST', ...given('version', typeof round === 'string' ? round : undefined) },
    by: confidence === undefined ? 'model' : 'human',
    ...given('confidence', confidence),
  });
}
