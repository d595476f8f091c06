/** Log-probabilities, for people. */
import type { OutputOf, Printer } from '../operation.ts';
import { passed } from '../passes-of-steps/text.ts';
import type { logprobs } from './run.ts';

export const shown = (output: OutputOf<typeof logprobs>, printer: Printer): string =>
  'logprobs' in output
    ? output.logprobs.map((row) => row.map((x) => x.toFixed(4)).join(' ')).join('\n')
    : passed(output, printer);
