/**
 * Tool calls in the text that a model wrote, in the form that its chat template shows it: JSON between `<tool_call>` and `</tool_call>`
 * (Qwen, Hermes, and the template of new models), or an answer that is one JSON object (Llama 3). Pure.
 */
import { endOfString, isRecord } from '../../../ingest/events/json.ts';
import { isIdentifier } from '../../../ingest/events/text.ts';

/** `arguments` is the JSON text of an object, as the model wrote it. */
type ToolCall = { readonly name: string; readonly arguments: string };

/** Calls, and the text beside them. */
export type ParsedCalls = { readonly content: string; readonly calls: readonly ToolCall[] };

/** The calls of a text; null where it holds none that can be read. */
export type ReadCalls = (text: string) => ParsedCalls | null;

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

const THOUGHT_END = '</think>';

/**
 * A call begins with a tag and an object behind it; a tag that a text only names begins none, nor does one within a thought. A call ends with
 * its object: strings within may hold the tags. One that the end of the text cuts off counts if its object is whole, and one that cannot be
 * read stays in the text.
 */
const readTagged: ReadCalls = (text) => {
  const calls: ToolCall[] = [];
  let content = '';
  let at = 0;
  const opening = /\n?<tool_call>\s*(?=\{)/g;
  opening.lastIndex = endOfThought(text);
  for (let found = opening.exec(text); found !== null; found = opening.exec(text)) {
    const start = found.index + found[0].length;
    const end = endOfObject(text, start);
    const closing = end < 0 ? null : /^\s*(?:<\/tool_call>|$)/.exec(text.slice(end));
    const call = closing === null ? null : readCall(text.slice(start, end));
    if (call === null) continue;
    calls.push(call);
    content += text.slice(at, found.index);
    at = end + closing![0].length;
    opening.lastIndex = at;
  }
  if (calls.length === 0) return null;
  return { content: (content + text.slice(at)).trimEnd(), calls };
};

/** Where the thought that an answer begins with ends; 0 where it has none. The prompt may have opened it. */
function endOfThought(text: string): number {
  const end = text.indexOf(THOUGHT_END);
  if (end < 0) return 0;
  const call = /^\s*<think>/.test(text) ? -1 : text.slice(0, end).search(/<tool_call>\s*\{/);
  // A string of a call may hold the tag.
  const isWithin = call >= 0 && endOfObject(text, text.indexOf('{', call)) > end;
  return isWithin ? 0 : end + THOUGHT_END.length;
}

/** Where the object of JSON that begins at a brace ends, its strings passed over; -1 where it does not. */
function endOfObject(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const c = text[at];
    if (c === '"') {
      at = endOfString(text, at);
      if (at < 0) return -1;
    } else if (c === '{') depth++;
    else if (c === '}' && --depth === 0) return at + 1;
  }
  return -1;
}

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
