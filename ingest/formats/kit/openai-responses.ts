/** Items of the OpenAI Responses API as messages and parts: messages, calls of tools and their outputs, reasoning. */
import type { Message, Part } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type ChatMessage, type ChatToolCall, fromMessage, readArguments } from './chat-message.ts';
import { joinedAnswers } from './message-list.ts';
import { messageOf } from './span-attributes.ts';

/** Input items as messages; a plain text is a message of the user. */
export function responseInput(input: unknown, instructions?: unknown): Message[] {
  const system =
    typeof instructions === 'string' && instructions !== '' ? [{ role: 'system', content: instructions }] : [];
  const items = Array.isArray(input) ? input : [input];
  return [...system, ...items.map(toMessage)];
}

/** Output items as the parts of one answer. */
export const responseContent = (output: readonly unknown[]): Part[] => output.flatMap(toParts);

/** Calls that the model server itself carries out: the item holds what came of it, so it stays whole in a message. */
const SERVER = new Set([
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'image_generation_call',
  'tool_search_call',
  'mcp_call',
]);

/** The name of a tool with its namespace: two namespaces may have a tool of one name. */
export const qualifiedName = ({ name, namespace }: JsonObject): unknown =>
  isIdentifier(name) && isIdentifier(namespace) ? `${namespace}.${name}` : name;

/** The tool call of an item; null for an item that is none. */
export function calledIn(item: JsonObject): ChatToolCall | null {
  const type = asText(item.type);
  const id = isIdentifier(item.call_id) ? item.call_id : item.id;
  const name = qualifiedName(item) ?? type.replace(/_call$/, '');
  if (!/_call$/.test(type) || !isIdentifier(id) || !isIdentifier(name)) return null;
  if (type === 'function_call')
    return { id, name, type: /^mcp__/.test(name) ? 'mcp' : 'function', ...readArguments(item.arguments) };
  if (type === 'mcp_call') return { id, name, type: 'mcp', ...readArguments(item.arguments) };
  const asked =
    item.input ?? item.action ?? item.actions ?? item.operation ?? item.arguments ?? item.queries ?? item.code;
  const kind = type === 'custom_tool_call' ? 'custom' : SERVER.has(type) ? 'server' : 'function';
  return { id, name, type: kind, arguments: asked ?? null, arguments_raw: null, parse_error: null };
}

export type ToolOutput = { readonly id: string; readonly status: 'ok' | 'error'; readonly output?: unknown };

/** What a tool returned: an item of the next request, or part of the call where the model server carried it out; else null. */
export function returnedIn(item: JsonObject): ToolOutput | null {
  const id = isIdentifier(item.call_id) ? item.call_id : item.id;
  if (!isIdentifier(id)) return null;
  const status = item.status === 'failed' || item.error != null ? 'error' : 'ok';
  if (/_call_output$/.test(asText(item.type))) {
    const { output } = item;
    return { id, status, ...given('output', areParts(output) ? output.map(toPart) : output) };
  }
  const output = item.type === 'mcp_call' ? (item.output ?? item.error) : (item.outputs ?? item.results);
  return output == null || calledIn(item) === null ? null : { id, status, output };
}

function toMessage(item: unknown): Message {
  if (typeof item === 'string') return { role: 'user', content: item };
  if (!isRecord(item)) return messageOf('unknown', [{ type: 'raw', content: item }]);
  if (/_call_output$/.test(asText(item.type))) {
    const { output = null } = item;
    const content = areParts(output) ? output.map(toPart) : [{ type: 'text', content: output }];
    return messageOf('tool', content as Part[], { ...given('tool_call_id', item.call_id ?? item.id) });
  }
  const isAnswer = item.type === 'reasoning' || calledIn(item) !== null;
  return messageOf(item.role ?? (isAnswer ? 'assistant' : 'unknown'), toParts(item));
}

/** Whether an output of a tool is a list of parts; else it is a text, or JSON of the tool's own. */
const areParts = (output: unknown): output is readonly unknown[] =>
  Array.isArray(output) && output.every((part) => isRecord(part) && typeof part.type === 'string' && part.type !== '');

function toParts(item: unknown): Part[] {
  if (!isRecord(item)) return [{ type: 'raw', content: item }];
  const called = SERVER.has(item.type as string) ? null : calledIn(item);
  if (called) {
    const { id, name, type } = called;
    const asked = item.type === 'function_call' ? item.arguments : (called.arguments ?? called.arguments_raw);
    return [
      { type: 'tool_call', id, name, arguments: asked, ...(type === 'function' ? {} : { call_type: type }) } as Part,
    ];
  }
  if (item.type === 'reasoning') {
    const texts = [item.summary, item.content].flatMap((list) => (Array.isArray(list) ? list.map(textPart) : []));
    return texts.map((content) => ({ type: 'reasoning', content }));
  }
  const { content } = item;
  if (typeof content === 'string') return [{ type: 'text', content }];
  return Array.isArray(content) ? content.map(toPart) : [{ type: 'raw', content: item }];
}

const toPart = (part: unknown): Part =>
  isRecord(part) && typeof part.text === 'string'
    ? { ...without(part, 'type', 'text', 'annotations', 'logprobs'), type: 'text', content: part.text }
    : ({
        ...(isRecord(part) ? part : { content: part }),
        type: isRecord(part) && typeof part.type === 'string' ? part.type : 'raw',
      } as Part);

const textPart = (part: unknown): unknown => (isRecord(part) && typeof part.text === 'string' ? part.text : part);

/** Whether this is an item of a request or a response. */
export const isResponseItem = ({ type, role, content, call_id: call, summary }: JsonObject): boolean =>
  type === 'message'
    ? typeof role === 'string' && content !== undefined
    : type === 'reasoning'
      ? Array.isArray(summary)
      : /_call(?:_output)?$/.test(asText(type)) && (isIdentifier(call) || SERVER.has(asText(type)));

/** Items as messages of the chat API: what the model put out between two inputs is one answer. */
export const chatOfItems = (items: readonly unknown[]): ChatMessage[] =>
  joinedAnswers(items.map((item) => chatOf(item, fromMessage(toMessage(item)))));

function chatOf(item: unknown, message: JsonObject): ChatMessage {
  const { content } = message;
  const failed = isRecord(item) && item.type === 'function_call_output' && returnedIn(item)?.status === 'error';
  return {
    ...message,
    role: message.role === 'unknown' ? 'user' : (message.role as string),
    ...(content === undefined || Array.isArray(content) || typeof content === 'string' ? {} : { content: null }),
    ...(failed ? { is_error: true } : {}),
  };
}
