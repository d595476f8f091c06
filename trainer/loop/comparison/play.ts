/** A gate that plays: candidate and incumbent answer the same tasks before anything is released. */
import { Type } from 'typebox';
import { RolloutSpec } from '../../../store/loop/play/rollout.ts';
import { WeightsSpec } from '../../../store/loop/play/weights.ts';
import { TeamVersionSpec } from '../../../store/loop/team/version.ts';

const Guard = Type.Union([Type.Number({ minimum: 0 }), Type.Null()]);
/** The rules of a gate as they stand in the spec of its job. */
export const RulesSpec = Type.Object({
  accept: Type.Enum(['better', 'not_worse']),
  margin: Type.Number({ minimum: 0 }),
  level: Type.Number(),
  guardrails: Type.Object({ roles: Guard, families: Guard, tokens: Guard, latency: Guard, usd: Type.Optional(Guard) }),
});

/** The two that play. */
export const SIDES = ['incumbent', 'candidate'] as const;
export type GateSide = (typeof SIDES)[number];

/** Job kind of a gate that plays. */
export const PLAY = 'play';

const { runner, tasks, tasks_where, samples, params, deadline_s, budget } = RolloutSpec.properties;
export const PlayGateSpec = Type.Object({
  kind: Type.Literal(PLAY),
  rules: RulesSpec,
  runner,
  tasks: Type.Array(tasks.items),
  tasks_where,
  samples,
  params,
  seed: Type.Integer({ minimum: 0 }),
  deadline_s,
  /** Of both sides together. */
  budget,
  serving_within_s: Type.Number({ exclusiveMinimum: 0 }),
  /** Policies that are compared; none where versions of a team are. */
  policies: Type.Array(Type.String()),
  /** The version that both sides play in. */
  team: Type.Optional(TeamVersionSpec),
  /** Versions of a team that are compared. */
  teams: Type.Optional(Type.Object({ incumbent: TeamVersionSpec, candidate: TeamVersionSpec })),
  /** The whole map of each side: other policies are the same on both. */
  maps: Type.Object({
    incumbent: Type.Record(Type.String(), WeightsSpec),
    candidate: Type.Record(Type.String(), WeightsSpec),
  }),
  /** Roles that have to be seen. */
  guarded: Type.Array(Type.String()),
  /** Share of samples that the candidate may leave unplayed beyond the incumbent. */
  unplayed: Type.Number({ minimum: 0 }),
  /** Tasks that are not played, and why. */
  left_out: Type.Record(Type.String(), Type.Integer({ minimum: 0 })),
});

/** The rollout of one side. Its id has slashes, so no rollout that is asked for over HTTP has it. */
export const rolloutOfSide = (job: string, side: GateSide): string => `${job}/${side}`;
