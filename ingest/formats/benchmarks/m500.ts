/**
 * M500 rows: the accepted work of a team on one problem, one column of messages for each role. How many solvers and rounds there
 * were and the order of the roles is not stored; they are read in the order of the method, and flagged.
 */
import type { Refusal } from '../../../errors.ts';
import type { Draft } from '../../events/events.ts';
import { given, isRecord, without } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { badConversation, conversationDrafts } from '../kit/conversation.ts';
import type { Converted, Format, NativeRecord } from '../kit/format.ts';
import { emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from '../kit/run.ts';

const NAME = 'm500';
const emit = emitterFor(NAME);

const SUFFIX = '_messages';
const COLUMNS = ['expert_recruiter', 'problem_solver', 'critic', 'evaluator'].map((role) => role + SUFFIX);

export const m500: Format = {
  name: NAME,
  summary: 'M500 rows {question, solution, expert_recruiter_messages, problem_solver_messages, critic_messages, …}',
  recognises: ({ records }) =>
    records.some((record) => isRecord(record) && COLUMNS.filter((column) => column in record).length > 1),
  convert,
  restates: new Set(['task.defined']),
};

function convert(record: NativeRecord): Converted {
  const { value: row } = record;
  if (!isRecord(row)) return refused(refusal('bad_type', '', 'a row with columns of messages', row));
  const task = taskOf(NAME, row.question, given('ground_truth', row.solution));
  if (!task) return refused(refusal('bad_type', 'question', 'the text of the problem', row.question));
  const others = Object.keys(row).filter((name) => name.endsWith(SUFFIX) && !COLUMNS.includes(name));
  const columns = [...COLUMNS.filter((name) => name in row), ...others.sort()];
  for (const column of columns) {
    const bad = badColumn(row[column], column);
    if (bad) return refused(bad);
  }
  const episodeId = recordId(NAME, record);
  const drafts: Draft[] = [];
  let first = 0;
  for (const column of columns) {
    const messages = row[column] as ChatMessage[];
    const agentOf = () => roleOf(column);
    pushAll(drafts, conversationDrafts(emit, messages, { episodeId, agentOf, first }));
    first += messages.length;
  }
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task,
      started: {
        flags: [NO_TOKEN_IDS, 'order_unknown'],
        ...given('unmapped', without(row, 'question', 'solution', ...columns)),
      },
      agents: columns.map((column) => {
        const [system] = row[column] as ChatMessage[];
        const instructions = system?.role === 'system' ? (system.content as string) : undefined;
        return { agent_id: roleOf(column), role: roleOf(column), ...given('system_instructions', instructions) };
      }),
      events: drafts,
      finished: { outcome: 'unknown' },
    }),
    refusals: [],
    raw: record.canonical,
  };
}

const roleOf = (column: string): string => column.slice(0, -SUFFIX.length);

/** A message without a text would be learned as silence, so its row is refused. */
function badColumn(messages: unknown, column: string): Refusal | null {
  const bad = badConversation(messages, column);
  if (bad) return bad;
  const silent = (messages as ChatMessage[]).findIndex((message) => typeof message.content !== 'string');
  if (silent < 0) return null;
  return refusal('bad_type', `${column}[${silent}].content`, 'a text', (messages as ChatMessage[])[silent]!.content);
}
