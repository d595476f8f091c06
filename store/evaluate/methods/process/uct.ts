/**
 * Which child of a search tree to visit next: its value, and a bonus for having been visited seldom.
 *
 * Source: milad1378yz/MASPRM, src/mcts.py. Verified (code). Visits count as at least 1; c is 2.
 * Kept: c 2. Dropped: choosing the child, which is the caller’s. Open: nothing known.
 */

import { Type } from 'typebox';
import { overNodes } from '../../judging/search-tree.ts';
import { method } from '../method.ts';
import { backedUp } from '../search-tree.ts';

const Visits = Type.Integer({ minimum: 0 });

export const uct = method({
  name: 'uct',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/mcts.py; verified (code)',
  version: 1,
  summary: 'q plus c times the root of ln(parent visits) over child visits.',
  params: { c: 2 },
  input: Type.Object({ q: Type.Number(), parent_visits: Visits, child_visits: Visits }),
  run: ({ q, parent_visits, child_visits }, { c }): number =>
    q + c * Math.sqrt(Math.log(Math.max(parent_visits, 1)) / Math.max(child_visits, 1)),
  judged: {
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    rows: (facts, ask) =>
      overNodes(facts, backedUp, ({ q, visits: child_visits }, { visits: parent_visits }) =>
        ask.answer({ q, parent_visits, child_visits }),
      ),
  },
});
