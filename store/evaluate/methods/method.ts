/**
 * A method is a pure function over plain data with a name, a version and a source, and beside it what the judge reads of the stored
 * facts, how they become its input and how its output becomes rows. The methods of a paper are in one file, named as the paper. No clock,
 * no I/O, no randomness that was not passed in.
 */
import type { Static, TSchema } from 'typebox';
import type { Judgement, JudgementTable } from '../judging/judgement.ts';
import type { FactKind, MethodFacts } from '../judging/method-facts.ts';
import type { Over, Units } from '../judging/walk.ts';
import type { Immutable } from './shapes.ts';

/**
 * What the output is: keep or drop, a number about a trajectory or group, a number for each candidate, a number for each step … A loss is
 * the trainer's and stands in its own catalogue; the judge runs none.
 */
export type MethodKind = 'filter' | 'score' | 'reward' | 'credit' | 'process' | 'blame' | 'loss';

/** A method with the parameters of this judging. */
export type Ask<Input, Params, Output> = {
  readonly params: Params;
  /** @throws TroupeError `method_input` for what the method refuses; the judge then writes rows without a value for all that it judges. */
  run(input: Input): Output;
  /** The output, or the message of the refusal. For methods whose output is never a text. */
  answer(input: Input): Output | string;
};

/** How the judge runs a method over stored facts. */
export type Application<Input = unknown, Params = unknown, Output = unknown> = Reads<Params> &
  (
    | { [O in Over]: Each<O, Input, Params, Output> }[Over]
    | {
        readonly over?: undefined;
        /** All that is judged at once: from facts to the input of the method, and from its output to rows. */
        rows(facts: MethodFacts, ask: Ask<Input, Params, Output>): Judgement[];
      }
  );

/** The input that a unit makes, and how the output for it becomes rows; a text is the reason why there are none. */
export type Question<Input, Output> = {
  readonly input: Input;
  rows(output: Output): readonly Judgement[] | string;
};

/** What a method makes of a unit: a question, or rows where it runs for each of its steps; a text is the reason why it has no value. */
export type UnitResult<Input = unknown, Output = unknown> = Question<Input, Output> | readonly Judgement[] | string;

type Each<O extends Over, Input, Params, Output> = {
  /** Each episode, each group, each execution report or each tree of steps is judged by itself. */
  readonly over: O;
  each(facts: MethodFacts, ask: Ask<Input, Params, Output>): (unit: Units[O]) => UnitResult<Input, Output>;
};

type Reads<Params> = {
  /** What is read beside episodes and steps. */
  reads?: readonly FactKind[];
  /** What is read only with these parameters. */
  readsWith?(params: Params): readonly FactKind[];
  /** The tables it writes to, where that is not the one table of its kind. */
  readonly writes?: readonly JudgementTable[];
  /** `group` where it is not given. */
  scope?(params: Params): 'group' | 'set';
};

// `run`, `rows` and their like are written as methods, so that a list can hold methods over different inputs; whoever calls through the
// list checks the input first.
export type Method<Name extends string = string, Input = unknown, Params = unknown, Output = unknown> = {
  readonly name: Name;
  readonly kind: MethodKind;
  /** Paper and section, or repository and file; and how far it was verified. */
  readonly source: string;
  /** Raised when the same input, or the same facts, give another output. */
  readonly version: number;
  /** One sentence for the list. */
  readonly summary: string;
  /** For which teams it is; any where it names none. */
  readonly teams?: string;
  /** Parameters with their defaults; a parameter that is not here is refused by name. */
  readonly params: Params;
  /** JSON Schema (TypeBox) of each parameter whose default is not sufficient: a choice, a bound, or null beside something else. */
  readonly limits?: { readonly [Param in keyof Params]?: object };
  /** JSON Schema (TypeBox) of the input, checked before `run`. */
  readonly input: object;
  run(input: Input, params: Params): Output;
  /** Absent for a method that can only be run by hand, with an input of its own. */
  readonly judged?: Application<Input, Params, Output>;
};

/** A method to run, its parameters filled in, and whose rewards a credit method reads: a reward method's name, or null for the recorded ones. */
export type MethodRun = {
  readonly method: Method;
  readonly name: string;
  readonly version: number;
  readonly params: Readonly<Record<string, unknown>>;
  readonly reads: string | null;
  /** Names method, version, parameters and what it reads: the key of its rows. */
  readonly key: string;
};

/** A method whose types are read off its definition. It has no parameters where it names none. */
export const method = <
  const Name extends string,
  Schema extends TSchema,
  Output,
  Params extends object = Record<never, never>,
>(
  definition: Omit<Method<Name, Immutable<Static<Schema>>, Params, Output>, 'input' | 'limits' | 'params'> & {
    readonly input: Schema;
    readonly params?: Params;
    readonly limits?: { readonly [Param in keyof NoInfer<Params>]?: object };
  },
): Method<Name, Immutable<Static<Schema>>, Params, Output> => ({ params: {} as Params, ...definition });
