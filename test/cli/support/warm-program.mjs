/**
 * Commands one after the other in one process, which loads the program once: a line of JSON on file 3 is a command and its input, the
 * line on file 4 that answers it is its exit code and what it printed. Its argument is the built module that runs a command line.
 */
import { createReadStream, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';

const { runProgram } = await import(process.argv[2]);
let printed = null;

const captured = (name) => (chunk, encoding, done) => {
  printed?.[name].push(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk));
  const written = typeof encoding === 'function' ? encoding : done;
  if (written) process.nextTick(written);
  return true;
};
process.stdout.write = captured('out');
process.stderr.write = captured('err');
// Each command listens for signals and would be the last of its process.
process.setMaxListeners(0);

const answer = (code) => {
  const text = (name) => Buffer.concat(printed[name]).toString();
  let line = Buffer.from(`${JSON.stringify({ code, signal: null, out: text('out'), err: text('err') })}\n`);
  printed = null;
  while (line.length > 0) line = line.subarray(writeSync(4, line));
};
// A command that ends its process ends this one, which is answered first.
process.on('exit', (code) => printed && answer(code));

for await (const line of createInterface({ input: createReadStream('', { fd: 3 }) })) {
  printed = { out: [], err: [] };
  process.exitCode = 0;
  const { args, input } = JSON.parse(line);
  Object.defineProperty(process, 'stdin', { value: Readable.from([Buffer.from(input)]), configurable: true });
  try {
    await runProgram(args);
  } catch (error) {
    process.stderr.write(`${error.stack}\n`);
    process.exitCode = 1;
  }
  for (const signal of ['SIGINT', 'SIGTERM']) process.removeAllListeners(signal);
  answer(process.exitCode);
}
process.exitCode = 0;
