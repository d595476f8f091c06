/** The conversation of one agent of Codex as events. */
import type { EventName, Message, Part } from '../../events/events.ts';
import { asText, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { APPARENT_ERROR, resultFlags } from '../kit/conversation.ts';
import { timeOfText } from '../kit/run.ts';
import type { InEpisode, Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import { callOf, isAnswer, type Line, outputOf, partsOf, promptOf, resultOf, shownOf } from './codex-items.ts';

/** Items that one response of the model brought. */
type Answer = {
  readonly items: Line[];
  readonly input: Message[] | null;
  /** When the last message before it was written: the program calls the model then. */
  readonly askedAt: string | null;
  readonly model: unknown;
  usage?: JsonObject | undefined;
  responseId?: unknown;
  /** Whether `usage` is that of a record, which stands for one call. */
  isRecorded?: boolean;
  /** What ended it before the model did. */
  cut?: 'aborted' | 'error';
};

type ThreadFacts = {
  readonly agentId: string;
  readonly instructions: string | undefined;
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
export function addThread(trace: Trace, lines: readonly Line[], thread: ThreadFacts): void {
  const reading = new ThreadReading(trace, lines, thread);
  for (const [at, line] of lines.entries()) reading.take(line, at < thread.inherited);
  reading.add();
}

class ThreadReading {
  readonly #trace: Trace;
  readonly #thread: ThreadFacts;
  readonly #system: readonly Message[];
  readonly #outcomes: ReturnType<typeof outcomesOf>;
  readonly #isBilledFirst: boolean;
  /** What an answer says is known once all its items are. */
  readonly #pending: (() => void)[] = [];
  readonly #answers: Answer[] = [];
  #context: Message[] | null;
  #open: Answer | null = null;
  #askedAt: string | null = null;
  #model: unknown;
  #total: unknown;
  #billed: JsonObject | undefined;

  constructor(trace: Trace, lines: readonly Line[], thread: ThreadFacts) {
    this.#trace = trace;
    this.#thread = thread;
    this.#system = thread.instructions === undefined ? [] : [{ role: 'system', content: thread.instructions }];
    this.#context = [...this.#system];
    this.#outcomes = outcomesOf(lines);
    this.#isBilledFirst = billsFirst(lines.slice(thread.inherited));
  }

  add(): void {
    for (const add of this.#pending) add();
  }

  take(line: Line, isInherited: boolean): void {
    const { type, payload } = line;
    if (type === 'turn_context') this.#model = payload.model ?? this.#model;
    else if (type === 'token_usage_record') this.#takeRecord(line, isInherited);
    else if (type === 'event_msg') this.#takeEvent(line, isInherited);
    else if (type === 'response_item') this.#takeItem(line, isInherited);
    else if (type === 'compacted') {
      const left = payload.replacement_history;
      this.#context = Array.isArray(left)
        ? [...this.#system, ...left.filter(isRecord).flatMap((item) => shownOf(item) ?? [])]
        : null;
      this.#takeNote(line, type, isInherited);
    }
  }

  #takeEvent(line: Line, isInherited: boolean): void {
    const { payload } = line;
    const kind = asText(payload.type);
    if (kind === 'token_count') this.#takeCount(payload, isInherited);
    else if (kind === 'thread_rolled_back') {
      this.#context &&= withoutTurns(this.#context, payload.num_turns);
      this.#takeNote(line, kind, isInherited);
    } else if (/^(error|stream_error|turn_aborted)$/.test(kind)) {
      const isAborted = kind === 'turn_aborted';
      // An answer is billed once it is whole.
      if (this.#open && !this.#open.usage) this.#open.cut = isAborted ? 'aborted' : 'error';
      this.#takeNote(line, isAborted ? kind : 'error', isInherited);
    }
  }

  #takeNote(line: Line, kind: string, isInherited: boolean): void {
    this.#open = null;
    const content = without(line.payload, 'type', 'replacement_history');
    if (!isInherited) this.#pending.push(() => this.#add('environment.observed', line, { kind, content }));
  }

  #takeRecord(line: Line, isInherited: boolean): void {
    const { payload } = line;
    const last = this.#open ?? this.#answers.at(-1);
    this.#total = totalOf(payload.thread_token_usage) ?? this.#total;
    this.#open = null;
    if (isInherited) return;
    // What was billed for no answer, as for a compaction.
    if (!last || last.isRecorded) this.#takeNote(line, line.type, false);
    else Object.assign(last, { usage: payload.usage, responseId: payload.response_id, isRecorded: true });
  }

  /** It is written again, with the same total, when only the limits of the account changed, and after a record of the same usage. */
  #takeCount(payload: JsonObject, isInherited: boolean): void {
    const info = isRecord(payload.info) ? payload.info : {};
    const sum = totalOf(info.total_token_usage) ?? null;
    const last = this.#answers.at(-1);
    const usage = isRecord(info.last_token_usage) && sum !== this.#total ? info.last_token_usage : null;
    if (!isInherited && usage && (this.#isBilledFirst || (last && !last.usage))) {
      if (this.#isBilledFirst) this.#billed = usage;
      else last!.usage = usage;
      this.#open = null;
    }
    this.#total = sum;
  }

  #takeItem(line: Line, isInherited: boolean): void {
    const { payload } = line;
    const shown = shownOf(payload);
    if (isInherited) {
      if (shown) this.#pending.push(() => this.#addInherited(line, shown));
    } else if (isAnswer(payload)) {
      this.#open ??= this.#begin();
      this.#open.items.push(line);
    } else {
      this.#open = null;
      this.#askedAt = timeOfText(line.timestamp);
      this.#pending.push(() => this.#addItem(line));
    }
    if (shown && this.#context) this.#context = joined(this.#context, shown);
  }

  #begin(): Answer {
    const input = this.#context && [...this.#context];
    const answer: Answer = { items: [], input, askedAt: this.#askedAt, model: this.#model, usage: this.#billed };
    this.#billed = undefined;
    const number = this.#answers.push(answer);
    this.#pending.push(() => this.#addAnswer(answer, `${this.#thread.agentId}/${number}`));
    return answer;
  }

  /** A fact of one line, at its place. */
  #add<N extends EventName>(name: N, line: Line, data: InEpisode<N>): void {
    const time = timeOfText(line.timestamp);
    this.#trace.add(name, [this.#thread.agentId, line.seq], { ...placeOf(line), ...data }, time);
  }

  #addAnswer({ items, input, askedAt, model: named, usage, responseId, cut }: Answer, id: string): void {
    const model = typeof named === 'string' ? named : undefined;
    const content = items.flatMap(({ payload }) => partsOf(payload));
    this.#trace.exchange(
      { ...placeOf(items[0]!), call_id: id, agent_id: this.#thread.agentId },
      { askedAt, model, input: input ?? undefined },
      {
        at: timeOfText(items.at(-1)!.timestamp),
        choices: [{ index: 0, content, finish_reason: cut ?? (items.some(isIncomplete) ? 'incomplete' : undefined) }],
        response_id: isIdentifier(responseId) ? responseId : undefined,
        response_model: model,
        usage: usageOf(usage),
        native: { ids: items.map(({ payload }) => payload.id ?? null) },
      },
      items.flatMap(({ payload, timestamp }) => {
        const called = callOf(payload);
        const native = { tool_call_id: called?.id, namespace: payload.namespace };
        return called ? [{ ...called, native, at: timeOfText(timestamp) }] : [];
      }),
    );
  }

  /** A message, an answer or a result that the thread was begun with. */
  #addInherited(line: Line, { role, content }: Message): void {
    const { agentId, origin } = this.#thread;
    this.#add('message.sent', line, {
      message_id: `${agentId}/m${line.seq}`,
      from: role === 'assistant' || role === 'tool' ? origin : role,
      to: [agentId],
      role,
      content: content ?? null,
      flags: ['copied_context'],
    });
  }

  #addItem(line: Line): void {
    const { payload: item, seq } = line;
    const { agentId, asker } = this.#thread;
    const { type } = item;
    if (type === 'message') {
      const from = promptOf(item) === null ? 'codex' : asker;
      const role = item.role as string;
      const message = { message_id: `${agentId}/m${seq}`, from, to: [agentId], role, content: partsOf(item) };
      this.#add('message.sent', line, message);
    } else if (/_output$/.test(asText(type))) this.#addResult(line);
    else if (isIdentifier(type))
      this.#add('environment.observed', line, { kind: type, content: without(item, 'type') });
  }

  #addResult(line: Line): void {
    const { payload: item } = line;
    const { agentId } = this.#thread;
    const output = outputOf(item);
    const known = this.#outcomes.get(item.call_id);
    const failed = known?.failed ?? (isRecord(item.output) && item.output.success === false);
    const hasFailed = !failed && typeof output === 'string' && reportsFailure(output);
    const tool_call_id = this.#trace.ledger.result(item.call_id as string);
    this.#add('tool.returned', line, {
      tool_call_id,
      status: failed ? 'error' : 'ok',
      output,
      duration_ms: known?.ms,
      ...(hasFailed ? { flags: [APPARENT_ERROR] } : resultFlags(resultOf(item))),
      native: { tool_call_id: item.call_id },
    });
    const started = typeof output === 'string' ? startedAgent(output) : undefined;
    if (started !== undefined) {
      const handed = { from_agent: agentId, to_agent: started, kind: 'delegate', tool_call_id } as const;
      this.#add('control.transferred', line, handed);
    }
  }
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
const placeOf = ({ seq, timestamp }: Line) => (timeOfText(timestamp) === null ? { seq } : {});

