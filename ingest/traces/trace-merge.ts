/**
 * One model call may be several spans: one of a framework around one of a client, or two instrumentations side by side. They become one
 * act, the one that holds the answer, with what only the others know; the others stay spans that count as nothing.
 */
import { canonicalJson, without } from '../events/json.ts';
import { pushAll } from '../events/push-all.ts';
import type { Act, Choice, SpanKind } from './trace.ts';

type Call = Act & { readonly what: Extract<SpanKind, { kind: 'generation' }> };

const isCall = (act: Act): act is Call => act.what.kind === 'generation';

/**
 * The acts as they are to be read, in the order given, and for each span that is no call of its own the id of the call it is part of: null
 * for a span around several calls. `around` gives the acts around one, from the inside out.
 */
export function mergeCalls(acts: readonly Act[], around: (act: Act) => readonly Act[]) {
  const merging = new Merging();
  const inner = new Map<Call, Call[]>();
  const outermost: Call[] = [];
  for (const act of acts) {
    if (!isCall(act)) continue;
    const nearest = around(act).find(({ what }) => /^(?:generation|tool|agent)$/.test(what.kind));
    if (!nearest || !isCall(nearest)) outermost.push(act);
    else if (inner.has(nearest)) inner.get(nearest)!.push(act);
    else inner.set(nearest, [act]);
  }
  const inwards = [...outermost];
  for (let i = 0; i < inwards.length; i++) pushAll(inwards, inner.get(inwards[i]!) ?? []);
  const calls = new Map<Call, readonly Call[]>();
  for (const call of inwards.reverse()) {
    const within = (inner.get(call) ?? []).flatMap((one) => calls.get(one) ?? []);
    calls.set(call, within.length === 0 ? [call] : merging.around(call, merging.siblings(within)));
  }
  const byParent = new Map<string | null, Call[]>();
  for (const call of outermost) {
    const known = byParent.get(call.parent) ?? [];
    pushAll(known, calls.get(call) ?? []);
    byParent.set(call.parent, known);
  }
  for (const siblings of byParent.values()) merging.siblings(siblings);
  return { acts: acts.map((act) => merging.read.get(act.id) ?? act), partOf: merging.partOf };
}

class Merging {
  readonly partOf = new Map<string, string | null>();
  /** Calls that others were merged into, by id. */
  readonly read = new Map<string, Call>();

  /** The calls that an outer span and those within it are: one where at most one of those within holds an answer. */
  around(outer: Call, within: readonly Call[]): readonly Call[] {
    const answered = within.filter(isAnswered);
    if (isAnswered(outer) && answered.length > 0 && answered.every((call) => isOther(outer, call)))
      return [outer, ...within];
    const billed = within.filter((call) => !isAnswered(call) && call.what.usage !== undefined);
    if (answered.length > 1 || (answered.length === 0 && !isAnswered(outer) && billed.length > 1)) {
      this.partOf.set(outer.id, null);
      return within;
    }
    if (answered.length === 0) return [this.one([...within, outer], billed)];
    return [this.one([...within.filter((call) => !billed.includes(call)), outer]), ...billed];
  }

  /** Calls beside each other, where two spans of one call are one: by the id of their response, or because two instrumentations recorded it. */
  siblings(calls: readonly Call[]): readonly Call[] {
    const kept: Call[] = [];
    const byResponse = new Map<string, number[]>();
    const formats = new Set(calls.map(({ format }) => format));
    for (const call of calls) {
      const { responseId } = call.what;
      const near = responseId ? (byResponse.get(responseId) ?? []) : [];
      let at = near.findLast((i) => isSameResponse(kept[i]!, call));
      if (at === undefined && formats.size > 1) at = lastWithin(kept, NEIGHBOURS, (other) => isSameCall(other, call));
      if (at === undefined) {
        near.push(kept.length);
        kept.push(call);
        if (responseId) byResponse.set(responseId, near);
      } else kept[at] = this.one([kept[at]!, call]);
    }
    return kept;
  }

