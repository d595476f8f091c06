/**
 * The acts of one trace as a tree: in the order of (start, end, native number), whatever order they came in; who acted, which model
 * calls are leaves, and which tool run answers which call.
 */
import { groupBy } from '../events/group-by.ts';
import { canonicalJson, isRecord, type JsonObject } from '../events/json.ts';
import { isIdentifier } from '../events/text.ts';
import { readArguments } from '../formats/kit/chat-message.ts';
import type { Act, Choice } from './trace.ts';
import { mergeCalls } from './trace-merge.ts';

/** A tool call as a model asked for it. */
type ToolRequest = {
  /** Its id in the episode. */
  readonly id: string;
  readonly nativeId: string | null;
  readonly call: Act;
  readonly candidate: number;
  readonly index: number;
  readonly name: string;
  readonly type: string;
  readonly arguments: unknown;
  readonly arguments_raw: string | null;
  readonly parse_error: string | null;
};

export type TraceTree = {
  readonly acts: readonly Act[];
  /** Acts without a parent, in order; none where the root did not come. */
  readonly roots: readonly Act[];
  readonly byId: ReadonlyMap<string, Act>;
  /** The agent that acted: named by the act itself, else by the nearest act around it. Null where nobody is named. */
  readonly agentOf: (act: Act) => string | null;
  /** The agent around that of `act`, if another one. */
  readonly parentAgentOf: (act: Act) => string | null;
  /** False for a span that is part of another call, or stands around several. */
  readonly isLeaf: (act: Act) => boolean;
  /** The id of the call that this span is, or is part of; null for a span around several calls. */
  readonly callOf: (act: Act) => string | null;
  readonly askedBy: (act: Act) => readonly ToolRequest[];
  /** The call that a tool run answers; null where nobody is known to have asked. */
  readonly answers: (tool: Act) => ToolRequest | null;
  /** Whether only the order says which of several calls a tool run answers: neither an id nor arguments do. */
  readonly isByOrder: (tool: Act) => boolean;
};

type Span = Pick<Act, 'start' | 'end' | 'sequence' | 'id'>;

/** An unknown time comes last: what has one is not known to have been before. */
const byTime = (a: string | null, b: string | null): number =>
  a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -1 : 1;

const inOrder = (a: Span, b: Span): number =>
  byTime(a.start, b.start) ||
  byTime(a.end, b.end) ||
  (typeof a.sequence === 'number' && typeof b.sequence === 'number'
    ? a.sequence - b.sequence
    : byTime(String(a.sequence ?? ''), String(b.sequence ?? ''))) ||
  byTime(a.id, b.id);

/** How far out is looked, so that a chain of spans that never ends costs no more than its length. */
const MAX_AROUND = 256;

export function treeOf(unordered: readonly Act[]): TraceTree {
  const ordered = [...unordered].sort(inOrder);
  const byId = new Map(ordered.map((act) => [act.id, act]));
  const parentOf = (act: Act): Act | undefined => (act.parent === null ? undefined : byId.get(act.parent));

  /** The acts around one, from the inside out, as far as {@link MAX_AROUND}; ends in a circle of parents. */
  function around(act: Act): Act[] {
    const found: Act[] = [];
    const seen = new Set([act]);
    for (let outer = parentOf(act); outer && !seen.has(outer) && seen.size <= MAX_AROUND; outer = parentOf(outer)) {
      seen.add(outer);
      found.push(outer);
    }
    return found;
  }
  /** The agent of the nearest act around this one that names another than `own`. A circle is only gone round, as far as any way out. */
  const agentAround = (act: Act, own: string | null): string | null => {
    let outer = parentOf(act);
    for (let n = 0; outer && n < MAX_AROUND; n++) {
      if (outer.agent && outer.agent !== own) return outer.agent;
      outer = parentOf(outer);
    }
    return null;
  };
  const agentOf = (act: Act): string | null => act.agent ?? agentAround(act, null);
  const parentAgentOf = (act: Act): string | null => agentAround(act, agentOf(act));

  const { acts, partOf } = mergeCalls(ordered, around);
  for (const act of acts) byId.set(act.id, act);
  const isLeaf = ({ id }: Act): boolean => !partOf.has(id);
  const callOf = ({ id }: Act): string | null => (partOf.has(id) ? partOf.get(id)! : id);

  const asked = new Map<Act, ToolRequest[]>();
  const taken = new Set<string>();
  for (const act of acts) {
    if (act.what.kind === 'generation' && isLeaf(act)) asked.set(act, askedIn(act, act.what.choices, taken));
  }
  const answered = pair(acts, [...asked.values()].flat(), { around, callOf });
  return {
    acts,
    roots: acts.filter((act) => act.parent === null),
    byId,
    agentOf,
    parentAgentOf,
    isLeaf,
    callOf,
    askedBy: (act) => asked.get(act) ?? [],
    answers: (tool) => answered.pairs.get(tool) ?? null,
    isByOrder: (tool) => answered.byOrder.has(tool),
  };
}

