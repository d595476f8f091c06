/**
 * Proof that plans run from start to end with all processes that they need: the tests `*.plans.ts`, which start the API, the workers and
 * sampling processes, and wait for rollouts, trainings, canaries and watches.
 */
import { proofOfTests } from './test-run.ts';

export const proof = proofOfTests('plans-run-whole', ['.plans.ts'], 30);
