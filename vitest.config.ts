import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Machines that other programs share stall for seconds; a test that needed its second run is marked in the report.
    retry: process.env.CI ? 1 : 0,
    // The database tests share one embedded server. Half of the time a test waits, for processes and leases, so three workers fit two cores.
    maxWorkers: 3,
    // The modules of the product are loaded once a worker, not once a file: 331 files spent 381 of 2,148 s on it. A test leaves no state behind.
    isolate: false,
    // Tests beside each other train at the same time.
    env: { TROUPE_TRAININGS: '64' },
    globalSetup: ['test/support/server.ts'],
    setupFiles: ['test/support/replay.ts', 'test/support/quiet.ts'],
  },
});
