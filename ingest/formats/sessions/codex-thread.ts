/** The conversation of one agent of Codex as events. */
import type { Draft, Message, Part } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { APPARENT_ERROR, resultFlags, toolLedger } from '../kit/conversation.ts';
import type { Emitter } from '../kit/native.ts';
import { timeOfText } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';
import { callOf, isAnswer, type Line, outputOf, partsOf, promptOf, resultOf, shownOf } from './codex-items.ts';

/** Items that one response of the model brought. */
type Answer = {
  readonly first: Line;
  readonly items: Line[];
  readonly input: Message[] | null;
  /** When the last message before it was written: the program calls the model then. */
  readonly askedAt: string | null;
  readonly model: unknown;
  usage?: JsonObject;
  responseId?: unknown;
  /** Whether `usage` is that of a record, which stands for one call. */
  isRecorded?: boolean;
  /** What ended it before the model did. */
  cut?: 'aborted' | 'error';
};

type Outcome = { readonly failed: boolean; readonly ms: number | null };

export type Thread = {
  readonly episodeId: string;
  readonly agentId: string;
  readonly instructions: string | null;
  /** Who asks: the user, or the agent that started this one. */
  readonly asker: string;
  /** How many of the lines are of the thread that this one was spawned or forked from, and who wrote them. */
  readonly inherited: number;
  readonly origin: string;
};

/**
 * The events of one file. Items that follow each other are one call: what ends it is its usage, or an item that the model did not
 * write. After a compaction that does not say what is left of the context, the input of a call is unknown. What the thread inherited is
 * context of its calls; its answers are calls of another thread.
 */
export function threadDrafts(emit: Emitter, lines: readonly Line[], thread: Thread): Draft[] {
  const system = thread.instructions === null ? [] : [{ role: 'system', content: thread.instructions }];
  const outcomes = outcomesOf(lines);
  const pending: (() => Draft[])[] = [];
  const answers: Answer[] = [];
  const ledger = toolLedger();
  let context: Message[] | null = [...system];
  let open: Answer | null = null;
  let askedAt: string | null = null;
  let model: unknown;
  let total: unknown;
  const isBilledFirst = billsFirst(lines.slice(thread.inherited));
  let billed: JsonObject | undefined;
  for (const [at, line] of lines.entries()) {
    const { type, payload } = line;
    const isInherited = at < thread.inherited;
    if (type === 'turn_context') model = payload.model ?? model;
    else if (type === 'token_usage_record') {
      const last = open ?? answers.at(-1);
      total = totalOf(payload.thread_token_usage) ?? total;
      open = null;
      if (isInherited) continue;
      // What was billed for no answer, as for a compaction.
      if (!last || last.isRecorded) pending.push(() => noteDrafts(emit, line, thread, type));
      else Object.assign(last, { usage: payload.usage, responseId: payload.response_id, isRecorded: true });
    } else if (type === 'event_msg' && payload.type === 'token_count') {
      const info = isRecord(payload.info) ? payload.info : {};
      const sum = totalOf(info.total_token_usage) ?? null;
      const last = answers.at(-1);
      // It is written again, with the same total, when only the limits of the account changed, and after a record of the same usage.
      const isNew = !isInherited && isRecord(info.last_token_usage) && sum !== total;
      if (isNew && isBilledFirst) {
        billed = info.last_token_usage as JsonObject;
        open = null;
      } else if (isNew && last && !last.usage) {
        last.usage = info.last_token_usage as JsonObject;
        open = null;
      }
      total = sum;
    } else if (type === 'compacted') {
      open = null;
      const left = payload.replacement_history;
      context = Array.isArray(left)
        ? [...system, ...left.filter(isRecord).flatMap((item) => shownOf(item) ?? [])]
        : null;
      if (!isInherited) pending.push(() => noteDrafts(emit, line, thread, 'compacted'));
    } else if (type === 'event_msg' && payload.type === 'thread_rolled_back') {
      open = null;
      context = context && withoutTurns(context, payload.num_turns);
      if (!isInherited) pending.push(() => noteDrafts(emit, line, thread, 'thread_rolled_back'));
    } else if (type === 'event_msg' && /^(error|stream_error|turn_aborted)$/.test(asText(payload.type))) {
      const kind = payload.type === 'turn_aborted' ? 'turn_aborted' : 'error';
      // An answer is billed once it is whole.
      if (open && !open.usage) open.cut = kind === 'error' ? 'error' : 'aborted';
      open = null;
      if (!isInherited) pending.push(() => noteDrafts(emit, line, thread, kind));
    } else if (type === 'response_item') {
      const shown = shownOf(payload);
      if (isInherited) {
        if (shown) pending.push(() => inheritedDrafts(emit, line, shown, thread));
      } else if (isAnswer(payload)) {
        if (!open) {
          open = { first: line, items: [], input: context && [...context], askedAt, model, ...given('usage', billed) };
          billed = undefined;
          answers.push(open);
          const answer: Answer = open;
          const number = answers.length;
          pending.push(() => answerDrafts(emit, answer, thread, number, ledger));
        }
        open.items.push(line);
      } else {
        open = null;
        askedAt = timeOfText(line.timestamp);
        pending.push(() => itemDrafts(emit, line, thread, ledger, outcomes));
      }
      if (shown && context) context = joined(context, shown);
    }
  }
  return pending.flatMap((drafts) => drafts());
}

