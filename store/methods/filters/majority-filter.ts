/**
 * Keeps the candidates whose behaviour more than half of their group shares.
 *
 * Source: ours, after the consensus filter of M500 (jincan333/MAS-TTS), for outputs that can be run instead of argued about.
 * A null behaviour counts towards the size of its group and agrees with nobody.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Key, nullable } from '../shapes.ts';
import { groupBy } from '../statistics.ts';
import { type Verdict, verdict } from '../verdict.ts';

const Input = Type.Object({
  candidates: Type.Array(Type.Object({ id: Key, group: Key, behaviour: nullable(Type.String()) })),
});

export const majorityFilter: Method<Static<typeof Input>, Record<never, never>, Verdict[]> = {
  name: 'majority_filter',
  kind: 'filter',
  source: 'ours, after the consensus filter of M500 (jincan333/MAS-TTS)',
  version: 1,
  needs: 'surviving candidates',
  summary: 'Keeps candidates whose behaviour is that of more than half of their group.',
  params: {},
  input: Input,
  run: ({ candidates }) => {
    const majorities = new Map<string | number, string | null>();
    for (const [group, members] of groupBy(candidates, (one) => one.group)) {
      const behaviours = groupBy(members, (one) => one.behaviour);
      const found = [...behaviours].find(([name, same]) => name !== null && same.length * 2 > members.length);
      majorities.set(group, found?.[0] ?? null);
    }
    return candidates.map(({ id, group, behaviour }) => {
      const majority = majorities.get(group) ?? null;
      if (majority === null) return verdict(id, 'no_majority');
      return verdict(id, behaviour === majority ? null : 'minority');
    });
  },
};
