/**
 * Conversations of a ChatGPT account, as its export holds them (`conversations.json`): a tree of messages of which one path was shown last.
 * That path is the episode; other branches, as regenerated answers make them, are in the kept record alone.
 */
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { conversationTrace, type ListedMessage } from '../kit/message-list.ts';
import { format, unreadable } from '../kit/reader.ts';
import { timeOfSeconds } from '../kit/run.ts';

const NAME = 'chatgpt';

const isNode = (one: unknown): one is JsonObject =>
  isRecord(one) && 'message' in one && 'parent' in one && 'children' in one;

export const chatgpt = format({
  name: NAME,
  summary: 'Conversations of a ChatGPT account {title, mapping: {id: {message, parent, children}}, current_node}',
  called: 'a conversation',
  recognises: ({ mapping }) => isRecord(mapping) && Object.values(mapping).some(isNode),
  convert(row, record) {
    const mapping =
      row.record('mapping') ?? unreadable('bad_type', 'mapping', 'the messages by their ids', row.native.mapping);
    const path = pathIn(mapping, row.any('current_node'));
    const ids = row.these('conversation_id', 'id');
    const { trace, task, flags } = conversationTrace(NAME, record, listedOf(path), {
      field: 'mapping',
      run: [ids?.conversation_id, ids?.id].find(isIdentifier),
    });
    const [begin, end] = [timeOfSeconds(row.any('create_time')), timeOfSeconds(row.any('update_time'))];
    return trace.finish({
      task,
      started: { native: { format: NAME, ids }, flags, unmapped: row.filledRest() },
      startedAt: begin,
      finished: { outcome: 'unknown' },
      finishedAt: end,
    });
  },
});

/** The messages from the root to this node, or to the last of the tree where it is not there. */
function pathIn(mapping: JsonObject, current: unknown): JsonObject[] {
  const path: JsonObject[] = [];
  const seen = new Set<unknown>();
  const leaves = Object.keys(mapping).filter((id) => isNode(mapping[id]));
  for (let id: unknown = isNode(mapping[asText(current)]) ? current : leaves.at(-1); !seen.has(id); ) {
    seen.add(id);
    const node = mapping[asText(id)];
    if (!isNode(node)) break;
    if (isRecord(node.message)) path.unshift(node.message);
    id = node.parent;
  }
  return path;
}

/** A message to another than `all` calls a tool, whose answer comes next; what was thought before an answer is a message too. */
function listedOf(path: readonly JsonObject[]): ListedMessage[] {
  const listed: ListedMessage[] = [];
  let thoughts: string[] = [];
  let open: JsonObject[] = [];
  for (const native of path) {
    const { author, content, recipient, create_time: created, metadata, id } = native;
    const { role, name } = isRecord(author) ? author : {};
    const { model_slug: model } = isRecord(metadata) ? metadata : {};
    const at = timeOfSeconds(created);
    const said = contentOf(content);
    if (
      role === 'assistant' &&
      isRecord(content) &&
      /^(?:thoughts|reasoning_recap)$/.test(asText(content.content_type))
    ) {
      if (typeof said === 'string' && content.content_type === 'thoughts') thoughts.push(said);
      continue;
    }
    if (said === null || said === '') continue;
    if (role === 'assistant') {
      const isCall = isIdentifier(recipient) && recipient !== 'all';
      const call = { id, type: 'custom', custom: { name: recipient, input: said } };
      if (isCall) open.push(call);
      const message: ChatMessage = {
        role,
        content: isCall ? null : said,
        ...(thoughts.length > 0 ? { reasoning_content: thoughts.join('\n') } : {}),
        ...(isCall ? { tool_calls: [call] } : {}),
      };
      listed.push({ at, message, completed: given('response_model', isIdentifier(model) ? model : undefined) });
      thoughts = [];
    } else if (role === 'tool') {
      const call =
        open.find(({ custom }) => asText(name).startsWith(asText((custom as JsonObject).name).split('.')[0]!)) ??
        open[0];
      open = open.filter((one) => one !== call);
      listed.push({
        at,
        message: call
          ? { role, tool_call_id: call.id, content: said }
          : ({ role: 'user', name, content: said } as ChatMessage),
      });
    } else if (role === 'system' || role === 'user') listed.push({ at, message: { role, content: said } });
  }
  return listed;
}

/** A text, or texts and what else was shown; null where there is nothing. */
function contentOf(content: unknown): unknown {
  if (!isRecord(content)) return null;
  const { content_type: type, parts, text, result, thoughts } = content;
  if (Array.isArray(thoughts))
    return thoughts.flatMap((one) => (isRecord(one) ? [asText(one.content ?? one.summary ?? '')] : [])).join('\n');
  const whole = text ?? result;
  if (typeof whole === 'string') return whole;
  if (!Array.isArray(parts)) return [{ ...without(content, 'content_type'), type: asText(type ?? 'raw') }];
  if (parts.every((part) => typeof part === 'string')) return parts.join('\n');
  return parts.map((part: unknown) =>
    typeof part === 'string'
      ? { type: 'text', text: part }
      : {
          ...(isRecord(part) ? without(part, 'content_type') : { content: part }),
          type: isRecord(part) ? asText(part.content_type ?? 'raw') : 'raw',
        },
  );
}
