/**
 * Acts of traces as events. The data of an event depend on its own act alone wherever possible; what needs other acts (the agent around
 * a call, the call that a tool run answers, the task of an episode) is found among the acts at hand. The digest of the data is
 * part of the id, so that the same act read beside fewer neighbours never conflicts; of two readings the fuller one shows.
 */
import type { Draft } from '../events/events.ts';
import { canonicalJson } from '../events/json.ts';
import type { Act, Judgement } from './trace.ts';
import { actDrafts } from './trace-acts.ts';
import { emitterOf } from './trace-emit.ts';
import { episodeDrafts, originalDraft } from './trace-episode.ts';
import { judgementDraft } from './trace-feedback.ts';
import { type TraceTree, treeOf } from './trace-tree.ts';

export type TraceOptions = {
  /** Source of the events, such as `/otlp`. */
  readonly source: string;
  /** True where everything that is known of these traces is at hand: episodes begin and end also where their root never came. */
  readonly whole: boolean;
  /** False for acts that are only there to be known: they make no events. Without it all acts make some. */
  readonly emits?: (act: Act) => boolean;
  /** The original of a trace, kept as an artifact. */
  readonly originalOf?: (trace: string) => string | null;
};

export type TraceDrafts = { readonly drafts: readonly Draft[]; readonly bodies: readonly string[] };

/** The events of all traces among these acts and judgements, in an order that does not depend on theirs. */
export function traceDrafts(
  acts: readonly Act[],
  judgements: readonly Judgement[],
  options: TraceOptions,
): TraceDrafts {
  const emit = emitterOf(options.source);
  const traces = new Map<string, Act[]>();
  for (const act of acts) {
    const known = traces.get(act.trace);
    if (known) known.push(act);
    else traces.set(act.trace, [act]);
  }
  const bodies: string[] = [];
  const trees = new Map<string, TraceTree>();
  const drafts = [...traces].sort(byKey).flatMap(([trace, members]) => {
    const last = latest(members);
    const tree = treeOf(last);
    trees.set(trace, tree);
    const body = options.originalOf?.(trace) ?? null;
    if (body !== null) bodies.push(body);
    // The events of a call are derived again where another span of it came.
    const added = new Set(
      last.filter((act) => options.emits?.(act) ?? true).flatMap((act) => [act.id, tree.callOf(act)]),
    );
    const changed = tree.acts.filter(({ id }) => added.has(id));
    return [
      ...(body === null ? [] : [originalDraft(emit, trace, body)]),
      ...(changed.length === 0 ? [] : episodeDrafts(emit, trace, tree, options.whole)),
      ...changed.flatMap((act) => actDrafts(emit, act, tree)),
    ];
  });
  const feedback = judgements.map((judgement) => judgementDraft(emit, judgement, trees));
  return { drafts: [...drafts, ...new Map(feedback.sort(byId).map((draft) => [draft.id, draft])).values()], bodies };
}

const byKey = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1);
const byId = (a: Draft, b: Draft): number => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/** Of several readings of one act the last: by its update, its end, then by its content. */
function latest(members: readonly Act[]): readonly Act[] {
  const found = new Map<string, Act>();
  for (const act of members) {
    const before = found.get(act.id);
    if (!before || compareReadings(before, act) < 0) found.set(act.id, act);
  }
  return [...found.values()];
}

const rankOf = (act: Act): string => `${act.revision ?? ''}|${act.end ?? ''}`;

function compareReadings(a: Act, b: Act): number {
  const [first, second] = [rankOf(a), rankOf(b)];
  if (first !== second) return first < second ? -1 : 1;
  const [one, other] = [canonicalJson(a), canonicalJson(b)];
  return one < other ? -1 : one > other ? 1 : 0;
}
