/**
 * Writes the teachers' work to a file of events, ready to be imported.
 *
 *   node --import tsx examples/coder-verifier/teach.ts --seed 0 --out lessons.jsonl
 *   troupe import lessons.jsonl
 */
import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { demonstrations, LESSONS, type Lessons } from './demonstrations.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '0' },
    out: { type: 'string' },
    'coder-tasks': { type: 'string', default: String(LESSONS.coderTasks) },
    teachers: { type: 'string', default: String(LESSONS.teachers) },
    'verifier-tasks': { type: 'string', default: String(LESSONS.verifierTasks) },
  },
});

function count(name: 'seed' | 'coder-tasks' | 'teachers' | 'verifier-tasks'): number {
  const value = Number(values[name]);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  process.stderr.write(`--${name} must be a whole number from 0, it is ${values[name]}.\n`);
  process.exit(2);
}

function* lines(lessons: Lessons): Generator<string> {
  for (const event of demonstrations(lessons)) yield `${JSON.stringify(event)}\n`;
}

const lessons: Lessons = {
  seed: count('seed'),
  coderTasks: count('coder-tasks'),
  teachers: count('teachers'),
  verifierTasks: count('verifier-tasks'),
};
await pipeline(
  Readable.from(lines(lessons)),
  values.out === undefined ? process.stdout : createWriteStream(values.out),
);
