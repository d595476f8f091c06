/**
 * A request of the OpenAI Responses API as a request of the chat interface. It is translated only where nothing is lost; anything else
 * is refused with the name of its field.
 */

import { isRecord, type JsonObject } from '../../../ingest/events/json.ts';
import { isIdentifier } from '../../../ingest/events/text.ts';
import type { ChatMessage } from '../../../ingest/formats/kit/chat-message.ts';
import { qualifiedName } from '../../../ingest/formats/kit/openai-responses.ts';
import { oneConstraint, readForced, readFormat } from '../constraint.ts';
import { type CompletionRequest, MAX_TOP_LOGPROBS, opened, ownModel } from '../request.ts';
import { flag, readSampling, refuse, refuseUnsupported, whole } from '../sampling.ts';
import { readOneCall, readTools, type Tool } from '../tools.ts';

/** The conversation up to an earlier response and with it, without its instructions. Throws `usage` where it is not recorded. */
export type Recall = (responseId: string) => Promise<readonly ChatMessage[]>;

/** JsonObject that would change the output and are not supported. */
const UNSUPPORTED = {
  background: [false],
  context_management: [],
  conversation: [],
  prompt: [],
  n: [1],
  response_format: [],
} as const;

/** A body of /v1/responses. Throws `usage` naming the first unsupported field. */
export async function readResponsesRequest(body: unknown, recall: Recall): Promise<CompletionRequest> {
  const { model, ...fields } = opened(body);
  const { instructions, input, reasoning, text, include, previous_response_id: previous } = fields;
  refuseUnsupported(fields, UNSUPPORTED);
  if (isRecord(reasoning)) refuseUnsupported(prefixed('reasoning', reasoning), { 'reasoning.effort': ['none'] });
  if (isRecord(text)) refuseUnsupported(prefixed('text', text), { 'text.verbosity': ['medium'] });
  const format = readFormat('text.format', isRecord(text) ? text.format : null);
  if (instructions != null && typeof instructions !== 'string') throw refuse('instructions', 'a text', instructions);
  if (previous != null && typeof previous !== 'string') throw refuse('previous_response_id', 'a text', previous);
  const conversation = readInput(input);
  const tools = readFlatTools(fields);
  const forced = readForced('tool_choice', fields.tool_choice, tools);
  const { stop: _, ...sampling } = readSampling({ ...fields, n: 1, stop: null });
  return {
    model,
    who: ownModel(model),
    prompt: {
      messages: [
        ...(instructions ? [{ role: 'system', content: instructions }] : []),
        ...(previous == null ? [] : await recall(previous)),
        ...conversation,
      ],
      tools,
    },
    constraint: oneConstraint(format, { forced, tools }, 'text.format'),
    sampling: {
      ...sampling,
      maxTokens: whole('max_output_tokens', fields.max_output_tokens, 1),
      stop: [],
      topLogprobs: whole('top_logprobs', fields.top_logprobs, 0, MAX_TOP_LOGPROBS) ?? 0,
      oneCall: readOneCall(fields, tools),
    },
    logprobs: Array.isArray(include) && include.includes('message.output_text.logprobs'),
    tokensAsIds: false,
    stream: flag('stream', fields.stream) ? { usage: true } : null,
    repeats: fields,
  };
}

const prefixed = (name: string, fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).map(([field, value]) => [`${name}.${field}`, value]));

/** Tools as this API writes them: the function's fields stand beside its type. */
function readFlatTools({ tools, tool_choice: choice }: JsonObject): readonly Tool[] | null {
  if (tools == null) return null;
  if (!Array.isArray(tools)) throw refuse('tools', 'a list', tools);
  const nested = tools.map((tool, i) => {
    if (!isRecord(tool) || tool.type !== 'function')
      throw refuse(`tools[${i}]`, '{"type":"function","name":…}', tool, 'A policy knows only functions.');
    const { type, ...described } = tool;
    return { type, function: described };
  });
  return readTools({ tools: nested, tool_choice: choice });
}

function readInput(input: unknown): ChatMessage[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  if (!Array.isArray(input) || input.length === 0) throw refuse('input', 'a text or a list of items', input);
  const messages: ChatMessage[] = [];
  for (const [i, item] of input.entries()) {
    const message = readItem(item, `input[${i}]`);
    const before = messages.at(-1);
    // Tool calls are separate items here, and belong to the assistant message before them.
    if (message.tool_calls && before?.role === 'assistant')
      messages[messages.length - 1] = { ...before, tool_calls: [...callsOf(before), ...callsOf(message)] };
    else messages.push(message);
  }
  return messages;
}

const callsOf = ({ tool_calls: calls }: ChatMessage): readonly unknown[] => (Array.isArray(calls) ? calls : []);

const ROLES = ['user', 'assistant', 'system', 'developer'];

function readItem(item: unknown, field: string): ChatMessage {
  if (!isRecord(item)) throw refuse(field, 'an item object', item);
  const { type = 'message', role, content, call_id: id } = item;
  if (type === 'message') {
    if (typeof role !== 'string' || !ROLES.includes(role)) throw refuse(`${field}.role`, ROLES.join(', '), role);
    return { role, content: texts(content, `${field}.content`) };
  }
  if (type !== 'function_call' && type !== 'function_call_output')
    throw refuse(`${field}.type`, 'message, function_call or function_call_output', type, 'A policy reads no others.');
  if (!isIdentifier(id)) throw refuse(`${field}.call_id`, 'the id of a call', id);
  if (type === 'function_call_output')
    return { role: 'tool', tool_call_id: id, content: texts(item.output, `${field}.output`) };
  const name = qualifiedName(item);
  const { arguments: written } = item;
  if (!isIdentifier(name)) throw refuse(`${field}.name`, 'the name of a function', name);
  if (typeof written !== 'string') throw refuse(`${field}.arguments`, 'a JSON text', written);
  return {
    role: 'assistant',
    content: null,
    tool_calls: [{ id, type: 'function', function: { name, arguments: written } }],
  };
}

const TEXTS = ['input_text', 'output_text', 'text'];

/** A text, or those of parts. */
function texts(content: unknown, field: string): unknown {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content) || content.length === 0) throw refuse(field, 'a text or a list of parts', content);
  const parts = content.map((part, i) => {
    if (isRecord(part) && TEXTS.includes(part.type as string) && typeof part.text === 'string')
      return { type: 'text', text: part.text };
    throw refuse(`${field}[${i}]`, '{"type":"input_text","text":…}', part, 'A policy reads text and tools only.');
  });
  return parts.length === 1 ? parts[0]!.text : parts;
}
