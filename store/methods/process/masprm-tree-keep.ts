/**
 * Whether a search tree is worth training on: its root is neither always right nor always wrong, and its ends are decided.
 *
 * Source: milad1378yz/MASPRM, src/train/preprocess_data.py. Verified (code). Both limits are included. `leaf_q` holds the values of the
 * terminal leaves, each of which must be exactly −1 or 1; without it only the root is asked.
 * Kept: ±0.7. Dropped: nothing. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({ root_q: Type.Number(), leaf_q: Type.Optional(Type.Array(Type.Number())) });
const params = { limit: 0.7 };

export const masprmTreeKeep: Method<Static<typeof Input>, typeof params, boolean> = {
  name: 'masprm_tree_keep',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/train/preprocess_data.py; verified (code)',
  version: 1,
  needs: 'root of a search tree',
  summary: 'Keeps a tree whose root value is within ±0.7 and whose leaves are decided.',
  params,
  limits: { limit: Type.Number({ minimum: 0 }) },
  input: Input,
  run: ({ root_q, leaf_q }, { limit }) => Math.abs(root_q) <= limit && (leaf_q ?? []).every((q) => Math.abs(q) === 1),
};
