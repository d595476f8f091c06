/**
 * Loaded into a process that serves, by NODE_OPTIONS: whoever connects to the socket LOOP_PROBE reads the longest delay of the event loop
 * since the last connection, in milliseconds.
 */
import { createServer } from 'node:net';
import { performance } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const { LOOP_PROBE, LOOP_PROBE_ROLE } = process.env;
if (isMainThread && LOOP_PROBE && LOOP_PROBE_ROLE && process.argv.includes(LOOP_PROBE_ROLE)) {
  let last = performance.now();
  let longest = 0;
  setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, now - last - 1);
    last = now;
  }, 1).unref();
  createServer((socket) => {
    // A delay that ends with this turn is seen by the next turn of the timer.
    setTimeout(() => {
      socket.end(String(longest));
      longest = 0;
    }, 10);
    socket.on('error', () => {});
  })
    .listen(LOOP_PROBE)
    .unref();
}
