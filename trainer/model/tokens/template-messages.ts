/**
 * Messages as a chat template takes them. What clients and recordings write in several ways reaches it in one, so that one conversation
 * gives the same tokens however it was recorded, and whether it is served, learnt or shown.
 */
import { got } from '../../../errors.ts';
import { parseWritten, writtenArguments } from '../../../ingest/events/spelling.ts';

/** A message as chat templates read it; fields beyond these (`tool_calls`, `name`, …) reach the template as they are. */
export type ChatMessage = { readonly role: string; readonly content?: unknown; readonly [field: string]: unknown };

export type MessageReader = {
  readonly read: (message: ChatMessage) => ChatMessage;
  /** The text that an answer ends with: that of its content, else its thought. Null where it ends with calls, or says nothing. */
  readonly said: (message: ChatMessage) => string | null;
  /** Whether the template writes calls of tools at all. */
  readonly writesCalls: () => boolean;
};

/** Where a thought may stand. The first is what Troupe writes; vLLM, OpenRouter and Ollama write `reasoning`, gpt-oss reads `thinking`. */
const THOUGHTS = ['reasoning_content', 'reasoning', 'thinking'] as const;

/**
 * - A role `developer` is `system` where the template does not know it.
 * - A thought has the name that the template reads.
 * - Contents that are a list of texts become one text where the template would write the list itself, and other lists are refused there.
 * - A message without content has an empty one, or null beside calls, as the API of OpenAI writes it. Other members that are null are left out.
 * - Arguments of calls that are JSON text stay it where the template writes a text as it stands, and values become text there; elsewhere text
 *   becomes its value.
 *
 * @param shown what the template writes of messages; empty where it refuses them
 */
export function messageReader(source: string, shown: (messages: readonly ChatMessage[]) => string): MessageReader {
  const knows = (name: string): boolean => new RegExp(`\\b${name}\\b`).test(source);
  const thoughtName = THOUGHTS.find(knows) ?? THOUGHTS[0];
  const knowsDeveloper = knows('developer');
  const called = once(() => shown([ASKED, { role: 'assistant', content: null, tool_calls: [PROBE_CALL] }]));
  // In quotes, or with escaped ones, it would be the text of a text.
  const writesTexts = once(() => /(?<!['"])\{"x": 1\}/.test(called()));
  const takesLists = once(() => {
    const text = shown([{ role: 'user', content: [{ type: 'text', text: 'zqx' }] }]);
    // A template that writes the list as it is has the text in quotes.
    return text.includes('zqx') && !text.includes('"zqx"') && !text.includes("'zqx'");
  });

  const read: MessageReader['read'] = (message) => {
    const { role, content, tool_calls: calls, ...rest } = message;
    const hasCalls = Array.isArray(calls) && calls.length > 0;
    const others = Object.fromEntries(
      Object.entries(rest).filter(([, value]) => value !== null && value !== undefined),
    );
    const text = Array.isArray(content) && !takesLists() ? joined(content) : (content ?? '');
    const isEmpty = text === '' || (Array.isArray(text) && text.length === 0);
    return {
      role: role === 'developer' && !knowsDeveloper ? 'system' : role,
      content: isEmpty ? (hasCalls ? null : '') : text,
      ...(role === 'assistant' ? withThought(others, thoughtName) : others),
      ...(hasCalls ? { tool_calls: calls.map(writesTexts() ? withText : withValue) } : {}),
    };
  };

  return {
    read,
    said(message) {
      const { content, tool_calls: calls, [thoughtName]: thought } = read(message);
      const texts = Array.isArray(content) ? content.map((part) => part?.text).reverse() : [content];
      const said = [...texts, thought].find((text) => typeof text === 'string' && text.trim() !== '');
      return calls === undefined ? ((said as string | undefined) ?? null) : null;
    },
    writesCalls: once(() => called().includes(PROBE_CALL.function.name)),
  };
}

const ASKED: ChatMessage = { role: 'user', content: 'a' };
const PROBE_CALL = { id: 'call00000', type: 'function', function: { name: 'zqx', arguments: '{"x": 1}' } };

/** A value that is made when it is first needed. */
function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

function withThought(members: Readonly<Record<string, unknown>>, name: string): Readonly<Record<string, unknown>> {
  const isThought = (key: string): boolean => (THOUGHTS as readonly string[]).includes(key);
  const thought = THOUGHTS.map((key) => members[key]).find((value) => typeof value === 'string' && value !== '');
  const others = Object.entries(members).filter(([key, value]) => !isThought(key) || typeof value !== 'string');
  return { ...Object.fromEntries(others), ...(thought === undefined ? {} : { [name]: thought }) };
}

function joined(parts: readonly unknown[]): string {
  const texts = parts.map((part) => (part as { readonly text?: unknown } | null)?.text);
  const other = texts.findIndex((text) => typeof text !== 'string');
  if (other < 0) return texts.join('\n');
  throw new Error(`a part of a content should be text, it is ${got(parts[other])}`);
}

/** Arguments that are no JSON stay as they were written. */
const withValue = (call: unknown): unknown =>
  withArguments(call, (given) => {
    if (typeof given !== 'string') return given;
    const parsed = parseWritten(given);
    return 'value' in parsed ? parsed.value : given;
  });

const withText = (call: unknown): unknown =>
  withArguments(call, (given) => (isObject(given) ? writtenArguments(given) : given));

function withArguments(call: unknown, change: (given: unknown) => unknown): unknown {
  if (!isObject(call) || !isObject(call.function) || !('arguments' in call.function)) return call;
  return { ...call, function: { ...call.function, arguments: change(call.function.arguments) } };
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
