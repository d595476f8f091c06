/**
 * A gate that plays: candidate and incumbent answer the same tasks before anything is released. Both stand in the spec of its job, which the
 * gateway and the processes that sample read: the one to choose the weights of an episode, the others to have them loaded meanwhile.
 */
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Db } from '../db/pool.ts';
import { firstOf, query, rowsOf, type SqlBool, sql } from '../db/query.ts';
import { RolloutSpec } from '../rollouts/rollout.ts';

const Weights = Type.Object({ checkpoint_id: Type.String(), directory: Type.String() });
/** A checkpoint and the directory of its files. */
export type Weights = { readonly checkpoint_id: string; readonly directory: string };

const Guard = Type.Union([Type.Number({ minimum: 0 }), Type.Null()]);
/** The rules of a gate as they stand in the spec of its job. */
export const RulesSpec = Type.Object({
  accept: Type.Enum(['better', 'not_worse']),
  margin: Type.Number({ minimum: 0 }),
  level: Type.Number(),
  guardrails: Type.Object({ roles: Guard, families: Guard, tokens: Guard, latency: Guard }),
});

/** The two that play. */
export const SIDES = ['incumbent', 'candidate'] as const;
export type Side = (typeof SIDES)[number];

/** Job kind of a gate that plays. */
export const PLAY = 'play';

const { runner, tasks, tasks_where, samples, deadline_s } = RolloutSpec.properties;
export const PlayGateSpec = Type.Object({
  kind: Type.Literal(PLAY),
  rules: RulesSpec,
  runner,
  tasks: Type.Array(tasks.items),
  tasks_where,
  samples,
  seed: Type.Integer({ minimum: 0 }),
  deadline_s,
  serving_within_s: Type.Number({ exclusiveMinimum: 0 }),
  /** Policies that are compared. */
  policies: Type.Array(Type.String(), { minItems: 1 }),
  /** The whole map of each side: other policies are the same on both. */
  maps: Type.Object({
    incumbent: Type.Record(Type.String(), Weights),
    candidate: Type.Record(Type.String(), Weights),
  }),
  /** Roles that have to be seen. */
  guarded: Type.Array(Type.String()),
  /** Share of samples that the candidate may leave unplayed beyond the incumbent. */
  unplayed: Type.Number({ minimum: 0 }),
  /** Tasks that are not played, and why. */
  left_out: Type.Record(Type.String(), Type.Integer({ minimum: 0 })),
});
export const CheckedPlayGate = Compile(PlayGateSpec);

/** The rollout of one side. Its id has slashes, so no rollout that is asked for over HTTP has it. */
export const rolloutOfSide = (job: string, side: Side): string => `${job}/${side}`;

const EPISODE = /^.+\/gate\/(incumbent|candidate)\/./s;

/**
 * The checkpoint with which a policy answers an episode of a gate that plays; null for any other episode, and for policies that the gate does
 * not name: these are answered by what is released.
 */
export async function boundCheckpoint(
  db: Pick<Db, 'query'>,
  policy: string,
  episode: string | null,
): Promise<string | null> {
  if (episode === null || !EPISODE.test(episode)) return null;
  const row = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue as attempt')
      .innerJoin('troupe.job_queue as gate', (on) =>
        on.on(sql<SqlBool>`gate.job_id = regexp_replace(attempt.spec ->> 'rollout', '/[^/]*$', '')`),
      )
      .select(
        sql<
          string | null
        >`gate.spec -> 'maps' -> regexp_replace(attempt.spec ->> 'rollout', '^.*/', '') -> ${policy}::text ->> 'checkpoint_id'`.as(
          'checkpoint_id',
        ),
      )
      .where('attempt.job_id', '=', episode)
      .where('attempt.kind', 'like', 'attempt/%')
      .where('gate.kind', '=', PLAY),
  );
  return row?.checkpoint_id ?? null;
}

/** The weights of a policy that gates under way play with, each once. */
export async function weightsAtPlay(db: Pick<Db, 'query'>, policy: string): Promise<Weights[]> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(
        sql<Record<Side, Weights | null>>`json_build_object(
        'incumbent', spec -> 'maps' -> 'incumbent' -> ${policy}::text, 'candidate', spec -> 'maps' -> 'candidate' -> ${policy}::text)`.as(
          'sides',
        ),
      )
      .where('kind', '=', PLAY)
      .where('state', '<>', 'finished'),
  );
  const found = rows.flatMap(({ sides }) => SIDES.flatMap((side) => sides[side] ?? []));
  return [...new Map(found.map((weights) => [weights.checkpoint_id, weights])).values()];
}
