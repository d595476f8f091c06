/** The tests that kill servers and commands and wait for what happens then: too long for `npm test`, run by the proof `killed-programs-recover`. */
import { defineConfig } from 'vitest/config';
import tests from './vitest.config.ts';

export default defineConfig({ test: { ...tests.test, include: ['test/**/*.kills.ts'] } });
