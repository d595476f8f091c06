/** What blaming costs nothing: attributions that look at no word. An attribution by a model that is not better has shown nothing. */
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type Blame, type LabelledCase, numberOf } from './cases.ts';

/** Each names who is blamed; `random` gives all candidates, equally likely. */
export const BASELINES: Readonly<Record<string, (run: LabelledCase) => readonly Blame[]>> = {
  first: (run) => agentEntries(run).slice(0, 1),
  last: (run) => agentEntries(run).slice(-1),
  longest: (run) => {
    const candidates = agentEntries(run);
    return candidates.length === 0 ? [] : [candidates.reduce((best, one) => (one.length > best.length ? one : best))];
  },
  most_frequent_agent: (run) => {
    const agents = [...groupBy(agentEntries(run), (one) => one.agent).values()];
    return agents.length === 0 ? [] : agents.reduce((most, one) => (one.length > most.length ? one : most)).slice(0, 1);
  },
  random: agentEntries,
};

function agentEntries({ entries }: LabelledCase): (Blame & { readonly length: number })[] {
  return entries.flatMap(({ kind, agent, text }, at) =>
    kind === 'agent' && agent !== null ? [{ agent, entry: numberOf(entries, at), length: text.length }] : [],
  );
}
