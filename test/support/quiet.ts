/** What servers and recorders in this process log is left out of the report of the tests. A test that replaces `write` sees it all the same. */
const QUIET = Symbol.for('troupe.test.quiet');
const LOGGED = /^\{"level":|^http\S+ took none of|; it is moved aside\. /;
const { stderr } = process;

if (!(QUIET in stderr)) {
  const write = stderr.write.bind(stderr) as (...args: unknown[]) => boolean;
  const quiet = (...[chunk, ...rest]: unknown[]): boolean =>
    (typeof chunk === 'string' && LOGGED.test(chunk)) || write(chunk, ...rest);
  Object.assign(stderr, { write: quiet, [QUIET]: true });
}
