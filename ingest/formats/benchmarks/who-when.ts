/**
 * Who&When: logs of teams that failed, each labelled by a person with the agent and the entry of the decisive mistake. Speakers are
 * in `name` in one half of the set and in `role` in the other, there with a suffix in brackets for the recipient or purpose.
 */
import { asText, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type AuthorKind, bareName, kindOf } from '../kit/authors.ts';
import { format, type Reader, unreadable } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'who-when';

export const whoWhen = format({
  name: NAME,
  summary: 'Who&When failure logs: one document a run, with history and mistake_agent, mistake_step, mistake_reason',
  called: 'a log object',
  recognises: (row) => Array.isArray(row.history) && ('mistake_agent' in row || 'mistake_step' in row),
  convert(row, record) {
    const size = row.list('history', 'a list of entries').length;
    const entries = row.each('history', 'a list of entries', 'an entry object', entryOf);
    const id = row.checked('question_ID', isIdentifier, 'bad_identifier', 'a text without U+0000 and lone surrogates');
    const level = row.native.level ?? undefined;
    const task = taskOf(
      NAME,
      row.any('question'),
      { ground_truth: row.any('ground_truth'), difficulty: level === undefined ? undefined : asText(level) },
      id,
    );
    if (typeof level !== 'number') row.any('level');
    const trace = Trace.of(NAME, record);
    const prompts = row.object('system_prompt');
    const members = Object.keys(prompts?.native ?? {}).filter((name) => isIdentifier(name) && kindOf(name) === 'agent');
    const speakers = entries.filter(({ kind }) => kind === 'agent').map(({ speaker }) => speaker);
    const agents = [...new Set([...members, ...speakers])].map((name) => ({
      agent_id: name,
      system_instructions: prompts?.text(name),
    }));
    for (const entry of entries) addEntry(trace, entry);
    const labels = row.attempt(() => labelOf(row, trace.episodeId, size, entries)).filter((label) => label !== null);
    for (const label of labels) trace.feedback(['mistake'], label, []);
    if (labels.length > 0) row.these('mistake_agent', 'mistake_step');
    else row.leave('mistake_agent');
    const correct = row.any('is_correct') ?? row.any('is_corrected');
    row.any('is_corrected');
    return trace.finish(
      {
        task,
        started: { flags: undefined },
        agents,
        finished: {
          outcome: correct === false ? 'failure' : correct === true ? 'success' : 'unknown',
          seq: size,
          unmapped: row.rest(),
        },
      },
      row.problems,
    );
  },
});

type Entry = {
  readonly seq: number;
  readonly speaker: string;
  readonly kind: AuthorKind;
  readonly role: string;
  readonly content: string;
  readonly isNamed: boolean;
  readonly rest: Record<string, unknown> | undefined;
};

function entryOf(entry: Reader, seq: number): Entry {
  const content = entry.text('content', 'a text');
  const role = entry.text('role', 'a text');
  const isNamed = entry.has('name');
  const speaker = bareName(entry.id(isNamed ? 'name' : 'role', 'the name of the speaker'));
  entry.any('name');
  return { seq, speaker, kind: kindOf(speaker), role, content, isNamed, rest: entry.rest() };
}

function addEntry(trace: Trace, { seq, speaker, kind, content, role, isNamed, rest }: Entry): void {
  const spoken = isNamed ? { role } : role === speaker ? {} : { speaker: role };
  const unmapped = without({ ...rest, ...spoken });
  if (kind === 'user') trace.message(seq, speaker, content, { role: isNamed ? role : 'user', unmapped });
  else if (kind === 'environment') trace.observed(seq, 'output', { content, state: { name: speaker }, unmapped });
  else {
    trace.answer(seq, speaker, content, { unmapped });
    const receiver = /\(->([^()]+)\)\s*$/.exec(role)?.[1]?.trim();
    if (isIdentifier(receiver) && kindOf(receiver) === 'agent') trace.handoff(seq, speaker, receiver, 'delegate');
  }
}

/** The mistake as feedback on its agent, with the entry named; null where the source has no label. */
function labelOf(row: Reader, episodeId: string, size: number, entries: readonly Entry[]) {
  const { mistake_agent: agent, mistake_step: step } = row.native;
  if (agent === undefined && step === undefined) return null;
  const entry = typeof step === 'string' && /^\d+$/.test(step.trim()) ? Number(step) : (step as number);
  if (!Number.isSafeInteger(entry))
    return unreadable('bad_number', 'mistake_step', 'the index of a history entry', step);
  if (entry < 0 || entry >= size)
    return unreadable('bad_reference', 'mistake_step', `an index from 0 to ${size - 1} into history`, step);
  const name = bareName(row.id('mistake_agent', 'the name of an agent'));
  const found = entries.find(({ seq, kind }) => seq === entry && kind === 'agent');
  return {
    target: {
      kind: 'agent' as const,
      id: name,
      episode_id: episodeId,
      entry,
      ...(found && { step_id: `m${entry}/0` }),
    },
    kind: 'failure' as const,
    name: 'mistake',
    taxonomy: { name: NAME },
    by: 'human' as const,
    explanation: row.text('mistake_reason'),
    label: row.text('mistake_type'),
    flags: found?.speaker === name && name === agent ? undefined : ['agent_mismatch'],
  };
}
