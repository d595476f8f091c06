/**
 * Proof that the embedded server and the commands come through being killed, starved and pointed at what is not there: the tests
 * `*.kills.ts`, which wait for processes to die, and `*.whole.ts`, which wait for long programs: too long for every run of the tests.
 */
import { proofOfTests } from './test-run.ts';

export const proof = proofOfTests('killed-programs-recover', ['.kills.ts', '.whole.ts'], 205);
