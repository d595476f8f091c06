/**
 * Writes what the demo begins with into a folder: the teachers' lessons, and the files of tasks that the plans name. The held-out tasks are
 * the same for every seed.
 *
 *   node --import tsx examples/coder-verifier/course.ts --seed 0 --out course
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { demonstrations, LESSONS } from './demonstrations.ts';
import { taskLines } from './task-line.ts';

const { values } = parseArgs({
  options: { seed: { type: 'string', default: '0' }, scale: { type: 'string', default: '1' }, out: { type: 'string' } },
});
const [seed, scale, out] = [Number(values.seed), Number(values.scale), values.out];
if (!Number.isSafeInteger(seed) || seed < 0 || !(scale > 0) || out === undefined) {
  process.stderr.write('--seed must be a whole number from 0, --scale a share above 0, --out a folder.\n');
  process.exit(2);
}
const scaled = (n: number) => Math.max(1, Math.ceil(n * scale));
const { teachers, coderTasks, verifierTasks } = LESSONS;
const trained = { programs: 16, inputs: 4, tests_per_input: 2 };
const heldOut = { seed: 0, verified: 1, programs: 7, inputs: 7, tests_per_input: 1 };
const lessons = demonstrations({
  seed,
  teachers,
  coderTasks: scaled(coderTasks),
  verifierTasks: scaled(verifierTasks),
});
const files = {
  lessons: [...lessons].map((event) => `${JSON.stringify(event)}\n`).join(''),
  practice: taskLines('train', { ...trained, count: scaled(2000), seed: 2 * seed, verified: 1 }),
  reinforcement: taskLines('train', { ...trained, count: scaled(4000), seed: 2 * seed + 1, verified: 0.5 }),
  'held-out':
    taskLines('new', { ...heldOut, count: scaled(192) }) + taskLines('hard', { ...heldOut, count: scaled(96) }),
};
mkdirSync(out, { recursive: true });
for (const [name, text] of Object.entries(files)) writeFileSync(join(out, `${name}.jsonl`), text);
