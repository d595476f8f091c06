/**
 * Turns the flow of data around, so that blame runs from who used something to who made it.
 *
 * Source: CDC-MAS, arXiv 2509.08682. Secondary. Edges are (producer, consumer) and come out as (consumer, producer), in order.
 * Kept: every edge turned, none added or joined. Dropped: the search for causes step by step, which is not published in
 * a form that could be checked. Open: whether repeats of an edge count.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Key } from '../shapes.ts';

const Input = Type.Object({ edges: Type.Array(Type.Tuple([Key, Key])) });
type Edge = Static<typeof Input>['edges'][number];

export const invertDependencies: Method<Static<typeof Input>, Record<never, never>, Edge[]> = {
  name: 'invert_dependencies',
  kind: 'blame',
  source: 'CDC-MAS: arXiv 2509.08682; secondary',
  version: 1,
  needs: 'data dependencies',
  summary: 'Reverses each edge from producer to consumer.',
  params: {},
  input: Input,
  run: ({ edges }) => edges.map(([producer, consumer]): Edge => [consumer, producer]),
};
