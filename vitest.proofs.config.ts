/**
 * Tests that `npm test` leaves out and proofs run: `*.kills.ts` wait for what happens to killed programs, `*.whole.ts` for whole runs of
 * long ones, `*.plans.ts` for whole runs of plans, `*.kafka.ts` want a broker.
 */
import { defineConfig } from 'vitest/config';
import tests from './vitest.config.ts';

export default defineConfig({ test: { ...tests.test, include: ['test/**/*.{kills,whole,plans,kafka}.ts'] } });