/** A search that did not end is another's; text, thoughts and arguments are the model's. */
const isIncomplete = ({ payload: { type, status } }: Line): boolean =>
  status === 'incomplete' && /^(?:message|reasoning|function_call|custom_tool_call)$/.test(asText(type));

/** Codex reports to the model how a command ended in one of three forms within its output, and that a tool does not exist. */
const reportsFailure = (output: string): boolean =>
  /^unsupported call: /.test(output) ||
  /^(?:Chunk ID: [^\n]*\nWall time: [^\n]*\nProcess exited with code|Exit code:) (?!0\b)-?\d+/.test(output) ||
  /"metadata":\{"exit_code":(?!0\b)-?\d+/.test(output.slice(-200));

/** `spawn_agent` answers with the thread it started. */
const startedAgent = (output: string): string | undefined => /^\{\s*"agent_id":\s*"([0-9a-f-]{36})"/.exec(output)?.[1];

/** How tool calls ended, where an event beside the item reports it. */
function outcomesOf(lines: readonly Line[]) {
  const outcomes = new Map<unknown, { readonly failed: boolean; readonly ms: number | undefined }>();
  for (const { type, payload } of lines) {
    if (type !== 'event_msg') continue;
    const item = payload.type === 'item_completed' && isRecord(payload.item) ? payload.item : payload;
    const id = item === payload ? payload.call_id : item.id;
    const { status, duration } = item;
    const result = isRecord(item.result) ? item.result : {};
    const failed =
      (typeof item.exit_code === 'number' && item.exit_code !== 0) ||
      status === 'failed' ||
      status === 'declined' ||
      item.success === false ||
      'Err' in result ||
      (isRecord(result.Ok) && (result.Ok.isError === true || result.Ok.is_error === true));
    const hasOutcome = ['exit_code', 'status', 'success', 'result'].some((name) => name in item);
    const { secs, nanos } = isRecord(duration) ? duration : {};
    const ms = typeof secs === 'number' && typeof nanos === 'number' ? secs * 1000 + nanos / 1e6 : undefined;
    if (isIdentifier(id) && hasOutcome) outcomes.set(id, { failed, ms });
  }
  return outcomes;
}
