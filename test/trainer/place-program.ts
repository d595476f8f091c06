/** Takes the only place of this name, as soon as it is free, and keeps it. Argument: the name. */
import { setTimeout as sleep } from 'node:timers/promises';
import { takePlace } from '../../trainer/loop/jobs/training-place.ts';

const holder = { pid: process.pid, project: 'other', home: '/elsewhere', job_id: 'night/1/train-solver' };
while ((await takePlace({ count: 1, named: process.argv[2]! }, holder)) === null) await sleep(50);
process.stdout.write('has it\n');
setInterval(() => {}, 1000);
