/**
 * Tool calls in the text that a model wrote, in the form that its chat template shows it: JSON between `<tool_call>` and `</tool_call>`
 * (Qwen, Hermes, and the template of new models), or an answer that is one JSON object (Llama 3). Pure.
 */
import { isRecord } from '../../ingest/json.ts';
import { isIdentifier } from '../../ingest/text.ts';

/** `arguments` is the JSON text of an object, as the model wrote it. */
type ToolCall = { readonly name: string; readonly arguments: string };

/** Calls, and the text beside them. */
export type Called = { readonly content: string; readonly calls: readonly ToolCall[] };

/** The calls of a text; null where it holds none, or one that cannot be read. */
export type ReadCalls = (text: string) => Called | null;

/** How the calls of a model with this chat template are read; null where the template shows no form that is known. */
export function callReader(template: string): ReadCalls | null {
  if (template.includes('<tool_call>')) return readTagged;
  return /"parameters": ?dictionary/.test(template) ? readBare : null;
}

/** What stands before the name of a call (as JSON), between it and the arguments, and after them. */
export type CallFrame = readonly [before: string, between: string, after: string];

/** How a model with this chat template writes one call; null where the template shows no form that is known. */
export function callFrame(template: string): CallFrame | null {
  const read = callReader(template);
  if (read === null) return null;
  return read === readTagged
    ? ['<tool_call>\n{"name": ', ', "arguments": ', '}\n</tool_call>']
    : ['{"name": ', ', "parameters": ', '}'];
}

/** What ends a call where a response may hold several; null where it holds one at most. */
export const callEnd = (template: string): string | null => (callReader(template) === readTagged ? CALL_END : null);

const CALL_END = '</tool_call>';

/** A block that the end of the text cuts off counts if its JSON is whole. */
const BLOCK = /\n?<tool_call>([\s\S]*?)(?:<\/tool_call>|$)/g;

const readTagged: ReadCalls = (text) => {
  const calls = [...text.matchAll(BLOCK)].map(([, json]) => readCall((json as string).trim()));
  if (calls.length === 0 || calls.includes(null)) return null;
  return { content: text.replace(BLOCK, '').trimEnd(), calls: calls as ToolCall[] };
};

const readBare: ReadCalls = (text) => {
  const call = readCall(text.replace(/^\s*(?:<\|python_tag\|>)?/, ''));
  return call && { content: '', calls: [call] };
};

/** The usual order of members: the arguments are then taken as they stand. */
const ORDERED = /^\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:([\s\S]*)\}$/;

function readCall(json: string): ToolCall | null {
  const [, quoted, rest] = ORDERED.exec(json.trim()) ?? [];
  const written = rest?.trim();
  const inside = written === undefined ? undefined : parsed(written);
  if (quoted !== undefined && isRecord(inside)) return named(parsed(quoted), written as string);
  const whole = parsed(json);
  if (!isRecord(whole)) return null;
  const given = whole.arguments ?? whole.parameters ?? {};
  return isRecord(given) ? named(whole.name, JSON.stringify(given)) : null;
}

const named = (name: unknown, written: string): ToolCall | null =>
  isIdentifier(name) ? { name, arguments: written } : null;

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}