  /** One call of several spans; what was billed in parts is summed where no other part names a sum. */
  one(parts: readonly Call[], billed: readonly Call[] = []): Call {
    const [base, ...others] = [...parts].sort((a, b) => weightOf(b) - weightOf(a)) as [Call, ...Call[]];
    const what = without(
      Object.assign({}, ...others.map(({ what: known }) => without(known)).reverse(), without(base.what)),
    ) as Call['what'];
    const choices = isAnswered(base)
      ? base.what.choices
      : (others.find(({ what: { choices: known } }) => known.length > 0)?.what.choices ?? base.what.choices);
    const named = [base, ...others].find((part) => part.what.usage !== undefined && !billed.includes(part))?.what.usage;
    const usage = named ?? (billed.length > 0 ? sumOf(billed) : undefined);
    const merged: Call = {
      ...base,
      ...(base.agent == null ? { agent: others.find(({ agent }) => agent != null)?.agent ?? null } : {}),
      what: { ...what, choices, ...(usage === undefined ? {} : { usage }) },
    };
    for (const other of others) {
      this.partOf.set(other.id, base.id);
      for (const [id, whole] of this.partOf) if (whole === other.id) this.partOf.set(id, base.id);
      this.read.delete(other.id);
    }
    this.read.set(base.id, merged);
    return merged;
  }
}

/** Calls of another instrumentation are looked for among so many before one. */
const NEIGHBOURS = 64;

function lastWithin(calls: readonly Call[], most: number, is: (call: Call) => boolean): number | undefined {
  for (let i = calls.length - 1; i >= 0 && i >= calls.length - most; i--) if (is(calls[i]!)) return i;
  return undefined;
}

const hasContent = ({ content, token_ids }: Choice): boolean =>
  (content !== undefined && content !== null && content.length > 0) || (token_ids?.length ?? 0) > 0;

const isAnswered = (call: Call): boolean => call.what.choices.some(hasContent);

const toolCallsOf = ({ what }: Call): number =>
  what.choices.reduce(
    (sum, { content }) =>
      sum + (Array.isArray(content) ? content.filter(({ type }) => type === 'tool_call').length : 0),
    0,
  );

/** Of the spans of one call, that with the most of the answer is the call; of equal ones the inner or the first. */
const weightOf = (call: Call): number =>
  toolCallsOf(call) * 8 + (isAnswered(call) ? 4 : 0) + (call.what.usage ? 2 : 0) + (call.what.responseId ? 1 : 0);

const isSame = (a: Call, b: Call): boolean => answerOf(a) === answerOf(b);

/** A server that gives every answer one id has each call compared with all before it: 10,000 of them took two minutes. */
const ANSWERS = new WeakMap<Call, string>();

function answerOf(call: Call): string {
  const known = ANSWERS.get(call) ?? canonicalJson(call.what.choices);
  ANSWERS.set(call, known);
  return known;
}

/** Two answers that the provider gave under different ids. */
const isOther = (a: Call, b: Call): boolean =>
  a.what.responseId !== undefined &&
  b.what.responseId !== undefined &&
  a.what.responseId !== b.what.responseId &&
  !isSame(a, b);

const overlap = (a: Call, b: Call): boolean =>
  a.start !== null && b.start !== null && a.end !== null && b.end !== null && a.start < b.end && b.start < a.end;

/** A cached or made-up answer may repeat an id: it is one call only where the spans overlap, have equal content, or one has none. */
const isSameResponse = (a: Call, b: Call): boolean => overlap(a, b) || isSame(a, b) || !isAnswered(a) || !isAnswered(b);

/** Whether two instrumentations recorded the same call: at one time, with one answer. */
const isSameCall = (a: Call, b: Call): boolean =>
  a.format !== b.format && overlap(a, b) && isAnswered(a) && textIn(a) === textIn(b) && !isOther(a, b);

const textIn = ({ what }: Call): string => canonicalJson(what.choices.map(({ content }) => textsOf(content)));

const textsOf = (content: Choice['content']): unknown =>
  Array.isArray(content)
    ? content.map((part) =>
        part.type === 'tool_call' ? [(part as { name?: unknown }).name ?? null] : (part.content ?? null),
      )
    : [content ?? null];

function sumOf(calls: readonly Call[]): Record<string, unknown> {
  const sum: Record<string, unknown> = {};
  for (const { what } of calls) {
    for (const [name, count] of Object.entries(what.usage ?? {})) {
      sum[name] =
        typeof count === 'number' && typeof (sum[name] ?? 0) === 'number'
          ? ((sum[name] as number) ?? 0) + count
          : count;
    }
  }
  return sum;
}
