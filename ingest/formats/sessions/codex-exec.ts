/**
 * What `codex exec --json` and the Codex SDK print, an event a line: {type: "thread.started", thread_id}, then {type: "item.completed",
 * item} … and {type: "turn.completed", usage}. Read from what version 0.169 writes against a scripted model server, and from index.d.ts of
 * @openai/codex-sdk 0.163.0. Neither the prompt nor the calls of the model are in it: what stands between two results of tools is one call.
 */
import { asText, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { lineFormat, readLines } from '../kit/lines.ts';
import { refusal, refused } from '../kit/native.ts';
import { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';

const NAME = 'codex-exec';
const MAIN = 'main';

type Item = JsonObject & { readonly id: string; readonly type: string };

const EVENT = /^(?:thread\.started|turn\.(?:started|completed|failed)|item\.(?:started|updated|completed)|error)$/;

/** What a line must be to be read; null where it is. */
function badEvent(line: unknown): NativeRefusal | null {
  if (!isRecord(line) || typeof line.type !== 'string' || !EVENT.test(line.type))
    return refusal('bad_shape', '', 'an event of a thread', line);
  if (line.type === 'thread.started')
    return isIdentifier(line.thread_id) ? null : refusal('bad_identifier', 'thread_id', 'a text', line.thread_id);
  if (!line.type.startsWith('item.')) return null;
  const { item } = line;
  const isItem = isRecord(item) && isIdentifier(item.id) && isIdentifier(item.type);
  return isItem ? null : refusal('bad_shape', 'item', 'an item {id, type}', item);
}

export const codexExec = lineFormat({
  name: NAME,
  summary: 'Output of codex exec --json: lines of {type: thread.started | item.completed | turn.completed …}',
  isLine: (line) => isRecord(line) && line.type !== 'error' && badEvent(line) === null && isTelling(line),
  // Items are counted from one in each file, and only the first line names the thread: a file grows, and is read again whole.
  joins: { names: threadsIn },
  restatesRunsOf: ['codex'],
  convert,
});

function threadsIn(lines: readonly unknown[]): string[] {
  const started = lines.find((line) => isRecord(line) && line.type === 'thread.started');
  return isRecord(started) && isIdentifier(started.thread_id) ? [started.thread_id] : [];
}

/** Programs beside have events of these names; a turn alone says too little. */
const isTelling = ({ type, usage }: JsonObject): boolean => !/^turn\./.test(asText(type)) || isRecord(usage);

function convert(list: readonly unknown[], record: NativeRecord): Conversion {
  const refusals: NativeRefusal[] = [];
  const lines = readLines(list, badEvent, refusals);
  const [thread] = threadsIn(list);
  if (thread === undefined) return refused(...refusals, refusal('bad_shape', '', 'a line thread.started', list));
  const trace = Trace.revised(NAME, record, thread);
  const items = lines.flatMap(({ fields: { item } }) => (isRecord(item) ? [item as Item] : []));
  const first = items.find(({ type }) => type !== 'error');
  // A thread that goes on in another file counts its items anew.
  const reading = new ThreadReading(trace, hashId(NAME, first ?? null).slice(0, 8));
  for (const { seq, fields } of lines) reading.take(seq, fields);
  reading.close();
  const end = lines.findLast(({ fields }) =>
    /^(?:turn\.(?:completed|failed)|error)$/.test(asText(fields.type)),
  )?.fields;
  const failed = end !== undefined && end.type !== 'turn.completed';
  const answer = items.findLast(({ type }) => type === 'agent_message')?.text;
  const problem = isRecord(end?.error) ? end.error.message : end?.message;
  const run = {
    task: null,
    incomplete: end === undefined,
    started: { session_id: thread },
    agents: [MAIN],
    finished: {
      outcome: failed ? ('error' as const) : ('unknown' as const),
      answer: typeof answer === 'string' ? answer : undefined,
      stop_reason: failed && typeof problem === 'string' ? problem : undefined,
    },
  };
  return trace.finish(run, refusals);
}

class ThreadReading {
  readonly #trace: Trace;
  readonly #prefix: string;
  /** The items of one call, in the order in which they began, each as it was last reported. */
  #open: { readonly seq: number; readonly items: Map<string, Item> } | null = null;
  #count = 0;
  /** Calls since the turn began, and the answer that its usage is noted at. */
  #inTurn = 0;

  constructor(trace: Trace, prefix: string) {
    this.#trace = trace;
    this.#prefix = prefix;
  }

  take(seq: number, event: JsonObject): void {
    const item = event.item as Item | undefined;
    if (item === undefined) {
      const usage = event.type === 'turn.completed' && isRecord(event.usage) ? event.usage : undefined;
      if (/^turn\.(?:completed|failed)$/.test(asText(event.type))) this.close(usage);
      if (event.type === 'turn.started') this.#inTurn = 0;
      if (event.type === 'error' || event.type === 'turn.failed')
        this.#trace.observed(seq, 'error', { content: event.error ?? event.message });
    } else if (item.type === 'error') this.#trace.observed(seq, 'error', { content: item.message });
    else if (item.type === 'todo_list') {
      if (event.type === 'item.completed') this.#trace.observed(seq, item.type, { content: item.items });
    } else {
      // What begins after a tool has answered was written by another call.
      const isNew = this.#open !== null && !this.#open.items.has(item.id);
      if (isNew && [...this.#open!.items.values()].some(hasEnded)) this.close();
      this.#open ??= { seq, items: new Map() };
      this.#open.items.set(item.id, item);
    }
  }

  /** States the open call, if there is one. Usage is that of the turn. */
  close(usage?: JsonObject): void {
    const open = this.#open;
    this.#open = null;
    if (!open) return;
    const id = `${this.#prefix}/${++this.#count}`;
    const items = [...open.items.values()];
    const isShared = usage !== undefined && this.#inTurn > 0;
    this.#inTurn += 1;
    const tools = items.filter(({ type }) => !/^(?:agent_message|reasoning)$/.test(type));
    this.#trace.exchange(
      { seq: open.seq, call_id: id, agent_id: MAIN },
      {},
      {
        choices: [{ index: 0, content: items.map(partOf) }],
        usage: usageOf(usage),
        flags: isShared ? ['usage_of_several_calls'] : undefined,
      },
      tools.map((item) => ({ id: `${this.#prefix}/${item.id}`, ...askedOf(item), native: { tool_call_id: item.id } })),
    );
    for (const item of tools.filter(hasEnded)) {
      const failed = /^(?:failed|declined)$/.test(asText(item.status)) || item.error != null;
      this.#trace.add('tool.returned', [this.#prefix, item.id], {
        seq: open.seq,
        tool_call_id: this.#trace.ledger.result(`${this.#prefix}/${item.id}`),
        status: failed ? 'error' : 'ok',
        output: item.aggregated_output ?? item.result ?? undefined,
        error: item.error ?? undefined,
        native: { tool_call_id: item.id },
        unmapped: without({ exit_code: item.exit_code ?? undefined }),
      });
    }
  }
}

const hasEnded = ({ type, status }: Item): boolean =>
  !/^(?:agent_message|reasoning)$/.test(type) && status !== 'in_progress';

/** A command, a change of files, a tool of a server, a search: all that is asked for, without what came of it. */
function askedOf(item: Item) {
  const { server, tool, arguments: given } = item;
  if (item.type === 'mcp_tool_call')
    return { name: [server, tool].filter(isIdentifier).join('.') || item.type, type: 'mcp', arguments: given ?? null };
  const asked = without(item, 'id', 'type', 'status', 'aggregated_output', 'exit_code', 'result', 'error');
  return { name: item.type, type: item.type === 'web_search' ? 'server' : 'function', arguments: asked ?? {} };
}

function partOf(item: Item) {
  if (item.type === 'agent_message') return { type: 'text', content: item.text };
  if (item.type === 'reasoning') return { type: 'reasoning', content: item.text };
  const { name, arguments: asked } = askedOf(item);
  return { type: 'tool_call', id: item.id, name, arguments: asked };
}
