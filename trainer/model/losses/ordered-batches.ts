/**
 * Batches that hold all steps of one problem in the order they were reasoned in.
 *
 * Source: M1-32B (arXiv:2504.09772). Verified (text); the released script of MAS-TTS does not switch shuffling off. Problems come in
 * order of first appearance; equal `seq` keeps the order of the rows.
 */
import { type Static, Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { Key } from '../../../store/evaluate/methods/shapes.ts';
import type { LossMethod } from './method.ts';

const Input = Type.Object({
  rows: Type.Array(Type.Object({ id: Key, problem: Key, seq: Type.Number() })),
});

export const orderedBatches: LossMethod<Static<typeof Input>, Record<never, never>, (string | number)[][]> = {
  name: 'ordered_batches',
  kind: 'loss',
  source: 'M1-32B: arXiv:2504.09772; verified (text)',
  version: 1,
  summary: 'One batch for each problem, its steps in reasoning order.',
  params: {},
  input: Input,
  run: ({ rows }) => {
    const problems = groupBy(rows, ({ problem }) => problem);
    return [...problems.values()].map((steps) => steps.toSorted((a, b) => a.seq - b.seq).map(({ id }) => id));
  },
};
