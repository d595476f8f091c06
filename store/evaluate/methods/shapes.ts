/** The schema pieces that method inputs are made of. A number is always finite: NaN and infinity do not pass. */

import { type TSchema, Type } from 'typebox';

/** A key that rows are grouped by. */
export const Key = Type.Union([Type.String(), Type.Number()]);

export const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

/** A reward, or null where nobody gave one. */
export const Reward = nullable(Type.Number());

/** Passed or not. */
export const Bit = Type.Union([Type.Literal(0), Type.Literal(1)]);

/** Programs by tests, entries 0 or 1. */
export const PassMatrix = Type.Array(Type.Array(Bit));

/** One row a step: whose it is and what it earned. */
export const AgentSteps = Type.Array(Type.Object({ query: Key, traj: Key, agent: Key, reward: Reward }));

/** Data that is read and left as it is. */
export type Immutable<T> = unknown extends T ? T : { readonly [Key in keyof T]: Immutable<T[Key]> };