/** Whether usage stands before the items it is the usage of, as Codex wrote it in 2025 (0.40): then it does from the first answer on. */
function billsFirst(lines: readonly Line[]): boolean {
  const bill = lines.findIndex(
    ({ type, payload }) =>
      type === 'event_msg' &&
      payload.type === 'token_count' &&
      isRecord(payload.info) &&
      isRecord(payload.info.last_token_usage),
  );
  return bill >= 0 && bill < lines.findIndex(({ type, payload }) => type === 'response_item' && isAnswer(payload));
}

/** What usage says of the whole thread: usage of the same call says the same. */
const totalOf = (total: unknown): string | undefined =>
  isRecord(total) ? JSON.stringify([total.input_tokens, total.output_tokens]) : undefined;

/** Items of one answer are one message of the assistant. */
function joined(context: readonly Message[], shown: Message): Message[] {
  const last = context.at(-1);
  if (last?.role !== 'assistant' || shown.role !== 'assistant') return [...context, shown];
  return [...context.slice(0, -1), { ...last, content: [...(last.content as Part[]), ...(shown.content as Part[])] }];
}

function withoutTurns(context: readonly Message[], turns: unknown): Message[] {
  const prompts = context.flatMap(({ role, content }, i) =>
    role === 'user' && promptOf({ type: 'message', role, content }) !== null ? [i] : [],
  );
  const from = typeof turns === 'number' && turns > 0 ? prompts.at(-turns) : undefined;
  return context.slice(0, from ?? context.length);
}

/** Files of one run stand beside each other, so that times order their lines; the place in the file does where there is no time. */
const placeOf = ({ seq, timestamp }: Line, episodeId: string): { episode_id: string; seq?: number } => ({
  episode_id: episodeId,
  ...(timeOfText(timestamp) === null ? { seq } : {}),
});

function answerDrafts(
  emit: Emitter,
  answer: Answer,
  { episodeId, agentId }: Thread,
  number: number,
  ledger: ReturnType<typeof toolLedger>,
): Draft[] {
  const { first, items, input, askedAt, model, usage, responseId, cut } = answer;
  const last = items.at(-1)!;
  const id = `${agentId}/${number}`;
  const call = { ...placeOf(first, episodeId), call_id: id, agent_id: agentId };
  const named = typeof model === 'string' ? { model } : {};
  let index = 0;
  return [
    emit.event('generation.requested', [episodeId, id], { ...call, ...named, ...(input ? { input } : {}) }, askedAt),
    emit.event(
      'generation.completed',
      [episodeId, id],
      {
        ...call,
        choices: [
          {
            index: 0,
            content: items.flatMap(({ payload }) => partsOf(payload)),
            ...given('finish_reason', cut ?? (items.some(isIncomplete) ? 'incomplete' : undefined)),
          },
        ],
        ...(isIdentifier(responseId) ? { response_id: responseId } : {}),
        ...(typeof model === 'string' ? { response_model: model } : {}),
        ...given('usage', usageOf(usage)),
        native: { ids: items.map(({ payload }) => payload.id ?? null) },
      },
      timeOfText(last.timestamp),
    ),
    ...items.flatMap((line): Draft[] => {
      const called = callOf(line.payload);
      if (!called) return [];
      const { id: native, ...asked } = called;
      const data = {
        ...call,
        tool_call_id: `${agentId}/${ledger.call(native)}`,
        index: index++,
        ...asked,
        native: { tool_call_id: native, ...given('namespace', line.payload.namespace) },
      };
      return [emit.event('tool.called', [episodeId, id, data.index], data, timeOfText(line.timestamp))];
    }),
  ];
}

/** A search that did not end is another's; text, thoughts and arguments are the model's. */
const isIncomplete = ({ payload: { type, status } }: Line): boolean =>
  status === 'incomplete' && /^(?:message|reasoning|function_call|custom_tool_call)$/.test(asText(type));

