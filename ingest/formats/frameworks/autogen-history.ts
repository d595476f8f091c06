/**
 * The `chat_history` of AutoGen 0.2 and AG2: messages of the chat API in the view of the agent that began the chat. What asks for tools
 * has no name (`_append_oai_message`), a message of a tool may hold several results, and up to 0.2.34 nothing has a name.
 */
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { badMessage, toolCallsOf } from '../kit/chat-message.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier } from '../kit/native.ts';
import { demand, Reader, unreadable } from '../kit/reader.ts';
import { withCallIds } from '../training/chat-unnamed.ts';

/** A message of a team, or one of an older version in the form of it. */
export type AutogenMessage = JsonObject & { readonly source: string; readonly type: string };
export type NumberedMessage = { readonly seq: number; readonly message: AutogenMessage };

/** What the chat was begun with: a text of the program, never of a model. */
export const BEGUN = 'chat_history[0]';
/** What running code or an agent without a model answered. */
export const OUTPUT = 'chat_history[output]';

/** The messages as those of later versions; what cannot be read goes to the problems. */
export function oldMessages(natives: readonly unknown[], problems: NativeRefusal[]): NumberedMessage[] {
  const history = new Reader({ chat_history: withCallIds(natives) }, '', problems);
  const named = natives.map((message) =>
    isRecord(message) && message.role !== 'function' ? nameOf(message) : undefined,
  );
  const names = new Set(named.filter((name) => name !== undefined));
  let swapped = false;
  return history.each('chat_history', 'a list of messages', 'a message object', (message, seq) => {
    const { native } = message;
    // Without a name a role is that of the view: what the agent that began the chat says itself is the assistant's.
    if (seq === 0) swapped = names.size === 0 && native.role === 'assistant' && !asks(native);
    if (isResult(native)) return { seq, message: resultOf(message) };
    const before = named.slice(0, seq).findLast((name) => name !== undefined);
    const role = swapped && !asks(native) ? SWAPPED.get(native.role) : undefined;
    const source = named[seq] ?? (asks(native) ? otherOf(names, before) : undefined) ?? role ?? native.role;
    demand(badIdentifier(source, message.path(named[seq] === undefined ? 'role' : 'name')));
    return { seq, message: messageOf(message, source as string, seq) };
  });
}

const nameOf = ({ name }: JsonObject): string | undefined => (isIdentifier(name) ? name : undefined);

const SWAPPED: ReadonlyMap<unknown, string> = new Map([
  ['assistant', 'user'],
  ['user', 'assistant'],
]);

const asks = ({ tool_calls: calls, role }: JsonObject): boolean =>
  role === 'assistant' && Array.isArray(calls) && calls.length > 0;

const isResult = ({ role, tool_responses: results, tool_call_id: id }: JsonObject): boolean =>
  role === 'function' || (role === 'tool' && (Array.isArray(results) || isIdentifier(id)));

/** In a chat of two the one who did not speak before; undefined where more or fewer have names. */
function otherOf(names: ReadonlySet<string>, before: string | undefined): string | undefined {
  const others = [...names].filter((name) => name !== before);
  return before !== undefined && others.length === 1 ? others[0] : undefined;
}

function resultOf(message: Reader): AutogenMessage {
  const { native } = message;
  const several = Array.isArray(native.tool_responses);
  const results = several
    ? message.list('tool_responses')!.map((result, i) => {
        const place = `${message.path('tool_responses')}[${i}]`;
        return isRecord(result)
          ? new Reader(result, place)
          : unreadable('bad_type', place, 'the result of a tool', result);
      })
    : [message];
  return {
    // The name beside a single result may be that of the function.
    source: (several ? nameOf(native) : undefined) ?? 'environment',
    type: 'ToolCallExecutionEvent',
    content: results.map((result) => ({
      ...without(result.native, 'tool_call_id', 'role', 'content', ...(several ? [] : ['name'])),
      call_id: result.ownId('tool_call_id'),
      ...given('content', result.native.content),
    })),
  };
}

/** The text that AutoGen's code executors answer with. */
const EXECUTED = /^exitcode: -?\d+ \(/;

function messageOf({ native, at }: Reader, source: string, seq: number): AutogenMessage {
  const message = { ...native, source };
  if (seq === 0 && !asks(native)) return { ...message, type: BEGUN };
  if (asks(native)) {
    demand(badMessage(native, at));
    const content = toolCallsOf(native).map(({ id, name, arguments: asked, arguments_raw: raw }) => ({
      id,
      name,
      arguments: raw ?? asked,
    }));
    // A group chat makes the text `None` of an answer that has none.
    const { content: text } = native;
    const isText = typeof text === 'string' && text !== '' && text !== 'None';
    return {
      ...without(message, 'tool_calls', 'content'),
      source,
      type: 'ToolCallRequestEvent',
      content,
      ...(isText ? { text } : {}),
    };
  }
  // A default reply is empty; no model is known to have been asked.
  const isOutput = typeof native.content === 'string' && (EXECUTED.test(native.content) || native.content === '');
  return { ...message, type: isOutput ? OUTPUT : 'chat_history' };
}
