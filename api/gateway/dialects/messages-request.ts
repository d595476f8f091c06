/**
 * A request of Anthropic's Messages API as a request of the chat interface. It is translated only where nothing is lost; anything else
 * is refused with the name of its field.
 */

import { isRecord, type JsonObject } from '../../../ingest/events/json.ts';
import { writtenArguments } from '../../../ingest/events/spelling.ts';
import { isIdentifier } from '../../../ingest/events/text.ts';
import type { ChatMessage } from '../../../ingest/formats/kit/chat-message.ts';
import { type Constraint, oneConstraint, readForced, readFormat } from '../constraint.ts';
import { type CompletionRequest, opened, ownModel, type Prompt } from '../request.ts';
import { flag, readSampling, readStops, refuse, refuseUnsupported, whole } from '../sampling.ts';
import type { Tool } from '../tools.ts';

/** JsonObject that would change the output and are not supported. */
const UNSUPPORTED = {
  container: [],
  context_management: [],
  mcp_servers: [],
  response_format: [],
  n: [1],
} as const;

/** A body of /v1/messages. Throws `usage` naming the first unsupported field. */
export function readMessagesRequest(body: unknown): CompletionRequest {
  const { model, ...fields } = opened(body);
  const prompt = readMessagesPrompt(fields);
  const { tools } = prompt;
  const forced = readForced('tool_choice', fields.tool_choice, tools);
  const format = readOutput(fields);
  const { stop: _, ...sampling } = readSampling({ ...fields, n: 1, stop: null });
  const maxTokens = whole('max_tokens', fields.max_tokens, 1);
  if (maxTokens === null) throw refuse('max_tokens', 'a whole number from 1', fields.max_tokens);
  return {
    model,
    who: ownModel(model),
    prompt,
    constraint: oneConstraint(format, { forced, tools }, 'output_config.format'),
    sampling: {
      ...sampling,
      maxTokens,
      stop: readStops('stop_sequences', fields.stop_sequences),
      topLogprobs: 0,
      oneCall: readOneCall(fields, tools),
    },
    logprobs: false,
    tokensAsIds: false,
    stream: flag('stream', fields.stream) ? { usage: true } : null,
    repeats: {},
  };
}

/** Whether the choice of a tool says that a response has one call at most. */
function readOneCall({ tool_choice: choice }: JsonObject, tools: readonly Tool[] | null): boolean {
  if (!isRecord(choice)) return false;
  return flag('tool_choice.disable_parallel_tool_use', choice.disable_parallel_tool_use) && tools !== null;
}

/** The format of the response: `output_config.format`, or `output_format` as older clients write it. */
function readOutput({ output_config: config, output_format: format }: JsonObject): Constraint | null {
  if (config == null) return readFormat('output_format', format);
  if (!isRecord(config)) throw refuse('output_config', 'an object', config);
  const { format: own, effort, ...others } = config;
  // What a request without it means; Claude Code names it.
  if (effort != null && effort !== 'high')
    throw refuse('output_config.effort', '"high" or left out', effort, 'A policy has no effort to set.');
  const [other] = Object.keys(others);
  if (other !== undefined) throw refuse(`output_config.${other}`, 'left out', others[other]);
  return readFormat('output_config.format', own ?? format);
}

/** The prompt in a body of /v1/messages and of /v1/messages/count_tokens. */
export function readMessagesPrompt(fields: JsonObject): Extract<Prompt, { readonly messages: unknown }> {
  const { messages, system, thinking } = fields;
  refuseUnsupported(fields, UNSUPPORTED);
  if (thinking != null && !(isRecord(thinking) && thinking.type === 'disabled'))
    throw refuse('thinking', '{"type":"disabled"} or left out', thinking, 'A policy writes text and calls of tools.');
  if (!Array.isArray(messages) || messages.length === 0) throw refuse('messages', 'a list of messages', messages);
  const conversation = messages.flatMap((message, i) => toChat(message, `messages[${i}]`));
  if (conversation.at(-1)?.role === 'assistant')
    throw refuse(
      `messages[${messages.length - 1}].role`,
      'user',
      'assistant',
      'Continuing an assistant message is not supported.',
    );
  return {
    messages: [...(system == null ? [] : [{ role: 'system', content: texts(system, 'system') }]), ...conversation],
    tools: readTools(fields),
  };
}

