/** The facts of one judging, as methods see them. */
import type { CaseEntry } from '../attribution/entries.ts';
import type { TaskVectors } from '../consistency/task-embeddings.ts';
import type { ExecutionReport } from '../methods/execution-report.ts';
import type { DecisionFact, FeedbackFact, ObservationFact, TeamFact, ToolFact } from './episode-facts.ts';
import type { EpisodeFacts, StepContent, StepFacts } from './facts.ts';
import type { TokenFacts } from './token-facts.ts';

/**
 * What is read only for methods that name it: rewards of steps, outputs of steps, execution reports, results of forward passes, feedback,
 * tool calls, decisions, observations, teams, the transcript, the vectors of tasks.
 */
export type FactKind =
  | 'rewards'
  | 'content'
  | 'reports'
  | 'passes'
  | 'feedback'
  | 'tools'
  | 'decisions'
  | 'observations'
  | 'teams'
  | 'entries'
  | 'vectors';

export type MethodFacts = {
  /** In the order of their ids. */
  readonly episodes: readonly EpisodeFacts[];
  /** By episode, and in the order in which an episode took them. */
  readonly steps: readonly StepFacts[];
  /** True where the rewards of another method are read: `rewardOf` gives each step its own, `steps` are those that have one. */
  readonly ownRewards: boolean;
  /** True for a step, or a whole episode, that every filter run before in the same judging kept. */
  readonly survives: (episodeId: string, stepId: string) => boolean;
  /** The verdict on an episode by a filter that ran before in the same judging; undefined where it did not run. */
  readonly verdictOf: (method: string, episodeId: string) => boolean | null | undefined;
  // The following members throw where the method does not declare that it reads them.
  /** Reward of a step: computed by the method that is read, or the recorded reward of its episode. */
  readonly rewardOf: (step: StepFacts) => number | null;
  readonly contentOf: (step: StepFacts) => StepContent;
  /** By episode; each of these lists in the order of what happened. */
  readonly reports: ReadonlyMap<string, ExecutionReport>;
  readonly recorded: TokenFacts;
  readonly feedback: ReadonlyMap<string, readonly FeedbackFact[]>;
  readonly tools: ReadonlyMap<string, readonly ToolFact[]>;
  readonly decisions: ReadonlyMap<string, readonly DecisionFact[]>;
  readonly observations: ReadonlyMap<string, readonly ObservationFact[]>;
  readonly entries: ReadonlyMap<string, readonly CaseEntry[]>;
  /** By team_id. */
  readonly teams: ReadonlyMap<string, TeamFact>;
  /** By embedding model, then by task. */
  readonly vectors: TaskVectors;
};
