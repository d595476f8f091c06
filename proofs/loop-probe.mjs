/**
 * Loaded into a process that serves, by NODE_OPTIONS: whoever connects to the socket LOOP_PROBE reads the longest turn of the event loop
 * since the last connection, as JSON: `cpu`, the processor time of the main thread, and `wall`, both in milliseconds. Other programs of a
 * busy machine lengthen `wall` alone. Linux only: Node 20 has no clock of one thread.
 */
import { openSync, readSync } from 'node:fs';
import { createServer } from 'node:net';
import { performance } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const { LOOP_PROBE, LOOP_PROBE_ROLE } = process.env;
if (isMainThread && LOOP_PROBE && LOOP_PROBE_ROLE && process.argv.includes(LOOP_PROBE_ROLE)) {
  // Of the main thread; its first number is nanoseconds on a processor.
  const schedstat = openSync('/proc/self/schedstat', 'r');
  const buffer = Buffer.alloc(128);
  const cpuNow = () =>
    Number(buffer.toString('latin1', 0, readSync(schedstat, buffer, 0, 128, 0)).split(' ', 1)[0]) / 1e6;
  let last = { cpu: cpuNow(), wall: performance.now() };
  let longest = { cpu: 0, wall: 0 };
  setInterval(() => {
    const now = { cpu: cpuNow(), wall: performance.now() };
    longest = {
      cpu: Math.max(longest.cpu, now.cpu - last.cpu),
      wall: Math.max(longest.wall, now.wall - last.wall - 1),
    };
    last = now;
  }, 1).unref();
  createServer((socket) => {
    // A turn that ends with this one is seen by the next firing of the timer.
    setTimeout(() => {
      socket.end(JSON.stringify(longest));
      longest = { cpu: 0, wall: 0 };
    }, 10);
    socket.on('error', () => {});
  })
    .listen(LOOP_PROBE)
    .unref();
}
