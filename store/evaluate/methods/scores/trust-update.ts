/**
 * How far a verifier's tests are to be believed where no right program can be asked, by its record so far.
 *
 * Source: ours; the trust of `cosigned_rewards`. A moving average of the squared share of upheld tests: squared, so that a verifier
 * that is right half of the time is believed a quarter. An episode without a right program (null) says nothing about the verifier.
 * It is run by hand: a judging keeps no state from one to the next.
 */

import { Type } from 'typebox';
import { method } from '../method.ts';
import { nullable } from '../shapes.ts';

const Share = Type.Number({ minimum: 0, maximum: 1 });

export const trustUpdate = method({
  name: 'trust_update',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'Moves the trust in a verifier towards the squared share of its tests that right programs upheld.',
  params: { rate: 0.02 },
  limits: { rate: Share },
  input: Type.Object({ trust: Share, upheld: Type.Array(nullable(Share)) }),
  run: ({ trust, upheld }, { rate }): number =>
    upheld.reduce<number>((now, share) => (share === null ? now : (1 - rate) * now + rate * share * share), trust),
});
