/**
 * MAST-Data (MAD): logs of many systems, labelled with the ways in which a team of agents fails. The full set has one verdict a code,
 * the human set one a person under the names of its round. Logs of AG2 are literals of Python; any other log is one step of nobody.
 */
import { canonicalJson, isRecord, without } from '../../events/json.ts';
import { parseWritten } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { bareName, kindOf } from '../kit/authors.ts';
import { pythonLiterals } from '../kit/python-literals.ts';
import { format, unreadable } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'mast';

export const mast = format({
  name: NAME,
  summary: 'MAST failure data: {mas_name, trace, mast_annotation}, or annotations of three people',
  called: 'an annotated trace',
  recognises: (row) => 'mas_name' in row && 'trace' in row && ('mast_annotation' in row || 'annotations' in row),
  convert(row, record) {
    const isFull = 'mast_annotation' in row.native;
    const log = isFull
      ? row.object('trace', 'an object with a trajectory').text('trajectory', 'the log as a text')
      : row.text('trace', 'the log as a text');
    const { mast_annotation: annotation, annotations } = row.native;
    const labels = isFull ? fullLabels(annotation) : humanLabels(annotations);
    const empty = /^(?:\[\s*\]|\{\s*\})?$/.test(log.trim());
    const entries = empty ? [] : entriesIn(log);
    const trace = Trace.of(NAME, record);
    if (entries) for (const entry of entries) addEntry(trace, entry);
    else {
      // A log of any other form is one step of nobody.
      const choices = [{ index: 0, content: log }];
      trace.add('generation.completed', [0], { seq: 0, call_id: 'm0', choices, flags: ['unsegmented'] });
    }
    const asked = entries?.find(({ speaker }) => kindOf(speaker) === 'user');
    const tags = row.these('mas_name', 'llm_name', 'benchmark_name', 'trace_id', 'round') ?? {};
    const run = trace.finish({
      task: taskOf(NAME, asked?.text),
      incomplete: empty,
      flags: empty || entries ? [] : ['unsegmented'],
      started: {
        tags,
        // With all verdicts as they are written, the zeros, the unknown ones and those of a minority too.
        unmapped: row.rest(),
      },
    });
    const after = Trace.of(NAME, record);
    for (const label of labels) addLabel(after, label, row.text('round'));
    return { ...run, drafts: [...run.drafts, ...after.events] };
  },
});

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

function addEntry(trace: Trace, { seq, speaker, text, role, rest }: Entry): void {
  const unmapped = without({ ...rest, role: role === speaker ? undefined : role });
  const kind = kindOf(speaker);
  if (kind === 'agent') trace.answer(seq, speaker, text, { unmapped });
  else if (kind === 'user') trace.message(seq, speaker, text, { role: 'user', unmapped });
  else trace.observed(seq, 'output', { content: text, state: { name: speaker }, unmapped });
}

function fullLabels(annotation: unknown): Label[] {
  if (!isRecord(annotation)) return unreadable('bad_type', 'mast_annotation', 'an object of codes', annotation);
  for (const [code, verdict] of Object.entries(annotation)) {
    if (verdict === 0 || verdict === 1 || verdict === null) continue;
    return unreadable('bad_type', `mast_annotation.${code}`, '0, 1 or null', verdict);
  }
  return Object.entries(annotation).flatMap(([code, verdict]) =>
    verdict === 1 ? [{ name: `FM-${code}`, label: MODES.get(code) ?? code }] : [],
  );
}

/** What most of the people who judged a mode saw; the numbers of earlier rounds name other modes than today's. */
function humanLabels(annotations: unknown): Label[] {
  if (!Array.isArray(annotations)) return unreadable('bad_type', 'annotations', 'a list of failure modes', annotations);
  const labels: Label[] = [];
  for (const [i, annotation] of annotations.entries()) {
    const field = `annotations[${i}]`;
    const mode = isRecord(annotation) ? annotation['failure mode'] : undefined;
    if (typeof mode !== 'string') return unreadable('bad_type', `${field}.failure mode`, 'the name of a mode', mode);
    const votes = Object.entries(annotation).filter(([name]) => /^annotator_\d+$/.test(name));
    const bad = votes.find(([, vote]) => typeof vote !== 'boolean' && vote !== null);
    if (bad) return unreadable('bad_type', `${field}.${bad[0]}`, 'true, false or null', bad[1]);
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

function addLabel(trace: Trace, { name, label, confidence }: Label, round: string | undefined): void {
  trace.feedback([name], {
    kind: 'failure',
    name,
    value: true,
    label,
    taxonomy: { name: 'MAST', ...(round === undefined ? {} : { version: round }) },
    by: confidence === undefined ? 'model' : 'human',
    confidence,
  });
}

/** The fourteen failure modes of MAST, by code, and by the names under which they go. arXiv 2503.13657. */
const MODES: ReadonlyMap<string, string> = new Map([
  ['1.1', 'Disobey Task Specification'],
  ['1.2', 'Disobey Role Specification'],
  ['1.3', 'Step Repetition'],
  ['1.4', 'Loss of Conversation History'],
  ['1.5', 'Unaware of Termination Conditions'],
  ['2.1', 'Conversation Reset'],
  ['2.2', 'Fail to Ask for Clarification'],
  ['2.3', 'Task Derailment'],
  ['2.4', 'Information Withholding'],
  ['2.5', "Ignored Other Agent's Input"],
  ['2.6', 'Reasoning-Action Mismatch'],
  ['3.1', 'Premature Termination'],
  ['3.2', 'No or Incomplete Verification'],
  ['3.3', 'Incorrect Verification'],
]);

const words = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z ]+/g, ' ')
    .trim()
    .split(/\s+/)
    .filter((word) => word !== 's' && word !== 'the')
    .join(' ');

const BY_NAME = new Map([
  ...[...MODES].map(([code, name]) => [words(name), code] as const),
  [words('Action-Reasoning Mismatch'), '2.6'],
  [words('Unaware of Stopping Conditions'), '1.5'],
]);

/** The code of a mode by its name, in any case and punctuation; null for a mode of an earlier round that has none. */
const failureMode = (name: string): string | null => BY_NAME.get(words(name)) ?? null;
