/**
 * xLAM unified trajectories: one conversation a record with an id of its own. There is no agent; the instruction of the task is its
 * system prompt. A tool message without an id answers the latest open call.
 */
import { isRecord, without } from '../../events/json.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { badConversation } from '../kit/conversation.ts';
import { demand, format } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'xlam';

export const xlam = format({
  name: NAME,
  summary: 'xLAM trajectories {unique_trajectory_id, task_instruction, tools, conversation}',
  called: 'a trajectory object',
  recognises: (record) =>
    ('unique_trajectory_id' in record || 'task_instruction' in record) && Array.isArray(record.conversation),
  convert(row, record) {
    const trace = Trace.revised(NAME, record, row.ownId('unique_trajectory_id'));
    const messages = withCallIds(row.list('conversation', 'a list of messages'));
    demand(badConversation(messages, 'conversation'));
    const chat = messages as ChatMessage[];
    const instruction = row.text('task_instruction');
    const opening = instruction ? [{ role: 'system', content: instruction }] : [];
    trace.conversation([...opening, ...chat], { agentOf: () => null, tools: row.native.tools });
    row.any('tools');
    const broken = trace.events.some((draft) => draft.name === 'tool.called' && draft.data.parse_error);
    const asked = chat.find((message) => message.role === 'user')?.content;
    const tags = without({ dataset: row.any('dataset') });
    const run = trace.finish({
      task: taskOf(NAME, asked, { split: row.text('split'), tags }),
      flags: broken ? ['unparsed_tool_call'] : [],
      started: { unmapped: row.rest() },
    });
    return { ...run, repeated: record.ordinal > 0 };
  },
});

/** The conversation with an id on each call and on each result: where one has none, results answer calls in their order. */
function withCallIds(conversation: readonly unknown[]): unknown[] {
  const open: string[] = [];
  return conversation.map((message, seq) => {
    if (!isRecord(message)) return message;
    if (message.role === 'assistant' && Array.isArray(message.tool_calls)) {
      const calls = message.tool_calls.map((call: unknown, k) => {
        if (!isRecord(call)) return call;
        const own = call.id ?? `${seq}.${k}`;
        if (typeof own === 'string') open.push(own);
        // Some parts of the set write a call without the wrapper of the chat API.
        const wrapped =
          call.function === undefined && 'name' in call
            ? { function: { name: call.name, arguments: call.arguments } }
            : {};
        return { ...call, ...wrapped, id: own };
      });
      return { ...message, tool_calls: calls };
    }
    if (message.role !== 'tool') return message;
    const id = message.tool_call_id ?? open[0];
    const place = open.indexOf(id as string);
    if (place >= 0) open.splice(place, 1);
    return { ...message, tool_call_id: id };
  });
}
