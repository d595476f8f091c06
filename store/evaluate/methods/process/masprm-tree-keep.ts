/**
 * Whether a search tree is worth training on: its root is neither always right nor always wrong, and its ends are decided.
 *
 * Source: milad1378yz/MASPRM, src/train/preprocess_data.py. Verified (code). Both limits are included. `leaf_q` holds the values of the
 * terminal leaves, each of which must be exactly −1 or 1; without it only the root is asked.
 * Kept: ±0.7. Dropped: nothing. Open: nothing known.
 */

import { Type } from 'typebox';
import { verdictOn } from '../../judging/judgement.ts';
import { familiesOf } from '../../judging/replay-trees.ts';
import { ROOT, valued } from '../../judging/search-tree.ts';
import { method } from '../method.ts';
import { backedUp } from '../search-tree.ts';

export const masprmTreeKeep = method({
  name: 'masprm_tree_keep',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/train/preprocess_data.py; verified (code)',
  version: 1,
  summary: 'Keeps a tree whose root value is within ±0.7 and whose leaves are decided.',
  params: { limit: 0.7 },
  limits: { limit: Type.Number({ minimum: 0 }) },
  input: Type.Object({ root_q: Type.Number(), leaf_q: Type.Optional(Type.Array(Type.Number())) }),
  run: ({ root_q, leaf_q }, { limit }): boolean =>
    Math.abs(root_q) <= limit && (leaf_q ?? []).every((q) => Math.abs(q) === 1),
  judged: {
    reads: ['feedback'],
    writes: ['verdicts'],
    /** Whether an episode's tree is worth training on: a verdict, so that a recipe can require it. */
    rows: (facts, ask) => {
      const valuesOf = valued(facts, backedUp);
      return familiesOf(facts).flatMap(({ members, changed, grown }) => {
        const all = (keep: boolean | null, reason: string | null, detail?: unknown) => [
          ...members.map((episode) => verdictOn(episode, keep, reason, detail)),
          ...changed.map((episode) => verdictOn(episode, null, 'intervened')),
        ];
        const found = grown === null ? 'no_tree' : valuesOf(grown);
        if (typeof found === 'string') return all(null, found);
        const leaves = new Set(found.rollouts.map(({ path }) => path.at(-1)!));
        const root_q = found.values[ROOT]!.q;
        const leaf_q = [...leaves].map((id) => found.values[id]!.q);
        const keep = ask.answer({ root_q, leaf_q });
        return typeof keep === 'string' ? all(null, keep) : all(keep, keep ? null : 'root_decided', { root_q });
      });
    },
  },
});
