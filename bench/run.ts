/**
 * Runs one benchmark: `tsx bench/run.ts NAME [flags]`, or `troupe bench NAME` in a checkout. Progress goes to standard
 * error; standard output has the report, with `--json` as one document.
 */
import { EXIT } from '../errors.ts';
import { runBench } from './program.ts';

const interrupted = () => process.exit(EXIT.interrupted);
process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
process.exitCode = await runBench(process.argv.slice(2), {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
});
