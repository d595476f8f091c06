/**
 * Weights of a rollout that is part of another job: a candidate plays before anything is released. They stand in the spec of the rollout, which
 * the gateway and the sampling processes read: the one to choose the weights of an episode, the others to have them loaded meanwhile.
 */
import { Type } from 'typebox';
import type { Db } from '../../db/pool.ts';
import { anyOf, prepare, query, rowsOf, rowsOfPrepared, sql } from '../../db/query.ts';
import { MAY_BE_PART } from './ids.ts';

export const WeightsSpec = Type.Object({ checkpoint_id: Type.String(), directory: Type.String() });
/** A checkpoint and the directory of its files. */
export type Weights = { readonly checkpoint_id: string; readonly directory: string };

/** Stands before the name of a model that a configured server answers with, where a map of weights has no checkpoint. */
const HOSTED = 'upstream:';

/** The incumbent of a policy that has no checkpoint yet: the model that its calls go to today. */
export const hostedWeights = (model: string): Weights => ({ checkpoint_id: `${HOSTED}${model}`, directory: '' });

/** The model of a configured server; null for a checkpoint. */
export const hostedModel = (checkpoint_id: string): string | null =>
  checkpoint_id.startsWith(HOSTED) ? checkpoint_id.slice(HOSTED.length) : null;

/** Episodes that are remembered. */
const REMEMBERED = 4096;

/** The checkpoint that a rollout gives a policy in an episode; null where it gives none. */
export type BoundCheckpoint = (policy: string, episode: string | null) => Promise<string | null>;

/**
 * The checkpoint with which a policy answers an episode of a rollout that has weights; null for any other episode, and for policies that the
 * rollout does not name: these are answered by what is released. What a rollout has never changes, so it is read once for each episode, and
 * by one statement for all whose first calls come at the same time, or while another such statement runs.
 */
export function boundCheckpoints(db: Pick<Db, 'query'>): BoundCheckpoint {
  const known = new Map<string, Promise<ByPolicy | null>>();
  let running: Promise<unknown> = Promise.resolve();
  let together: { readonly episodes: string[]; readonly weights: Promise<ReadonlyMap<string, ByPolicy>> } | null = null;
  const read = (episode: string) => {
    if (known.size >= REMEMBERED) known.clear();
    if (together === null) {
      const episodes: string[] = [];
      const weights = Promise.all([running, new Promise(setImmediate)]).then(() => {
        together = null;
        return weightsOf(db, episodes);
      });
      running = weights.catch(() => {});
      together = { episodes, weights };
    }
    together.episodes.push(episode);
    const weights = together.weights.then((found) => found.get(episode) ?? null);
    known.set(episode, weights);
    const forget = () => void (known.get(episode) === weights && known.delete(episode));
    weights.then((found) => found ?? forget(), forget);
    return weights;
  };
  return async (policy, episode) => {
    if (episode === null || !MAY_BE_PART.test(episode)) return null;
    const weights = await (known.get(episode) ?? read(episode));
    return weights?.[policy]?.checkpoint_id ?? null;
  };
}

type ByPolicy = Readonly<Record<string, Weights>>;

/** The weights of the rollouts that episodes are attempts of, by episode; those that are none, and those whose rollout has none, are missing. */
async function weightsOf(db: Pick<Db, 'query'>, episodes: readonly string[]): Promise<ReadonlyMap<string, ByPolicy>> {
  const rows = await rowsOfPrepared(db, attemptWeights, { episodes });
  return new Map(rows.flatMap(({ weights, attempts }) => (weights ? attempts.map((id) => [id, weights]) : [])));
}

/** Of a rollout with all its tasks the weights are read once, whatever number of its attempts is asked about. */
const attemptWeights = prepare<{ episodes: readonly string[] }>('attempt_weights')((value) =>
  query
    .selectFrom(
      query
        .selectFrom('troupe.job_queue as attempt')
        .select(sql<string>`attempt.spec ->> 'rollout'`.as('rollout'))
        .select(sql<string[]>`array_agg(attempt.job_id)`.as('attempts'))
        .where('attempt.job_id', '=', anyOf(value('episodes')))
        .where('attempt.kind', 'like', 'attempt/%')
        .groupBy('rollout')
        .as('played'),
    )
    .innerJoin('troupe.job_queue as whole', 'whole.job_id', 'played.rollout')
    .select(['played.attempts', sql<ByPolicy | null>`whole.spec -> 'weights'`.as('weights')])
    .where('whole.kind', '=', 'rollout'),
);

/** The weights of a policy that rollouts and canaries under way need beside what is released, each once. */
export async function weightsAtPlay(db: Pick<Db, 'query'>, policy: string): Promise<Weights[]> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(sql<Weights | null>`spec -> 'weights' -> ${policy}::text`.as('weights'))
      .where('kind', 'in', ['rollout', 'canary'])
      .where('state', '<>', 'finished'),
  );
  const found = rows
    .flatMap(({ weights }) => weights ?? [])
    .filter(({ checkpoint_id }) => hostedModel(checkpoint_id) === null);
  return [...new Map(found.map((weights) => [weights.checkpoint_id, weights])).values()];
}
