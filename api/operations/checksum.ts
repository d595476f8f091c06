/** A SHA-256 of each table. */
import { Type } from 'typebox';
import { operation } from './operation.ts';

export const checksum = operation({
  name: 'checksum',
  notes: 'The same facts have the same sums, in whatever order and in however many parts they came.',
  examples: [{}],
  input: {},
  output: Type.Object({
    tables: Type.Record(Type.String(), Type.Object({ rows: Type.Integer(), sha256: Type.String() })),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await import('./checksum/run.ts')).checksum,
  text: async () => (await import('./checksum/run.ts')).sumsText,
});
