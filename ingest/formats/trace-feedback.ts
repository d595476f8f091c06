/** What was said about traces and their acts, as feedback on what these are known to be. */
import type { Draft, EventData } from '../events.ts';
import { hashId } from '../json.ts';
import { given, isIdentifier, without } from './native.ts';
import type { Judgement } from './trace.ts';
import type { TraceTree } from './trace-tree.ts';
import type { Speak } from './trace-voice.ts';

export function judgementDraft(speak: Speak, said: Judgement, trees: ReadonlyMap<string, TraceTree>): Draft {
  const { trace, act, foreign, name } = said;
  const target = trace === null ? foreignTarget(foreign ?? act ?? 'unknown') : targetIn(trace, act, trees.get(trace));
  const { value } = said;
  const id =
    said.id ?? hashId(said.format, trace, act, foreign ?? null, name, value ?? null, said.label ?? null, said.time);
  const kind = typeof value === 'number' || typeof value === 'boolean' || value === null ? 'score' : 'label';
  const data: EventData<'feedback.recorded'> = {
    feedback_id: isIdentifier(id) ? id : hashId(id),
    target: target.said,
    kind: name === 'reward' && kind === 'score' ? 'reward' : kind,
    name,
    ...given('value', value),
    ...given('label', said.label),
    ...given('explanation', said.explanation),
    ...given('by', said.by),
    ...given('annotator', said.annotator),
    native: { format: said.format },
    ...given('unmapped', without({ ...said.unmapped, ...(said.native ? { otlp: said.native } : {}) })),
    ...(said.flags?.length ? { flags: [...said.flags] } : {}),
  };
  return speak('feedback.recorded', [data.feedback_id], data, said.time, {
    revision: said.revision,
    full: target.full,
  });
}

type Aimed = { readonly said: EventData<'feedback.recorded'>['target']; readonly full: boolean };

const foreignTarget = (id: string): Aimed => ({ said: { kind: 'foreign', id }, full: true });

/** What a judgement is about: the trace, or one of its acts as what it is known to be; a call, where the act did not come. */
function targetIn(trace: string, id: string | null, tree: TraceTree | undefined): Aimed {
  const whole: Aimed = { said: { kind: 'episode', id: trace, episode_id: trace }, full: true };
  if (id === null || id === trace) return whole;
  const act = tree?.byId.get(id);
  const inside = (kind: 'call' | 'tool_call' | 'agent', named: string, full = true): Aimed => ({
    said: { kind, id: named, episode_id: trace },
    full,
  });
  if (!act) return inside('call', id, false);
  if (act.what.kind === 'generation') return inside('call', tree?.callOf(act) ?? id);
  if (act.what.kind === 'tool') return inside('tool_call', tree?.answers(act)?.id ?? act.what.callId ?? id);
  if (act.parent === null) return whole;
  const agent = tree?.agentOf(act);
  return agent ? inside('agent', agent) : whole;
}
