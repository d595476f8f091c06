/** One leased attempt: what is tried in it, and what is recorded of it. */
import type { Attempt } from '../lib/leases.ts';
import { createRandom } from '../lib/random.ts';
import type { Play } from '../lib/worker.ts';
import { type Episode, type EpisodePlan, playEpisode } from './episode.ts';
import { drawInput } from './operations.ts';
import { writeProgram } from './program.ts';
import { type TaskLine, truthOf } from './task-line.ts';

/** What is tried in an attempt. The seed of the attempt draws the inputs and seeds the sampling. */
export function planOf({ episode_id, task, seed }: Attempt<TaskLine>, policy: string, verifier = policy): EpisodePlan {
  const random = createRandom(seed);
  return {
    id: episode_id,
    task: { sentence: task.prompt, program: truthOf(task) },
    inputs: verifier === 'none' ? [] : Array.from({ length: task.inputs }, () => drawInput(random)),
    programs: task.programs,
    testsPerInput: task.tests_per_input,
    temperature: 1,
    policy,
    verifier,
    seed,
  };
}

/** Plays one attempt and records the execution matrix. The reward is the share of right programs. */
export const play: Play<TaskLine> = async (attempt, { gateway, recorder, models }) => {
  const episode = await playEpisode(planOf(attempt, models.policy!, models.verifier || models.policy), gateway);
  const { matrix, chosen, solved, programs } = episode;
  const id = attempt.episode_id;
  const target = { kind: 'episode' as const, id, episode_id: id };
  recorder.feedback({ feedback_id: `${id}/matrix`, target, kind: 'execution', name: 'matrix', matrix, by: 'code' });
  const answer = chosen === null ? null : programs[chosen]!.meaning;
  return { reward: shareRight(episode), answer: answer === null ? null : writeProgram(answer), solved };
};

/** Share of the programs that are correct: the truth is the last column of the matrix. */
const shareRight = ({ programs, matrix }: Episode): number =>
  programs.filter((_, i) => matrix.pass[i]!.at(-1) === 1).length / programs.length;
