/**
 * M500 rows: the accepted work of a team on one problem, one column of messages for each role. How many solvers and rounds there
 * were and the order of the roles is not stored; they are read in the order of the method, and flagged.
 */
import { conversationIn } from '../kit/conversation.ts';
import { format, type Reader, unreadable } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'm500';

const SUFFIX = '_messages';
const COLUMNS = ['expert_recruiter', 'problem_solver', 'critic', 'evaluator'].map((role) => role + SUFFIX);

export const m500 = format({
  name: NAME,
  summary: 'M500 rows {question, solution, expert_recruiter_messages, problem_solver_messages, critic_messages, …}',
  called: 'a row with columns of messages',
  recognises: (row) => COLUMNS.filter((column) => column in row).length > 1,
  convert(row, record) {
    const task = taskOf(NAME, row.any('question'), { ground_truth: row.any('solution') });
    if (!task) return unreadable('bad_type', 'question', 'the text of the problem', row.native.question);
    const others = Object.keys(row.native).filter((name) => name.endsWith(SUFFIX) && !COLUMNS.includes(name));
    const columns = [...COLUMNS.filter((name) => name in row.native), ...others.sort()].map((column) => ({
      role: column.slice(0, -SUFFIX.length),
      messages: messagesIn(row, column),
    }));
    const trace = Trace.of(NAME, record);
    let first = 0;
    for (const { role, messages } of columns) {
      trace.conversation(messages, { agentOf: () => role, first, ledger: undefined });
      first += messages.length;
    }
    return trace.finish({
      task,
      flags: ['order_unknown'],
      started: { unmapped: row.rest() },
      agents: columns.map(({ role, messages: [first] }) => {
        const instructions = first?.role === 'system' ? (first.content as string) : undefined;
        return { agent_id: role, role, system_instructions: instructions };
      }),
    });
  },
});

/** A message without a text would be learned as silence, so its row is refused. */
function messagesIn(row: Reader, column: string) {
  const messages = conversationIn(row, column);
  for (const [i, { content }] of messages.entries())
    if (typeof content !== 'string') unreadable('bad_type', `${column}[${i}].content`, 'a text', content);
  return messages;
}
