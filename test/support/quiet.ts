/** The log lines of servers in this process are left out of the report of the tests. A test that replaces `write` sees them all the same. */
const QUIET = Symbol.for('troupe.test.quiet');
const { stderr } = process;

if (!(QUIET in stderr)) {
  const write = stderr.write.bind(stderr) as (...args: unknown[]) => boolean;
  const quiet = (...[chunk, ...rest]: unknown[]): boolean =>
    (typeof chunk === 'string' && chunk.startsWith('{"level":')) || write(chunk, ...rest);
  Object.assign(stderr, { write: quiet, [QUIET]: true });
}
