/** A few numbers over the episodes of one command, for whoever watches. The figures that count are asked of the tables. */
import { type Episode, majority, testsPassed } from './episode.ts';

/** Shares from 0 to 1; null where there is nothing to take a share of. */
export type Statistics = {
  readonly tasks: number;
  /** Programs that are correct. */
  readonly pass_at_1: number | null;
  /** Tasks whose program with most tests passed is correct; equals share the credit. */
  readonly best_of_n: number | null;
  /** Tasks whose most common behaviour is correct. */
  readonly majority: number | null;
  /** Tasks that any program solves. */
  readonly any: number | null;
  readonly valid_programs: number | null;
  readonly valid_tests: number | null;
  /** Tests that expect the true output. */
  readonly true_tests: number | null;
  /** Wrong programs that a true test rejects. Precision without this can be had with tests that tell nothing apart. */
  readonly rejected: number | null;
};

export function summarise(episodes: readonly Episode[]): Statistics {
  const programs = episodes.flatMap((episode) =>
    episode.programs.map((program, i) => ({ program, right: isRight(episode, i) })),
  );
  const tests = episodes.flatMap((episode) =>
    episode.tests.map((test, j) => ({ test, episode, j, true: isTrue(episode, j) })),
  );
  const rejections = tests
    .filter((test) => test.true)
    .flatMap(({ episode, j }) =>
      episode.programs.flatMap((_, i) => (isRight(episode, i) ? [] : [episode.matrix.pass[i]![j]!])),
    )
    .filter((cell) => cell !== null);
  return {
    tasks: episodes.length,
    pass_at_1: share(programs, ({ right }) => right),
    best_of_n: mean(episodes.filter(({ tests }) => tests.length > 0).map(bestOfN)),
    majority: share(episodes, (episode) => isRight(episode, majority(episode.programs)[0] ?? -1)),
    any: share(episodes, (episode) => episode.programs.some((_, i) => isRight(episode, i))),
    valid_programs: share(programs, ({ program }) => program.meaning !== null),
    valid_tests: share(tests, ({ test }) => test.meaning !== null),
    true_tests: share(tests, (test) => test.true),
    rejected: share(rejections, (cell) => cell === 0),
  };
}

const isRight = ({ matrix }: Episode, program: number): boolean => matrix.pass[program]?.at(-1) === 1;
/** The reference stands in the last row. */
const isTrue = ({ matrix }: Episode, test: number): boolean => matrix.pass.at(-1)![test] === 1;

function bestOfN(episode: Episode): number {
  const passed = episode.programs.map((_, i) => testsPassed(episode.matrix, i));
  const most = Math.max(...passed);
  return mean(passed.flatMap((count, i) => (count === most ? [isRight(episode, i) ? 1 : 0] : []))) ?? 0;
}

const mean = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;

const share = <T>(items: readonly T[], condition: (item: T) => boolean): number | null =>
  mean(items.map((item) => (condition(item) ? 1 : 0)));