/** A message, an answer or a result that the thread was begun with. */
function inheritedDrafts(emit: Emitter, line: Line, { role, content }: Message, thread: Thread): Draft[] {
  const { episodeId, agentId, origin } = thread;
  const data = {
    ...placeOf(line, episodeId),
    message_id: `${agentId}/m${line.seq}`,
    from: role === 'assistant' || role === 'tool' ? origin : role,
    to: [agentId],
    role,
    content: content ?? null,
    flags: ['copied_context'],
  };
  return [emit.event('message.sent', [episodeId, agentId, line.seq], data, timeOfText(line.timestamp))];
}

function itemDrafts(
  emit: Emitter,
  line: Line,
  { episodeId, agentId, asker }: Thread,
  ledger: ReturnType<typeof toolLedger>,
  outcomes: ReadonlyMap<unknown, Outcome>,
): Draft[] {
  const { payload: item, seq } = line;
  const about = placeOf(line, episodeId);
  const time = timeOfText(line.timestamp);
  if (item.type === 'message') {
    const data = {
      ...about,
      message_id: `${agentId}/m${seq}`,
      from: promptOf(item) === null ? 'codex' : asker,
      to: [agentId],
      role: item.role as string,
      content: partsOf(item),
    };
    return [emit.event('message.sent', [episodeId, agentId, seq], data, time)];
  }
  if (!/_output$/.test(asText(item.type))) {
    const data = { ...about, kind: item.type as string, content: without(item, 'type') };
    return isIdentifier(item.type) ? [emit.event('environment.observed', [episodeId, agentId, seq], data, time)] : [];
  }
  const output = outputOf(item);
  const known = outcomes.get(item.call_id);
  const failed = known?.failed ?? (isRecord(item.output) && item.output.success === false);
  const result = {
    ...about,
    tool_call_id: `${agentId}/${ledger.result(item.call_id as string)}`,
    status: failed ? ('error' as const) : ('ok' as const),
    output,
    ...(known?.ms == null ? {} : { duration_ms: known.ms }),
    ...(!failed && typeof output === 'string' && reportsFailure(output)
      ? { flags: [APPARENT_ERROR] }
      : resultFlags(resultOf(item))),
    native: { tool_call_id: item.call_id },
  };
  const started = typeof output === 'string' ? startedAgent(output) : null;
  return [
    emit.event('tool.returned', [episodeId, agentId, seq], result, time),
    ...(started === null
      ? []
      : [
          emit.event(
            'control.transferred',
            [episodeId, agentId, seq],
            {
              ...about,
              from_agent: agentId,
              to_agent: started,
              kind: 'delegate' as const,
              tool_call_id: result.tool_call_id,
            },
            time,
          ),
        ]),
  ];
}

/** Codex reports to the model how a command ended in one of three forms within its output, and that a tool does not exist. */
const reportsFailure = (output: string): boolean =>
  /^unsupported call: /.test(output) ||
  /^(?:Chunk ID: [^\n]*\nWall time: [^\n]*\nProcess exited with code|Exit code:) (?!0\b)-?\d+/.test(output) ||
  /"metadata":\{"exit_code":(?!0\b)-?\d+/.test(output.slice(-200));

/** `spawn_agent` answers with the thread it started. */
const startedAgent = (output: string): string | null =>
  /^\{\s*"agent_id":\s*"([0-9a-f-]{36})"/.exec(output)?.[1] ?? null;

function noteDrafts(emit: Emitter, line: Line, { episodeId, agentId }: Thread, kind: string): Draft[] {
  const content = without(line.payload, 'type', 'replacement_history');
  const data = { ...placeOf(line, episodeId), kind, ...given('content', content) };
  return [emit.event('environment.observed', [episodeId, agentId, line.seq], data, timeOfText(line.timestamp))];
}

/** How tool calls ended, where an event beside the item reports it. */
function outcomesOf(lines: readonly Line[]): ReadonlyMap<unknown, Outcome> {
  const outcomes = new Map<unknown, Outcome>();
  for (const { type, payload } of lines) {
    if (type !== 'event_msg') continue;
    const item = payload.type === 'item_completed' && isRecord(payload.item) ? payload.item : payload;
    const id = item === payload ? payload.call_id : item.id;
    const status = item.status;
    const result = isRecord(item.result) ? item.result : {};
    const failed =
      (typeof item.exit_code === 'number' && item.exit_code !== 0) ||
      status === 'failed' ||
      status === 'declined' ||
      item.success === false ||
      'Err' in result ||
      (isRecord(result.Ok) && (result.Ok.isError === true || result.Ok.is_error === true));
    const hasOutcome = ['exit_code', 'status', 'success', 'result'].some((name) => name in item);
    if (isIdentifier(id) && hasOutcome) outcomes.set(id, { failed, ms: millisecondsOf(item.duration) });
  }
  return outcomes;
}

const millisecondsOf = (duration: unknown): number | null =>
  isRecord(duration) && typeof duration.secs === 'number' && typeof duration.nanos === 'number'
    ? duration.secs * 1000 + duration.nanos / 1e6
    : null;
