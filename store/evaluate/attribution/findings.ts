/** What a judge model answered, as the feedback that records it. */
import type { EventData } from '../../../ingest/events/events.ts';
import type { Modes } from './ask-mast.ts';
import type { Finding } from './ask-who-and-when.ts';
import type { CaseEntry } from './entries.ts';

export type FindingDraft = Pick<EventData<'feedback.recorded'>, 'target' | 'kind' | 'name'> &
  Partial<Pick<EventData<'feedback.recorded'>, 'value' | 'label' | 'explanation' | 'flags' | 'unmapped'>>;

/** By the number of the entry where the source counts; by its step where it does not. */
export function blameFound(id: string, entries: readonly CaseEntry[], { agent, at, reason }: Finding): FindingDraft {
  const { seq, step_id, agent: speaker } = entries[at]!;
  const counted = { kind: 'agent' as const, id: agent, episode_id: id, ...(seq === null ? {} : { entry: seq }) };
  const stepped = seq === null && step_id !== null && speaker === agent;
  return {
    target: stepped ? { kind: 'step', id: step_id, episode_id: id } : { ...counted, ...(step_id ? { step_id } : {}) },
    kind: 'failure',
    name: 'mistake',
    ...(reason === null ? {} : { explanation: reason }),
    ...(speaker === agent ? {} : { flags: ['agent_mismatch'] }),
  };
}

export const modesFound = (id: string, { codes, reason }: Modes): FindingDraft => ({
  target: { kind: 'episode', episode_id: id },
  kind: 'label',
  name: 'mast',
  value: [...codes],
  ...(reason === null ? {} : { explanation: reason }),
});

/** No answer, and why: it is recorded, so that the same is not asked again. */
export const nothingFound = (id: string, mast: boolean, reason: string): FindingDraft => ({
  target: { kind: 'episode', episode_id: id },
  kind: mast ? 'label' : 'failure',
  name: mast ? 'mast' : 'mistake',
  label: 'refused',
  flags: [reason],
  unmapped: { reason },
});
