/** The name of an operation and its parts. Pure. */

type OperationName = { readonly name: string };

/** `schedule` of `schedule.dry-run`. */
export const nounOf = ({ name }: OperationName): string => name.split('.', 1)[0]!;
/** `dry-run` of `schedule.dry-run`; nothing of `rebuild`, which is a verb by itself. */
export const verbOf = ({ name }: OperationName): string => name.slice(nounOf({ name }).length + 1);
/** `dryRun` of `schedule.dry-run`: how a program writes the verb. */
export const methodOf = (named: OperationName): string =>
  verbOf(named).replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
/** The header with the output of an operation whose result is the body of the answer. */
export const OUTPUT_HEADER = 'troupe-output';
