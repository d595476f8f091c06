/** The lines of one agent of a Claude Code session as events. */
import type { Message, Part } from '../../events/events.ts';
import { asText, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { resultFlags } from '../kit/conversation.ts';
import { timeOfText } from '../kit/run.ts';
import type { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import { blocksOf, type Line, MAIN, promptOf, SYNTHETIC } from './claude-code-lines.ts';

/** Lines of one session stand in several files, so that their times order them; the place in the file does where there is no time. */
export const placeOf = ({ fields, seq, isPlaced }: Line) =>
  isPlaced || timeOfText(fields.timestamp) === null ? { seq } : {};

type ContextMessage = Readonly<Record<string, unknown>> & { readonly role: string; readonly content: Part[] };

/** A message as a later call was shown it. */
type VisibleMessage = { readonly uuid: unknown; readonly message: ContextMessage };

/** Lines of one answer: each block of it has a line of its own, and results of tools may stand between them. */
type Answer = {
  readonly first: Line;
  lines: Line[];
  readonly shown: VisibleMessage;
  /** Null where the lines before the first are not in the file. */
  readonly input: Message[] | null;
  /** When the last message before it was written: the program calls the model then. */
  readonly askedAt: string | null;
  /** Whether the person ended it, which its lines do not say. */
  isInterrupted?: boolean;
};

/**
 * The events of one agent, its lines in their order. The input of a call is the messages before it since the context was last
 * compacted; where the person went back to an earlier message, what followed that message is no part of it.
 */
export function addThread(trace: Trace, lines: readonly Line[], agentId: string, system?: string): void {
  const answers = new Map<string, Answer>();
  const instructions = system === undefined ? [] : [{ role: 'system', content: system }];
  // An answer is stated once all its lines are known, before the results of its tools.
  const pending: (() => void)[] = [];
  const ids = new Set<string>();
  const parents = new Map(lines.map(({ fields }) => [fields.uuid, fields.parentUuid]));
  let context: VisibleMessage[] = [];
  let askedAt: string | null = null;
  let open: Answer | null = null;
  let whole = !isHeadless(lines, agentId);
  for (const line of lines) {
    const { fields } = line;
    if (whole && context.length > 0 && isAfterGap(fields, parents)) whole = false;
    if (fields.type === 'assistant' && isCall(line)) {
      const { id } = fields.message as JsonObject;
      const key = JSON.stringify([id ?? fields.uuid, fields.requestId]);
      const known = answers.get(key);
      const blocks = blocksOf(fields).map(partOf);
      if (known) {
        known.lines.push(line);
        known.shown.message.content.push(...blocks);
        open = known;
        continue;
      }
      const shown = { uuid: fields.uuid, message: { role: 'assistant', content: blocks } };
      // The messages before may still grow by lines that were written late: they are shared, not copied.
      const answer: Answer = {
        first: line,
        lines: [line],
        shown,
        input: whole ? [...instructions, ...context.map(({ message }) => message)] : null,
        askedAt,
      };
      answers.set(key, answer);
      open = answer;
      context = [...context, shown];
      pending.push(() => addAnswer(trace, agentId, answer, ids));
      continue;
    }
    if (fields.type === 'user' || fields.type === 'assistant') {
      askedAt = timeOfText(fields.timestamp);
      if (open && isInterruption(fields)) open.isInterrupted = true;
      open = null;
      if (promptOf(fields) !== null) context = upTo(context, fields.parentUuid, parents);
      const messages = messagesOf(fields).map((message) => ({ uuid: fields.uuid, message }));
      if (fields.type === 'user' || line.copied) context = [...context, ...messages];
      pending.push(() => addMessage(trace, agentId, line));
    } else {
      if (fields.subtype === 'compact_boundary') {
        context = [];
        whole = true;
      }
      pending.push(() => addNote(trace, line));
    }
  }
  for (const add of pending) add();
}

/**
 * Whether the file begins within a conversation: what its first message hangs on ends at a line that is not there. What a sub-agent is
 * asked may hang on a line of its caller, which stands in another file.
 */
export function isHeadless(lines: readonly Line[], agentId: string): boolean {
  const begin = lines.find(({ fields }) => fields.type === 'user' || fields.type === 'assistant');
  if (!begin || isRecord(begin.fields.forkedFrom)) return false;
  const { fields: first } = begin;
  if (agentId !== MAIN && promptOf(first) !== null) return false;
  const parents = new Map(lines.map(({ fields }) => [fields.uuid, fields.parentUuid]));
  const seen = new Set<unknown>();
  // What follows a compaction hangs on nothing and names what it hung on before.
  const logical = new Map(lines.map(({ fields }) => [fields.uuid, fields.logicalParentUuid]));
  for (let uuid: unknown = first.uuid; !seen.has(uuid); uuid = parents.get(uuid) ?? logical.get(uuid)) {
    if (!isIdentifier(uuid)) return false;
    if (!parents.has(uuid)) return true;
    seen.add(uuid);
  }
  return false;
}

/** Whether lines are missing before this one: what it hangs on is not there. */
const isAfterGap = ({ type, parentUuid }: JsonObject, parents: ReadonlyMap<unknown, unknown>): boolean =>
  (type === 'user' || type === 'assistant') && isIdentifier(parentUuid) && !parents.has(parentUuid);

/** Whether lines are missing anywhere in the thread. */
export function hasGap(lines: readonly Line[], agentId: string): boolean {
  const parents = new Map(lines.map(({ fields }) => [fields.uuid, fields.parentUuid]));
  const messages = lines.filter(({ fields: { type } }) => type === 'user' || type === 'assistant');
  return isHeadless(lines, agentId) || messages.slice(1).some(({ fields }) => isAfterGap(fields, parents));
}

/** Whether a model wrote this answer in this session. */
const isCall = ({ fields, copied }: Line): boolean => (fields.message as JsonObject).model !== SYNTHETIC && !copied;

function upTo(context: VisibleMessage[], parent: unknown, parents: ReadonlyMap<unknown, unknown>): VisibleMessage[] {
  const seen = new Set<unknown>();
  for (let uuid = parent; isIdentifier(uuid) && !seen.has(uuid); uuid = parents.get(uuid)) {
    seen.add(uuid);
    const at = context.findLastIndex((one) => one.uuid === uuid);
    if (at < 0) continue;
    // What hangs beside the parent, such as results of parallel tools, is not cut: only a later answer was taken back.
    const next = context.findIndex(({ message }, i) => i > at && message.role === 'assistant');
    return next < 0 || seen.has(context[next]!.uuid) ? context : context.slice(0, next);
  }
  return context;
}

function addAnswer(
  trace: Trace,
  agentId: string,
  { first, lines, shown, input, askedAt, isInterrupted }: Answer,
  ids: Set<string>,
): void {
  const last = lines.at(-1)!;
  const native = last.fields.message as JsonObject;
  const wanted = isIdentifier(native.id) ? native.id : (first.fields.uuid as string);
  const id = ids.has(wanted) ? (first.fields.uuid as string) : wanted;
  ids.add(wanted);
  const call = { ...placeOf(first), call_id: id, agent_id: agentId };
  const model = typeof native.model === 'string' ? native.model : undefined;
  const reason = native.stop_reason;
  const finish = typeof reason === 'string' ? reason : isInterrupted ? 'aborted' : undefined;
  const rest = without(last.fields, ...LINE, 'requestId', 'error', 'isApiErrorMessage');
  const place = [agentId, id];
  trace.add('generation.requested', place, { ...call, model, input: input ?? undefined }, askedAt);
  const answer = {
    ...call,
    choices: [{ index: 0, content: shown.message.content, finish_reason: finish }],
    response_id: isIdentifier(native.id) ? native.id : undefined,
    response_model: model,
    usage: usageOf(native.usage),
    native: { uuids: lines.map(({ fields }) => fields.uuid), request_id: last.fields.requestId },
    unmapped: without({
      ...rest,
      ...without(native, 'id', 'type', 'role', 'model', 'content', 'stop_reason', 'usage'),
    }),
  };
  trace.add('generation.completed', place, answer, timeOfText(last.fields.timestamp));
  let index = 0;
  for (const line of lines)
    for (const [i, block] of blocksOf(line.fields).entries()) {
      if (/tool_result$/.test(asText(block.type))) addResult(trace, block, i, line);
      if (!/tool_use$/.test(asText(block.type))) continue;
      const tool = {
        ...call,
        tool_call_id: trace.ledger.call(block.id as string),
        index: index++,
        name: block.name as string,
        type: block.type === 'tool_use' ? 'function' : 'server',
        arguments: block.input ?? null,
        native: { tool_call_id: block.id },
        unmapped: without(block, 'type', 'id', 'name', 'input'),
      };
      trace.add('tool.called', [line.fields.uuid as string, i], tool, timeOfText(line.fields.timestamp));
    }
}

/** A line that no model call wrote: a prompt, results of tools, what was copied from another session or stands for an answer. */
function addMessage(trace: Trace, agentId: string, line: Line): void {
  const { fields, copied } = line;
  const uuid = fields.uuid as string;
  const time = timeOfText(fields.timestamp);
  if (fields.type === 'assistant' && !copied) {
    const kind = fields.isApiErrorMessage === true ? 'error' : 'output';
    const content = blocksOf(fields).map(partOf);
    trace.add('environment.observed', [uuid], { ...placeOf(line), kind, content }, time);
    return;
  }
  const isOwnResult = ({ type }: JsonObject): boolean => !copied && type === 'tool_result';
  for (const [i, block] of blocksOf(fields).entries()) if (isOwnResult(block)) addResult(trace, block, i, line);
  const rest = blocksOf(fields).filter((block) => !isOwnResult(block));
  if (rest.length === 0) return;
  const sent = {
    ...placeOf(line),
    message_id: uuid,
    from: authorOf(fields, agentId),
    to: fields.type === 'assistant' ? ['all'] : [agentId],
    role: fields.type as string,
    content: rest.map(partOf),
    flags: copied ? ['copied_context'] : undefined,
    unmapped: without(fields, ...LINE),
  };
  trace.add('message.sent', [uuid], sent, time);
}

/** A sub-agent is asked by the agent that started it, which its lines do not name. */
function authorOf({ type, isMeta, isSidechain }: JsonObject, agentId: string): string | undefined {
  if (type === 'assistant') return agentId;
  return isMeta === true ? 'claude-code' : isSidechain === true ? undefined : 'user';
}

/** What the program writes where a person ends an answer; where tools ran, the answer was whole. */
const isInterruption = (fields: JsonObject): boolean =>
  blocksOf(fields).some(({ text }) => text === '[Request interrupted by user]');

/** The refusals of a person, as the program words them for the model. */
const REFUSED = /^(The user doesn't want to (proceed|take)|Permission to use|\[Request interrupted)/;

function addResult(trace: Trace, block: JsonObject, i: number, line: Line): void {
  const { fields } = line;
  const output = typeof block.content === 'string' ? block.content : listed(block.content).map(partOf);
  const toolUseResult = isRecord(fields.toolUseResult) ? fields.toolUseResult : {};
  const words =
    typeof output === 'string'
      ? output
      : output.map(({ content }) => (typeof content === 'string' ? content : '')).join('');
  const failed = block.is_error === true;
  const status = failed ? (REFUSED.test(words) ? 'denied' : 'error') : 'ok';
  const { totalDurationMs: took, interrupted } = toolUseResult;
  const returned = {
    ...placeOf(line),
    tool_call_id: trace.ledger.result(block.tool_use_id as string),
    status: interrupted === true ? 'cancelled' : status,
    output: block.content === undefined ? undefined : output,
    ...resultFlags(block.content),
    duration_ms: typeof took === 'number' ? took : undefined,
    native: { tool_call_id: block.tool_use_id },
    unmapped: without(fields, ...LINE, 'toolUseResult'),
  } as const;
  trace.add('tool.returned', [fields.uuid as string, i], returned, timeOfText(fields.timestamp));
}

/** A note that says what happened to the agent. The others stay in the record of the file. */
function addNote(trace: Trace, line: Line): void {
  const { fields } = line;
  if (fields.type !== 'system' || !isIdentifier(fields.uuid)) return;
  const kind = fields.subtype === 'api_error' ? 'error' : isIdentifier(fields.subtype) ? fields.subtype : 'system';
  const content = without(fields, 'type', 'subtype', ...LINE);
  const noted = { ...placeOf(line), kind, content };
  trace.add('environment.observed', [fields.uuid], noted, timeOfText(fields.timestamp));
}

/** What each line repeats of its session, and what has a place of its own. */
const LINE = [
  ...['type', 'message', 'uuid', 'parentUuid', 'logicalParentUuid', 'timestamp', 'sessionId', 'isSidechain', 'agentId'],
  ...[
    'attributionAgent',
    'startedBy',
    'sourceToolAssistantUUID',
    'promptId',
    'cwd',
    'version',
    'gitBranch',
    'userType',
  ],
  ...['entrypoint', 'slug'],
];

const listed = (content: unknown): readonly unknown[] =>
  Array.isArray(content) ? content : content == null ? [] : [content];

function messagesOf(fields: JsonObject): ContextMessage[] {
  const blocks = blocksOf(fields);
  const results = blocks.filter(({ type }) => type === 'tool_result');
  const rest = blocks.filter((block) => !results.includes(block)).map(partOf);
  return [
    ...results.map((block) => ({
      role: 'tool',
      content: listed(block.content).map(partOf),
      tool_call_id: block.tool_use_id,
      ...(block.is_error === true ? { is_error: true } : {}),
    })),
    ...(rest.length > 0 ? [{ role: fields.type as string, content: rest }] : []),
  ];
}

function partOf(native: unknown): Part {
  if (!isRecord(native)) return { type: 'text', content: native };
  const { type, text, thinking, ...rest } = native as JsonObject;
  if (type === 'text') return { ...rest, type, content: text };
  if (type === 'thinking') return { ...rest, type: 'reasoning', content: thinking };
  if (typeof type === 'string' && /tool_use$/.test(type)) {
    const { id, name, input, ...more } = rest;
    return { ...more, type: 'tool_call', id, name, arguments: input ?? null } as Part;
  }
  return typeof type === 'string' && type !== '' ? (native as Part) : { type: 'json', content: native };
}
