/**
 * Whether a task configuration with its true actions may be used: checks in order, the first failure decides, then a committee votes.
 *
 * Source: APIGen-MT, arXiv 2504.03601. Verified (text) for the stages; strict majority, with a tie rejecting, is unverified.
 * The committee's votes and the second attempt of the generator are a model's work; only the decision is made here.
 * Kept: the order of the stages. Dropped: the reviewers and what they answer to the generator. Open: the majority and
 * its tie.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Bit } from '../shapes.ts';
import { sum } from '../statistics.ts';

const Input = Type.Object({
  format_ok: Type.Boolean(),
  execution_ok: Type.Boolean(),
  policy_ok: Type.Boolean(),
  votes: Type.Array(Bit),
});

type Decision = {
  readonly accept: boolean;
  /** The stage that decided. */
  readonly stage: 'format' | 'execution' | 'policy' | 'committee';
};

export const apigenMtBlueprint: Method<Static<typeof Input>, Record<never, never>, Decision> = {
  name: 'apigen_mt_blueprint',
  kind: 'filter',
  source: 'APIGen-MT: arXiv 2504.03601; stages verified (text), majority unverified',
  version: 1,
  needs: 'blueprint checks',
  summary: 'Accepts a task that passes the format, execution and policy checks and most of the committee.',
  params: {},
  input: Input,
  run: ({ format_ok, execution_ok, policy_ok, votes }) => {
    if (!format_ok) return { accept: false, stage: 'format' };
    if (!execution_ok) return { accept: false, stage: 'execution' };
    if (!policy_ok) return { accept: false, stage: 'policy' };
    return { accept: 2 * sum(votes) > votes.length, stage: 'committee' };
  },
};
