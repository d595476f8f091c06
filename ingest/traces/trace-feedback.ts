/** Judgements on traces and their acts, as feedback on their known targets. */
import type { Draft, EventData } from '../events/events.ts';
import { given, hashId, without } from '../events/json.ts';
import { isIdentifier } from '../events/text.ts';
import type { Judgement } from './trace.ts';
import type { Emit } from './trace-emit.ts';
import type { TraceTree } from './trace-tree.ts';

export function judgementDraft(emit: Emit, judgement: Judgement, trees: ReadonlyMap<string, TraceTree>): Draft {
  const { trace, act, foreign, name } = judgement;
  const target = trace === null ? foreignTarget(foreign ?? act ?? 'unknown') : targetIn(trace, act, trees.get(trace));
  const { value } = judgement;
  const id =
    judgement.id ??
    hashId(judgement.format, trace, act, foreign ?? null, name, value ?? null, judgement.label ?? null, judgement.time);
  const kind = typeof value === 'number' || typeof value === 'boolean' || value === null ? 'score' : 'label';
  const data: EventData<'feedback.recorded'> = {
    feedback_id: isIdentifier(id) ? id : hashId(id),
    target: target.target,
    kind: name === 'reward' && kind === 'score' ? 'reward' : kind,
    name,
    ...given('value', value),
    ...given('label', judgement.label),
    ...given('explanation', judgement.explanation),
    ...given('by', judgement.by),
    ...given('annotator', judgement.annotator),
    native: { format: judgement.format },
    ...given('unmapped', without({ ...judgement.unmapped, ...(judgement.native ? { otlp: judgement.native } : {}) })),
    ...(judgement.flags?.length ? { flags: [...judgement.flags] } : {}),
  };
  return emit('feedback.recorded', [data.feedback_id], data, judgement.time, {
    revision: judgement.revision,
    full: target.full,
  });
}

type FeedbackTarget = { readonly target: EventData<'feedback.recorded'>['target']; readonly full: boolean };

const foreignTarget = (id: string): FeedbackTarget => ({ target: { kind: 'foreign', id }, full: true });

/** What a judgement is about: the trace, or one of its acts as what it is known to be; a call, where the act did not come. */
function targetIn(trace: string, id: string | null, tree: TraceTree | undefined): FeedbackTarget {
  const whole: FeedbackTarget = { target: { kind: 'episode', id: trace, episode_id: trace }, full: true };
  if (id === null || id === trace) return whole;
  const act = tree?.byId.get(id);
  const inside = (kind: 'call' | 'tool_call' | 'agent', named: string, full = true): FeedbackTarget => ({
    target: { kind, id: named, episode_id: trace },
    full,
  });
  if (!act) return inside('call', id, false);
  if (act.what.kind === 'generation') return inside('call', tree?.callOf(act) ?? id);
  if (act.what.kind === 'tool') return inside('tool_call', tree?.answers(act)?.id ?? act.what.callId ?? id);
  if (act.parent === null) return whole;
  const agent = tree?.agentOf(act);
  return agent ? inside('agent', agent) : whole;
}
