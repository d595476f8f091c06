/**
 * The log of this process as JSON Lines on standard error: `level`, `time`, what `nameLog` gave, `msg`, and for a line about a request its
 * `request_id`. The only file that imports pino.
 */
import type { FastifyBaseLogger } from 'fastify';
import pino from 'pino';

export type ProcessLog = FastifyBaseLogger;

let log: ProcessLog | null = null;

/** The log that every part of this process writes to. */
export const processLog = (): ProcessLog => {
  log ??= open({});
  return log;
};

/** Puts these facts on every line from now on, such as the role. */
export function nameLog(facts: Readonly<Record<string, string>>): void {
  log = open(facts);
}

function open(facts: Readonly<Record<string, string>>): ProcessLog {
  return pino(
    {
      base: { ...facts, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
      serializers: { err: plainError },
    },
    // Looked up for each line: a thread's standard error is that of its process, and a test may listen to it.
    { write: (line) => void process.stderr.write(line) },
  );
}

/** Only message and stack: an error of the database may carry the values of a row. */
function plainError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack } = error;
  const { code } = error as { readonly code?: unknown };
  return { name, ...(code === undefined ? {} : { code }), message, stack };
}
