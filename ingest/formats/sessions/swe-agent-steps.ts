/** The entries of a SWE-agent trajectory beside the history that has more of each, and the events of each. */
import type { Message, Part } from '../../events/events.ts';
import { given, isRecord, type JsonObject, parseRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { badMessage, type ChatMessage, readArguments, textIn, toContent, toMessage } from '../kit/chat-message.ts';
import type { Trace } from '../kit/trace.ts';

/** One step: its entry in the trajectory, and the history of the same answer. */
export type Entry = {
  readonly step: JsonObject;
  readonly query: unknown;
  readonly calls: readonly JsonObject[];
  /** Tool results of the history, by the id of their call. */
  readonly results: ReadonlyMap<unknown, unknown>;
};

const isAnswer = (entry: JsonObject): boolean => entry.role === 'assistant' && entry.is_demo !== true;

/** The steps of a run: of its trajectory, each with its answer in the history; or of the history alone. */
export function entriesOf(trajectory: readonly JsonObject[] | undefined, history: readonly JsonObject[]): Entry[] {
  const results = new Map<unknown, unknown>();
  for (const entry of history) {
    const ids = Array.isArray(entry.tool_call_ids) ? entry.tool_call_ids : [];
    if (entry.role === 'tool' && entry.is_demo !== true) for (const id of ids) results.set(id, entry.content);
  }
  const callsOf = (answer: JsonObject | undefined): JsonObject[] =>
    (Array.isArray(answer?.tool_calls) ? answer.tool_calls : []).filter(isRecord);
  if (!trajectory) {
    return history.flatMap((entry, i) => {
      if (!isAnswer(entry)) return [];
      const after = history[i + 1];
      const observation = after && after.role !== 'assistant' ? textIn(after.content) : undefined;
      const step = {
        ...without(entry, 'role', 'agent', 'message_type', 'tool_calls', 'content'),
        response: textIn(entry.content),
        ...given('observation', observation),
      };
      return [{ step, query: undefined, calls: callsOf(entry), results }];
    });
  }
  const answers = history.filter(isAnswer);
  let from = 0;
  return trajectory.map((step) => {
    const found = answers.findIndex((answer, i) => i >= from && isSame(answer, step));
    if (found >= 0) from = found + 1;
    return { step, query: step.query ?? step.messages, calls: callsOf(answers[found]), results };
  });
}

/** An answer of the history that is this step of the trajectory: it has the same text or action. */
const isSame = (answer: JsonObject, step: JsonObject): boolean =>
  answer.action === step.action && (textIn(answer.content) === step.response || answer.thought === step.thought);

/** The messages before the model's first answer, from the history or else from its first query. */
export function openingMessages(history: readonly JsonObject[], query: unknown) {
  const before = history.length > 0 ? history : Array.isArray(query) ? query.filter(isRecord) : [];
  const end = before.findIndex(isAnswer);
  return (end < 0 ? before : before.slice(0, end)).flatMap((entry) => {
    if (typeof entry.role !== 'string' || entry.role === '') return [];
    const content = isText(entry.content) ? toContent(entry.content) : undefined;
    const message = { role: entry.role, ...given('content', content) };
    return [{ message, text: textIn(entry.content), demonstration: entry.is_demo === true }];
  });
}

const isText = (content: unknown): boolean =>
  typeof content === 'string' || (Array.isArray(content) && badMessage({ role: 'user', content }, '') === null);

/** Adds the events of a step; `place` is its number, `next` numbers its events. */
export function addStep(
  trace: Trace,
  agent: string,
  model: string | undefined,
  { step, query, calls, results }: Entry,
  place: number,
  next: () => number,
): void {
  const callId = `t${place}`;
  const call = { call_id: callId, agent_id: agent };
  const asks = asksOf(step, calls, place);
  const input = inputOf(query);
  const { response, thought, observation, state, execution_time: seconds } = step;
  const text = typeof response === 'string' ? response : '';
  const reason = typeof thought === 'string' && thought !== '' && !text.includes(thought.trim()) ? thought : null;
  const parts: Part[] = [
    ...(reason === null ? [] : [{ type: 'reasoning', content: reason }]),
    ...(text === '' ? [] : [{ type: 'text', content: text }]),
    ...asks
      .filter(({ native }) => native !== null)
      .map(({ native, name, asked }) => ({
        type: 'tool_call',
        id: native,
        name,
        arguments: asked.arguments ?? asked.arguments_raw,
      })),
  ];
  const plain = parts.every((part) => part.type === 'text');
  const known = ['action', 'observation', 'response', 'state', 'query', 'messages', 'execution_time', 'thought'];
  const rest = without({
    ...without(step, ...known),
    query: input ? undefined : query,
    thought: reason === null && thought !== text ? thought : undefined,
    action: asks.length === 0 || asks[0]!.native === null ? undefined : step.action,
  });
  const shown = stateOf(state);
  if (input) trace.add('generation.requested', [place], { ...call, seq: next(), model, input });
  trace.add('generation.completed', [place], {
    ...call,
    seq: next(),
    choices: [{ index: 0, content: plain ? text : parts }],
    unmapped: rest,
  });
  for (const [index, { id, native, name, type, asked }] of asks.entries()) {
    const isLast = index === asks.length - 1;
    const output = asks.length === 1 ? observation : (results.get(native) ?? (isLast ? observation : undefined));
    const timed = typeof seconds === 'number' && seconds >= 0 && asks.length === 1;
    const about = { tool_call_id: id, native: given('tool_call_id', native ?? undefined) };
    trace.add('tool.called', [place, index], { ...about, ...call, seq: next(), index, name, type, ...asked });
    if (output !== undefined)
      trace.add('tool.returned', [place, index], {
        ...{ ...about, call_id: callId, seq: next(), status: 'ok' },
        output,
        duration_ms: timed ? seconds * 1000 : undefined,
      });
  }
  const observe = (
    kind: string,
    more: { readonly state?: Record<string, unknown>; readonly content?: unknown },
  ): void => trace.add('environment.observed', [place, kind], { ...call, seq: next(), kind, ...more });
  if (asks.length === 0 && typeof observation === 'string' && observation !== '')
    observe('output', { content: observation });
  if (shown) observe('state', shown);
}

type Ask = {
  readonly id: string;
  /** The id in the source; null for a command that was written as text. */
  readonly native: string | null;
  readonly name: string;
  readonly type: string;
  readonly asked: Partial<ReturnType<typeof readArguments>>;
};

/** The calls of a step; ids of the source may repeat, so a call is named by its step too. */
function asksOf({ action }: JsonObject, calls: readonly JsonObject[], place: number): Ask[] {
  const asked = calls.flatMap((call, k): Ask[] => {
    const { id } = call;
    const asked = isRecord(call.function) ? call.function : {};
    if (!isIdentifier(id) || !isIdentifier(asked.name)) return [];
    return [
      {
        id: `t${place}.${k}/${id.slice(0, 200)}`,
        native: id,
        name: asked.name,
        type: 'function',
        asked: readArguments(asked.arguments),
      },
    ];
  });
  if (asked.length > 0 || typeof action !== 'string' || action.trim() === '') return asked;
  const [word = ''] = action.trim().split(/\s+/);
  const name = isIdentifier(word) ? word : 'command';
  return [{ id: `t${place}.0`, native: null, name, type: 'code', asked: { arguments: { command: action } } }];
}

/** The messages as sent; null where there are none, or not all can be read. */
function inputOf(query: unknown): Message[] | null {
  if (!Array.isArray(query) || query.length === 0) return null;
  if (query.some((message) => badMessage(message, '') !== null)) return null;
  return query.map((message) => toMessage(message as ChatMessage));
}

/** What the environment showed of itself; once written as JSON in a text. */
function stateOf(state: unknown): { state?: Record<string, unknown>; content?: unknown } | null {
  if (isRecord(state)) return Object.keys(state).length === 0 ? null : { state };
  if (typeof state !== 'string' || state.trim() === '') return null;
  const parsed = parseRecord(state);
  return !('refusal' in parsed) && isRecord(parsed.value) ? { state: parsed.value } : { content: state };
}
