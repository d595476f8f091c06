/** Fields of queries. */
import { Type } from 'typebox';
import { position, written } from '../operation.ts';

/** The most that a query over HTTP may ask for. */
export const MOST = { rows: 1_000_000, bytes: 1024 ** 3, milliseconds: 300_000 } as const;

export const query = position(
  Type.String({
    description: 'one SELECT, VALUES or WITH over the views of schemas traj and report; at most 64 KiB',
  }),
);
export const timeout = Type.Optional(
  written(Type.Integer({ minimum: 1, description: 'milliseconds at most (30000; with out an hour)' }), {
    flag: 'timeout',
    value: 'ms',
    most: MOST.milliseconds,
  }),
);
