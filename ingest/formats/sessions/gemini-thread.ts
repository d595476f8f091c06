/** A chat of Gemini CLI as events. */
import type { Message } from '../../events/events.ts';
import { asText, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { resultFlags } from '../kit/conversation.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { timeOfText } from '../kit/run.ts';
import type { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import {
  badMessage,
  callParts,
  callsIn,
  isAdded,
  isErrorResponse,
  isMessage,
  isRewind,
  messagesIn,
  outputOf,
  responsesIn,
  resultShown,
  setIn,
  type ToolCall,
  textOf,
  thoughtsOf,
  toolCallsOf,
  wordsOf,
} from './gemini-records.ts';

type Line = {
  readonly seq: number;
  readonly fields: JsonObject & { readonly id: string };
  /** Messages of two types may have one id. */
  readonly key: string;
  /** As later calls are shown it, made once: they share these messages, or a long chat would fill the memory. */
  readonly shown: readonly Message[];
};

const lineOf = (seq: number, fields: Line['fields']): Line => ({
  seq,
  fields,
  key: `${asText(fields.type)} ${fields.id}`,
  shown: shownIn(fields),
});

/** An answer of the model: its first state, with its text, and its last state, which has the results of its tools. */
type Answer = {
  readonly first: Line;
  last: Line;
  readonly input: Message[];
  readonly askedAt: string | null;
  /** Why it is no whole answer. */
  cut?: string | undefined;
};

export type Chat = {
  readonly messages: readonly Line[];
  readonly answers: readonly Answer[];
  readonly refusals: readonly NativeRefusal[];
};

/**
 * The messages of a chat in the order they came. A line that repeats a message brings its later state; one that brings all messages,
 * or goes back to one, changes what later calls are shown and takes no call back.
 */
export function readChat(lines: readonly unknown[]): Chat {
  const refusals: NativeRefusal[] = [];
  const messages = new Map<string, Line>();
  const answers = new Map<string, Answer>();
  let context: Line[] = [];
  /** The answer that was the last thing said. */
  let latest: Answer | undefined;
  const take = (value: unknown, seq: number, field: string): void => {
    const bad = badMessage(value, field);
    if (bad) {
      refusals.push({ ...bad, at: seq });
      return;
    }
    const line = lineOf(seq, value as Line['fields']);
    const { key } = line;
    const { id, type } = line.fields;
    const answer = answers.get(id);
    if (type === 'gemini' && answer) {
      // The conversation as a whole repeats answers without their calls and tokens.
      const fields = { ...answer.last.fields, ...without(line.fields, 'content') } as Line['fields'];
      answer.last = lineOf(seq, fields);
      latest = answer;
      putLine(context, answer.last);
      return;
    }
    if (type === 'gemini' && isCall(line.fields)) {
      const askedAt = timeOfText(context.at(-1) && endOf(context.at(-1)!.fields));
      latest = { first: line, last: line, input: shownOf(context), askedAt };
      answers.set(id, latest);
    } else if (!messages.has(key) && !isResult(line.fields)) messages.set(key, line);
    if (type === 'user') latest = undefined;
    else if (latest && type !== 'gemini') latest.cut ??= cutIn(line.fields, latest);
    putLine(context, line);
  };
  for (const [seq, line] of lines.entries()) {
    const whole = messagesIn(setIn(line)) ?? messagesIn(line);
    if (whole) {
      context = [];
      for (const [i, message] of whole.entries())
        take(message, seq, setIn(line) ? `$set.messages[${i}]` : `messages[${i}]`);
    } else if (isRewind(line)) {
      const at = context.findIndex(({ fields }) => fields.id === line.$rewindTo);
      context = context.slice(0, Math.max(at, 0));
    } else if (isMessage(line) || !isRecord(line) || 'type' in line) take(line, seq, '');
  }
  return { messages: [...messages.values()], answers: [...answers.values()], refusals };
}

/**
 * Why the answer before a note is no whole one. A chat holds no finish reasons: the program shows them as sentences. An answer that calls
 * a tool was whole when its tool was stopped.
 */
function cutIn({ type, content }: JsonObject, { last }: Answer): string | undefined {
  if (type !== 'info' && type !== 'warning') return undefined;
  const note = textOf(content);
  if (/^\W*Request cancelled\.?\s*$/i.test(note)) return callsOf(last.fields).length > 0 ? undefined : 'aborted';
  const [, how, why = ''] = /^\W*Response (truncated|stopped)\b(.*)/is.exec(note) ?? [];
  if (how === undefined) return undefined;
  if (/^truncated$/i.test(how)) return 'length';
  return CUTS.find(([, words]) => words.test(why))?.[0] ?? 'error';
}

const CUTS = [
  ['recitation', /recitation/i],
  ['malformed_function_call', /function call|tool call/i],
  ['content_filter', /safety|language|forbidden|prohibited|sensitive/i],
] as const;

/** What the program puts into a conversation in the name of the model has neither a model nor tokens. */
const isCall = (fields: JsonObject): boolean =>
  typeof fields.model === 'string' || isRecord(fields.tokens) || toolCallsOf(fields).length > 0;

/** The results of tools stand beside their calls; the message that sends them says nothing. */
const isResult = ({ type, content }: JsonObject): boolean => type === 'user' && wordsOf(content).length === 0;

const callsOf = (fields: JsonObject): readonly ToolCall[] => {
  const recorded = toolCallsOf(fields);
  return recorded.length > 0 ? recorded : callsIn(fields.content);
};

const responsesOf = (call: ToolCall): readonly JsonObject[] =>
  responsesIn(call.result).filter(({ id }) => id === undefined || id === call.id);

/** When a message was last added to: an answer when the last of its tools ended. */
export const endOf = (fields: JsonObject): string =>
  [fields.timestamp, ...toolCallsOf(fields).map(({ timestamp }) => timestamp)]
    .filter((time) => typeof time === 'string')
    .sort()
    .at(-1) ?? '';

/** A line takes the place of its earlier state, or stands at the end. */
function putLine(context: Line[], line: Line): void {
  const at = context.findLastIndex(({ key }) => key === line.key);
  if (at < 0) context.push(line);
  else context[at] = line;
}

function shownIn(fields: JsonObject): Message[] {
  const words = wordsOf(fields.content);
  if (fields.type === 'gemini') {
    const calls = callsOf(fields);
    const results = calls.flatMap((call) => responsesOf(call).map((response) => resultShown(response, call.id)));
    return [{ role: 'assistant', content: [...thoughtsOf(fields), ...words, ...callParts(calls)] }, ...results];
  }
  if (fields.type !== 'user') return [];
  return [
    ...responsesIn(fields.content).map((response) => resultShown(response, response.id)),
    ...(words.length > 0 ? [{ role: 'user', content: words }] : []),
  ];
}

/** The messages that a call is shown; a result stands behind its call, however often it was sent. */
function shownOf(lines: readonly Line[]): Message[] {
  const known = new Set<unknown>();
  return lines.flatMap(({ fields, shown }) => {
    const isResultSent = (message: Message & JsonObject) =>
      fields.type === 'user' && message.role === 'tool' && known.has(message.tool_call_id);
    const fresh = (shown as readonly (Message & JsonObject)[]).filter((message) => !isResultSent(message));
    for (const { role, tool_call_id: id } of fresh) if (role === 'tool' && id !== undefined) known.add(id);
    return fresh;
  });
}

/** Adds the events of a chat with an agent; `asker` is the user, or the agent that started this one. */
export function addChat(trace: Trace, { messages, answers }: Chat, agentId: string, asker: string): void {
  const ordered = [
    ...messages.map((line) => ({ seq: line.seq, add: () => addMessage(trace, line, agentId, asker) })),
    ...answers.map((answer) => ({ seq: answer.first.seq, add: () => addAnswer(trace, answer, agentId) })),
  ];
  for (const { add } of ordered.sort((a, b) => a.seq - b.seq)) add();
}

/** Times order the events of a chat; the place does where there is no time. */
const placeOf = ({ seq }: Line, time: string | null) => (time === null ? { seq } : {});

function addMessage(trace: Trace, line: Line, agentId: string, asker: string): void {
  const { id, type, content } = line.fields;
  const time = timeOfText(line.fields.timestamp);
  const words = wordsOf(content);
  if (type !== 'user' && type !== 'gemini') {
    trace.add('environment.observed', [id], { ...placeOf(line, time), kind: type as string, content: words }, time);
    return;
  }
  const from = type === 'user' && !isAdded(textOf(content)) ? asker : 'gemini-cli';
  const role = type === 'user' ? 'user' : 'assistant';
  const sent = { message_id: `${role}/${id}`, from, to: [agentId], role, content: words };
  trace.add('message.sent', [role, id], { ...placeOf(line, time), ...sent }, time);
}

function addAnswer(trace: Trace, { first, last, input, askedAt, cut }: Answer, agentId: string): void {
  const { id, timestamp } = first.fields;
  const { model: name, tokens } = last.fields;
  const time = timeOfText(timestamp);
  const calls = callsOf(last.fields);
  const content = [...thoughtsOf(last.fields), ...wordsOf(first.fields.content), ...callParts(calls)];
  const call = { call_id: id, agent_id: agentId };
  const model = typeof name === 'string' ? name : undefined;
  const choice = { index: 0, content, finish_reason: cut ?? finishReasonIn(last.fields) };
  trace.add('generation.requested', [id], { ...placeOf(first, askedAt), ...call, model, input }, askedAt);
  trace.add(
    'generation.completed',
    [id],
    {
      ...placeOf(first, time),
      ...call,
      choices: content.length > 0 ? [choice] : [],
      response_model: model,
      usage: usageOf(tokens),
    },
    time,
  );
  for (const [index, one] of calls.entries()) addTool(trace, one, { ...call, index }, first);
}

function addTool(
  trace: Trace,
  one: ToolCall,
  call: { readonly call_id: string; readonly agent_id: string; readonly index: number },
  first: Line,
): void {
  const { id, name, args, status, agentId: child, resultDisplay: display } = one;
  const [began, ended] = [timeOfText(first.fields.timestamp), timeOfText(one.timestamp)];
  const place = [call.call_id, call.index];
  const about = { tool_call_id: `${call.call_id}/${id}`, native: { tool_call_id: id } };
  const asked = { ...call, ...about, name, type: 'function', arguments: args ?? null };
  trace.add('tool.called', place, { ...placeOf(first, began), ...asked }, began);
  if (isIdentifier(child)) {
    const kind = [isRecord(args) ? (args.agent_name ?? args.agentName) : undefined].find(isIdentifier);
    const parent = call.agent_id;
    trace.add('agent.defined', [child], { agent_id: child, name: kind ?? child, role: kind, parent_agent_id: parent });
    const { tool_call_id } = about;
    const handed = { from_agent: parent, to_agent: child, kind: 'delegate', tool_call_id } as const;
    trace.add('control.transferred', place, { ...placeOf(first, began), ...handed }, began);
  }
  const responses = responsesOf(one);
  const [response] = responses;
  if (!response && status !== 'error' && status !== 'cancelled') return;
  const failed = status === 'error' || (status === undefined && responses.some(isErrorResponse));
  const returned = {
    ...placeOf(first, ended),
    ...about,
    status: status === 'cancelled' ? status : failed ? 'error' : 'ok',
    output: response && outputOf(response),
    ...(response && !isRecord(response.response) ? resultFlags(response.response) : {}),
    unmapped: without({ result_display: display || undefined }),
  } as const;
  trace.add('tool.returned', place, returned, ended);
}
