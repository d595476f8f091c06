/**
 * Conversations of a Claude.ai account, as its export holds them (`conversations.json`). A message of the assistant holds its calls of tools
 * and their results, in their order: each result ends an answer.
 */
import { asText, isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { conversationTrace, type ListedMessage } from '../kit/message-list.ts';
import { format, unreadable } from '../kit/reader.ts';
import { timeOfText } from '../kit/run.ts';

const NAME = 'claude-ai';

const isMessage = (one: unknown): one is JsonObject =>
  isRecord(one) &&
  (one.sender === 'human' || one.sender === 'assistant') &&
  ('text' in one || Array.isArray(one.content));

export const claudeAi = format({
  name: NAME,
  summary: 'Conversations of a Claude.ai account {uuid, name, chat_messages: [{sender, content}]}',
  called: 'a conversation',
  recognises: ({ chat_messages: list }) => Array.isArray(list) && list.some(isMessage),
  convert(row, record) {
    const uuid = row.id('uuid');
    const listed = row
      .each('chat_messages', 'a list of messages', 'a message {sender, content}', (message) =>
        isMessage(message.native)
          ? listedOf(message.native)
          : unreadable('bad_shape', message.at, 'a message {sender, content}', message.native),
      )
      .flat();
    const { trace, task, flags } = conversationTrace(NAME, record, listed, { field: 'chat_messages', run: uuid });
    const [begin, end] = [row.time('created_at'), row.time('updated_at')];
    return trace.finish(
      {
        task,
        started: {
          native: { format: NAME, ids: uuid === undefined ? undefined : { uuid } },
          flags,
          unmapped: row.filledRest(),
        },
        startedAt: begin,
        finished: { outcome: 'unknown' },
        finishedAt: end,
      },
      row.problems,
    );
  },
});

function listedOf({
  sender,
  text,
  content,
  attachments,
  files,
  created_at: created,
  uuid,
}: JsonObject): ListedMessage[] {
  const at = timeOfText(created);
  const blocks = (Array.isArray(content) && content.length > 0 ? content : [{ type: 'text', text }]).filter(isRecord);
  if (sender === 'human') {
    // A file that was attached is text that the model read; of others the name alone is known.
    const attached = [attachments, files].flatMap((list) => (Array.isArray(list) ? list.filter(isRecord) : []));
    const words = blocks.flatMap(({ type, text: said }) => (type === 'text' ? [asText(said ?? '')] : []));
    if (attached.length === 0) return [{ at, message: { role: 'user', content: words.join('\n') } }];
    const parts = [
      ...words.map((said) => ({ type: 'text', text: said })),
      ...attached.map((file) => ({ type: 'file', ...file })),
    ];
    return [{ at, message: { role: 'user', content: parts } }];
  }
  const listed: ListedMessage[] = [];
  let said: JsonObject[] = [];
  let open: JsonObject[] = [];
  const answer = (): void => {
    if (said.length > 0) listed.push({ at, message: answerOf(said) });
    said = [];
  };
  for (const [i, block] of blocks.entries()) {
    if (block.type === 'tool_use') {
      const call = { ...block, id: isIdentifier(block.id) ? block.id : `${asText(uuid)}/${i}` };
      open.push(call);
      said.push(call);
    } else if (block.type === 'tool_result') {
      answer();
      const call =
        open.find(({ id }) => id === block.tool_use_id) ?? open.find(({ name }) => name === block.name) ?? open[0];
      open = open.filter((one) => one !== call);
      if (call) listed.push({ at, message: resultOf(call.id, block) });
    } else if (!(block.type === 'text' && block.text === '')) said.push(block);
  }
  answer();
  return listed;
}

function answerOf(blocks: readonly JsonObject[]): ChatMessage {
  const of = (kind: string) => blocks.filter(({ type }) => type === kind);
  const rest = blocks.filter(({ type }) => type !== 'tool_use' && type !== 'thinking');
  const texts = rest.map((block) =>
    block.type === 'text'
      ? { type: 'text', text: asText(block.text ?? '') }
      : { ...without(block), type: asText(block.type ?? 'raw') },
  );
  const [only] = texts;
  const thoughts = of('thinking').map(({ thinking }) => asText(thinking ?? ''));
  const calls = of('tool_use').map(({ id, name, input }) => ({
    id,
    type: 'function',
    function: { name, arguments: writtenArguments(input ?? {}) },
  }));
  return {
    role: 'assistant',
    content:
      texts.length === 1 && only && 'text' in only && only.type === 'text'
        ? only.text
        : texts.length === 0
          ? null
          : texts,
    ...(thoughts.length > 0 ? { reasoning_content: thoughts.join('\n') } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function resultOf(id: unknown, { content, is_error: failed }: JsonObject): ChatMessage {
  const texts = Array.isArray(content)
    ? content.map((part: unknown) => (isRecord(part) && part.type === 'text' ? part.text : undefined))
    : [];
  const isText = texts.length > 0 && texts.every((one) => typeof one === 'string');
  const told = typeof content === 'string' ? content : isText ? texts.join('\n') : writtenArguments(content ?? null);
  return { role: 'tool', tool_call_id: id, content: told, ...(failed === true ? { is_error: true } : {}) };
}
