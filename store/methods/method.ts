/**
 * A method is a pure function over plain data with a name, a version and a source: no clock, no I/O, no randomness that was not
 * handed in, and no knowledge of any other method. The judge assembles its input from the tables; `troupe method run` takes it from a file.
 */

/**
 * What the answer is: keep or drop, a number about a trajectory or group, a number for each candidate, a number for each step … A loss is
 * the trainer's and stands in its own catalogue; the judge runs none.
 */
export type MethodKind = 'filter' | 'score' | 'reward' | 'credit' | 'process' | 'blame' | 'loss';

/** What the judge must assemble before a method can run. `input` means: only by hand, from a file. */
export type MethodNeeds =
  | 'answers'
  | 'answer and reference'
  | 'messages'
  | 'critic rounds'
  | 'execution matrix'
  | 'execution report'
  | 'execution reports'
  | 'surviving candidates'
  | 'rewards by group'
  | 'rewards by group and agent'
  | 'rewards by environment, turn and agent'
  | 'token values'
  | 'masked log-probabilities'
  | 'rewards of a batch'
  | 'rewards of candidates'
  | 'lengths'
  | 'retrieval roles'
  | 'solutions and verdicts'
  | 'outcome and roles'
  | 'team and local rewards'
  | 'team and local rewards by group'
  | 'rewards by turn'
  | 'outcome and format scores'
  | 'pass rates by turn'
  | 'answer scores by turn'
  | 'rewards along a chain'
  | 'rewards of a tree'
  | 'refinement tree'
  | 'designs and executions'
  | 'planner and workers'
  | 'joint actions'
  | 'joint rewards'
  | 'turn rewards by player'
  | 'action values'
  | 'embeddings'
  | 'masked log-probabilities of the answer'
  | 'outcome, influence and restart'
  | 'search tree'
  | 'nodes of a search tree'
  | 'root of a search tree'
  | 'values along a path'
  | 'peer ratings'
  | 'peer ratings and agreement'
  | 'answers by round'
  | 'failed run'
  | 'failed run and reference'
  | 'critic messages'
  | 'earlier verdicts'
  | 'categories and scores'
  | 'team scores by query'
  | 'base and refinement'
  | 'judge scores by query'
  | 'rewards and penalties'
  | 'blueprint checks'
  | 'final state and true state'
  | 'runs and regenerations'
  | 'outcomes and roles'
  | 'last message'
  | 'final answer'
  | 'teams by cluster'
  | 'log-probabilities with and without the prompt'
  | 'difficulties and referee'
  | 'subgoals'
  | 'milestones by agent'
  | 'tool responses'
  | 'answer tags'
  | 'blamed steps and truth'
  | 'blamed modes and truth'
  | 'labels of two annotators'
  | 'failure modes'
  | 'corrected replays'
  | 'perturbed replays'
  | 'subgoals before and after'
  | 'replays of an intervention'
  | 'repaired coalitions'
  | 'data dependencies'
  | 'traced failure'
  | 'diagnosed modes'
  | 'input';

export type Method<Input = unknown, Params = unknown, Output = unknown> = {
  readonly name: string;
  readonly kind: MethodKind;
  /** Paper and section, or repository and file; and how far it was verified. */
  readonly source: string;
  /** Raised when the same input gives another output. */
  readonly version: number;
  readonly needs: MethodNeeds;
  /** One sentence for the list. */
  readonly summary: string;
  /** Parameters with their defaults; a parameter that is not here is refused by name. */
  readonly params: Params;
  /** JSON Schema (TypeBox) of each parameter whose default does not say enough: a choice, a bound, or null beside something else. */
  readonly limits?: { readonly [Name in keyof Params]?: object };
  /** JSON Schema of the input (TypeBox), checked before `run` by whoever calls from outside. */
  readonly input: object;
  // Written as a method, so that a list can hold methods over different inputs; whoever calls through the list checks the input first.
  run(input: Input, params: Params): Output;
};
