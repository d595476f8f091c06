/** What blaming costs nothing: attributions that look at no word. An attribution by a model that is not better has shown nothing. */
import { groupBy } from '../methods/statistics.ts';
import { type Blame, type LabelledCase, numberOf } from './cases.ts';

/** Each says who is blamed; `random` gives all that it may say, each as likely. */
export const BASELINES: Readonly<Record<string, (run: LabelledCase) => readonly Blame[]>> = {
  first: (run) => spoken(run).slice(0, 1),
  last: (run) => spoken(run).slice(-1),
  longest: (run) => {
    const said = spoken(run);
    return said.length === 0 ? [] : [said.reduce((best, one) => (one.length > best.length ? one : best))];
  },
  most_frequent_agent: (run) => {
    const agents = [...groupBy(spoken(run), (one) => one.agent).values()];
    return agents.length === 0 ? [] : agents.reduce((most, one) => (one.length > most.length ? one : most)).slice(0, 1);
  },
  random: spoken,
};

function spoken({ entries }: LabelledCase): (Blame & { readonly length: number })[] {
  return entries.flatMap(({ kind, agent, text }, at) =>
    kind === 'agent' && agent !== null ? [{ agent, entry: numberOf(entries, at), length: text.length }] : [],
  );
}