function readTools({ tools, tool_choice: choice }: JsonObject): readonly Tool[] | null {
  if (tools == null) return null;
  if (!Array.isArray(tools)) throw refuse('tools', 'a list', tools);
  // A tool that is deferred is not shown to the model before it was searched for.
  const shown = tools.filter((tool) => !(isRecord(tool) && tool.defer_loading === true));
  const known = shown.map((tool): Tool => {
    if (!isRecord(tool) || !isIdentifier(tool.name) || !(tool.type == null || tool.type === 'custom'))
      throw refuse(
        `tools[${tools.indexOf(tool)}]`,
        '{"name":…,"input_schema":…}',
        tool,
        'A policy supports only tools of the client.',
      );
    const { name, description, input_schema: parameters } = tool;
    return { type: 'function', function: { name, ...(description == null ? {} : { description }), parameters } };
  });
  const type = isRecord(choice) ? choice.type : choice;
  return type === 'none' || known.length === 0 ? null : known;
}

/**
 * One message as those of the chat interface: results of tools are messages of their own there. Instructions may come in the middle of a
 * conversation, as Claude Code sends them.
 */
function toChat(message: unknown, field: string): ChatMessage[] {
  if (!isRecord(message)) throw refuse(field, 'a message object', message);
  const { role, content } = message;
  if (role === 'system' && field !== 'messages[0]') return [{ role, content: texts(content, `${field}.content`) }];
  if (role !== 'user' && role !== 'assistant') throw refuse(`${field}.role`, 'user or assistant', role);
  if (typeof content === 'string') return [{ role, content }];
  if (!Array.isArray(content) || content.length === 0)
    throw refuse(`${field}.content`, 'a text or a list of blocks', content);
  return role === 'user' ? ofUser(content, field) : ofAssistant(content, field);
}

function ofUser(content: readonly unknown[], field: string): ChatMessage[] {
  const first = content.findIndex((block) => !isOf(block, 'tool_result'));
  const results = first < 0 ? content : content.slice(0, first);
  const rest = content.slice(results.length);
  const late = rest.findIndex((block) => isOf(block, 'tool_result'));
  if (late >= 0) throw refuse(`${field}.content[${results.length + late}]`, 'before the texts of the user', rest[late]);
  return [
    ...results.map((block, i) => toResult(block as JsonObject, `${field}.content[${i}]`)),
    ...(rest.length > 0 ? [{ role: 'user', content: texts(rest, `${field}.content`, results.length) }] : []),
  ];
}

function toResult({ tool_use_id: id, content, is_error: failed }: JsonObject, field: string): ChatMessage {
  if (!isIdentifier(id)) throw refuse(`${field}.tool_use_id`, 'the id of a tool_use', id);
  return {
    role: 'tool',
    tool_call_id: id,
    content: content == null ? '' : texts(content, `${field}.content`),
    ...(flag(`${field}.is_error`, failed) ? { is_error: true } : {}),
  };
}

function ofAssistant(content: readonly unknown[], field: string): ChatMessage[] {
  const first = content.findIndex((block) => isOf(block, 'tool_use'));
  const before = first < 0 ? content : content.slice(0, first);
  const calls = first < 0 ? [] : content.slice(first);
  const toCall = (block: unknown, i: number) => {
    const place = `${field}.content[${first + i}]`;
    if (!isOf(block, 'tool_use')) throw refuse(place, 'before the calls of tools', block);
    const { id, name, input } = block;
    if (!isIdentifier(id) || !isIdentifier(name) || !isRecord(input)) throw refuse(place, 'id, name and input', block);
    return { id, type: 'function', function: { name, arguments: writtenArguments(input) } };
  };
  return [
    {
      role: 'assistant',
      content: before.length === 0 ? null : texts(before, `${field}.content`),
      ...(calls.length > 0 ? { tool_calls: calls.map(toCall) } : {}),
    },
  ];
}

const isOf = (block: unknown, type: string): block is JsonObject => isRecord(block) && block.type === type;

/** A text, or the texts of blocks; cache marks are dropped. `from` is the place of the first block. */
function texts(content: unknown, field: string, from = 0): unknown {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw refuse(field, 'a text or a list of blocks', content);
  const parts = content.map((block, i) => {
    if (isOf(block, 'text') && typeof block.text === 'string') return { type: 'text', text: block.text };
    throw refuse(`${field}[${from + i}]`, '{"type":"text","text":…}', block, 'A policy reads text and tools only.');
  });
  return parts.length === 1 ? parts[0]!.text : parts;
}