/** The tool calls in the candidates of a call. A native id that another call of the trace has already becomes `ID#2`. */
function askedIn(act: Act, choices: readonly Choice[], taken: Set<string>): ToolRequest[] {
  return choices.flatMap((choice) =>
    partsOf(choice)
      .filter((part) => part.type === 'tool_call')
      .map((part, index) => {
        const nativeId = isIdentifier(part.id) ? part.id : null;
        const wanted = nativeId ?? `${act.id}/${choice.index}/${index}`;
        let id = wanted;
        for (let n = 2; taken.has(id); n++) id = `${wanted}#${n}`;
        taken.add(id);
        return {
          id,
          nativeId,
          call: act,
          candidate: choice.index,
          index,
          name: isIdentifier(part.name) ? part.name : 'unknown',
          type: typeof part.call_type === 'string' ? part.call_type : 'function',
          ...readArguments(part.arguments_raw ?? part.arguments),
        };
      }),
  );
}

const partsOf = ({ content }: Choice): readonly JsonObject[] => (Array.isArray(content) ? content : []);

/**
 * Tool runs with the calls they answer, each call once: by native id the latest that is open; without an id the first open call of
 * that name and, if possible, those arguments, among the calls under the same agent or chain. A framework may hand a tool more than the
 * model wrote, such as defaults.
 */
function pair(
  acts: readonly Act[],
  calls: readonly ToolRequest[],
  { around, callOf }: { readonly around: (act: Act) => readonly Act[]; readonly callOf: (act: Act) => string | null },
): { readonly pairs: ReadonlyMap<Act, ToolRequest>; readonly byOrder: ReadonlySet<Act> } {
  const pairs = new Map<Act, ToolRequest>();
  const byOrder = new Set<Act>();
  const open = new Set(calls);
  const take = (tool: Act, call: ToolRequest | undefined): void => {
    if (!call) return;
    open.delete(call);
    pairs.set(tool, call);
  };
  const before = (tool: Act, { call }: ToolRequest): boolean => byTime(call.start, tool.start) <= 0;
  const byId = groupBy(calls, ({ nativeId }) => nativeId);
  const nameless: { readonly tool: Act; readonly what: Act['what'] & { readonly kind: 'tool' } }[] = [];
  for (const tool of acts) {
    const { what } = tool;
    if (what.kind !== 'tool') continue;
    if (what.callId === null) {
      nameless.push({ tool, what });
      continue;
    }
    const same = byId.get(what.callId) ?? [];
    const waiting = same.filter((call) => open.has(call));
    take(tool, waiting.findLast((call) => before(tool, call)) ?? waiting.at(-1) ?? same.at(-1));
  }
  const scopeOf = (act: Act): string | null =>
    around(act).find((outer) => outer.what.kind === 'agent' || outer.what.kind === 'tool')?.id ?? null;
  const written = new Map(
    calls.map((call) => {
      const value = readable(call.arguments ?? call.arguments_raw);
      return [call, { value, json: canonicalJson(value) }];
    }),
  );
  const scopes = new Map(nameless.length === 0 ? [] : calls.map((call) => [call, scopeOf(call.call)]));
  const byName = groupBy(calls, ({ name }) => plain(name));
  for (const { tool, what } of nameless) {
    const inside = new Set(around(tool).map(callOf));
    const scope = scopeOf(tool);
    const named = firstOpen(byName.get(plain(what.tool)) ?? [], open).filter((call) => before(tool, call));
    const near =
      [
        named.filter(({ call }) => inside.has(call.id)),
        named.filter(({ call }) => call.parent !== null && call.parent === tool.parent),
        named.filter((call) => scopes.get(call) === scope),
      ].find((found) => found.length > 0) ?? [];
    const asked = readable(what.asked);
    const json = canonicalJson(asked);
    const known =
      near.find((call) => written.get(call)!.json === json) ??
      near.find((call) => isWithin(written.get(call)!.value, asked));
    if (!known && near.some((call) => written.get(call)!.json !== written.get(near[0]!)!.json)) byOrder.add(tool);
    take(tool, known ?? near[0]);
  }
  return { pairs, byOrder };
}

/** A framework may name a tool `Delegate work` that a model has to call `delegate_work`. */
const plain = (name: string): string => name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '_');

/** Open calls that are looked at for a run without an id; those that wait beyond them are left for later runs. */
const MAX_WAITING = 256;

/** The first calls that are open; what is answered leaves the list, so that it is not passed over again and again. */
function firstOpen(calls: ToolRequest[], open: ReadonlySet<ToolRequest>): ToolRequest[] {
  const found: ToolRequest[] = [];
  let kept = 0;
  for (let i = 0; i < calls.length && found.length < MAX_WAITING; i++) {
    if (open.has(calls[i]!)) found.push(calls[i]!);
    kept = i + 1;
  }
  if (found.length < kept) calls.splice(0, kept, ...found);
  return found;
}

/** Whether all members of an object, and at least one, are those of another. */
const isWithin = (part: unknown, whole: unknown): boolean =>
  isRecord(part) &&
  isRecord(whole) &&
  Object.keys(part).length > 0 &&
  Object.entries(part).every(([name, value]) => canonicalJson(value) === canonicalJson(whole[name] ?? null));

/** Arguments as JSON where they are. */
const readable = (written: unknown): unknown => {
  const { arguments: read } = readArguments(written);
  return isRecord(read) ? read : (written ?? null);
};
