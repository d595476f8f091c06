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
