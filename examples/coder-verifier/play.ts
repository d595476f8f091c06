/** A batch of episodes: draws tasks, plays all of them at once, and reports what happened in a few large requests. */
import type { Recorder } from '../../ingest/recorder.ts';
import { type Episode, type EpisodePlan, playEpisode } from './episode.ts';
import type { Gateway } from './gateway.ts';
import { drawInput } from './operations.ts';
import { writeProgram } from './program.ts';
import { createRandom, digest, seedOf } from './random.ts';
import { type Mix, type PoolName, sampleTask } from './splits.ts';
import { type Statistics, summarise } from './statistics.ts';
import { taskFacts } from './task.ts';

export type Batch = {
  /** What run, phase, round and iteration this is, and which attempt at it: they name the episodes. */
  readonly run: string;
  readonly phase: string;
  readonly round: number;
  readonly iteration: number;
  readonly attempt: number;
  readonly policy: string;
  readonly pool: PoolName;
  readonly mix: Mix;
  readonly tasks: number;
  /** So many of the first tasks are given to the verifier too. */
  readonly verified: number;
  readonly programs: number;
  readonly inputs: number;
  readonly testsPerInput: number;
  readonly temperature: number;
  /** Seed of the tasks and inputs drawn. */
  readonly drawSeed: number;
  /** Seed of the sampling. */
  readonly seed: number;
};

export type Played = {
  readonly episodes: readonly string[];
  /** Episodes that broke off, which are closed with the outcome `error`. */
  readonly failed: number;
  readonly stats: Statistics;
};

/** What an attempt came to: the episode, or why it broke off. */
type Attempt = { readonly plan: EpisodePlan; readonly episode: Episode | null; readonly problem: string | null };

/** Draws the tasks of a batch and the inputs for the verifier. Equal batches draw equal tasks under equal ids. */
export function drawPlans(batch: Batch): EpisodePlan[] {
  const random = createRandom(batch.drawSeed);
  return Array.from({ length: batch.tasks }, (_, index) => {
    const { run, phase, round, iteration, attempt, policy, pool, seed } = batch;
    const place = digest(run, phase, round, iteration, attempt, policy, pool, seed, index);
    return {
      id: `recipes-${place.slice(0, 24)}`,
      task: sampleTask(pool, random, batch.mix),
      inputs: index < batch.verified ? Array.from({ length: batch.inputs }, () => drawInput(random)) : [],
      programs: batch.programs,
      testsPerInput: batch.testsPerInput,
      temperature: batch.temperature,
      policy,
      seed: seedOf('sampling', phase, iteration, pool, seed, index),
    };
  });
}

/**
 * Plays a batch and answers when all its events are durable. An episode whose calls failed is closed as an error and counted;
 * throws where every episode failed, or the recorder's events were not taken.
 */
export async function play(batch: Batch, gateway: Gateway, recorder: Recorder, teamId: string): Promise<Played> {
  const attempts = await Promise.all(
    drawPlans(batch).map(async (plan): Promise<Attempt> => {
      recordStart(recorder, batch, plan, teamId);
      try {
        const episode = await playEpisode(plan, gateway);
        recordResult(recorder, plan, episode);
        return { plan, episode, problem: null };
      } catch (error) {
        const problem = (error as Error).message;
        recorder.finish({ episode_id: plan.id, outcome: 'error', stop_reason: problem });
        return { plan, episode: null, problem };
      }
    }),
  );
  await recorder.flush();
  const episodes = attempts.flatMap(({ episode }) => (episode ? [episode] : []));
  const problem = attempts.find((attempt) => attempt.problem !== null)?.problem;
  if (episodes.length === 0 && problem) throw new Error(problem);
  return {
    episodes: attempts.map(({ plan }) => plan.id),
    failed: attempts.length - episodes.length,
    stats: summarise(episodes),
  };
}

function recordStart(recorder: Recorder, batch: Batch, { id, task, policy }: EpisodePlan, teamId: string): void {
  recorder.task(taskFacts(task), { time: null });
  recorder.episode({
    episode_id: id,
    task_id: task.id,
    attempt: batch.attempt,
    // The candidates of an episode are compared with each other, and with nobody else's.
    group_id: id,
    group_size: 1,
    team_id: teamId,
    policies: { coder: policy, verifier: policy },
    tags: { run: batch.run, phase: batch.phase, iteration: batch.iteration, round: batch.round, pool: batch.pool },
  });
}

function recordResult(recorder: Recorder, { id }: EpisodePlan, { programs, matrix, chosen, solved }: Episode): void {
  const answer = chosen === null ? null : programs[chosen]!.meaning;
  const target = { kind: 'episode' as const, id, episode_id: id };
  recorder.feedback({ feedback_id: `${id}/matrix`, target, kind: 'execution', name: 'matrix', matrix, by: 'code' });
  recorder.feedback({
    feedback_id: `${id}/reward`,
    target,
    kind: 'reward',
    name: 'reward',
    value: solved ? 1 : 0,
    by: 'code',
  });
  recorder.finish({
    episode_id: id,
    outcome: solved ? 'success' : 'failure',
    answer: answer === null ? null : writeProgram(answer),
  });
}
