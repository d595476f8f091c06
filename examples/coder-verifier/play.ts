/** Plays leased attempts: all episodes at once, and what happened is recorded before it is reported. */
import type { Recorder } from '../../ingest/recorder.ts';
import { type Episode, type EpisodePlan, playEpisode } from './episode.ts';
import type { Gateway } from './gateway.ts';
import type { Attempt, Report } from './leases.ts';
import { drawInput } from './operations.ts';
import { writeProgram } from './program.ts';
import { createRandom } from './random.ts';
import { truthOf } from './task-line.ts';

/** What is tried in an attempt. The seed of the attempt draws the inputs and seeds the sampling. */
export function planOf({ episode_id, task, seed }: Attempt, policy: string): EpisodePlan {
  const random = createRandom(seed);
  return {
    id: episode_id,
    task: { sentence: task.prompt, program: truthOf(task) },
    inputs: Array.from({ length: task.inputs }, () => drawInput(random)),
    programs: task.programs,
    testsPerInput: task.tests_per_input,
    temperature: 1,
    policy,
    seed,
  };
}

/** Plays attempts; resolves when all their events are durable. An attempt whose calls failed is reported with the reason. */
export async function play(
  attempts: readonly Attempt[],
  { gateway, recorder, policy }: { readonly gateway: Gateway; readonly recorder: Recorder; readonly policy: string },
): Promise<readonly Report[]> {
  const reports = await Promise.all(
    attempts.map(async (attempt): Promise<Report> => {
      const { attempt_id, token } = attempt;
      try {
        const episode = await playEpisode(planOf(attempt, policy), gateway);
        const { matrix, chosen, solved, programs } = episode;
        const id = attempt.episode_id;
        const target = { kind: 'episode' as const, id, episode_id: id };
        recorder.feedback({
          feedback_id: `${id}/matrix`,
          target,
          kind: 'execution',
          name: 'matrix',
          matrix,
          by: 'code',
        });
        const answer = chosen === null ? null : programs[chosen]!.meaning;
        return {
          attempt_id,
          token,
          outcome: 'done',
          reward: shareRight(episode),
          answer: answer === null ? null : writeProgram(answer),
          episode_outcome: solved ? 'success' : 'failure',
        };
      } catch (error) {
        return { attempt_id, token, outcome: 'failed', reason: (error as Error).message };
      }
    }),
  );
  await recorder.flush();
  return reports;
}

/** Share of the programs that are correct: the truth is the last column of the matrix. */
const shareRight = ({ programs, matrix }: Episode): number =>
  programs.filter((_, i) => matrix.pass[i]!.at(-1) === 1).length / programs.length;
