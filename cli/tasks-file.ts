/** A file of tasks that a team plays: JSON Lines. */
import { readFileSync } from 'node:fs';
import { got, TroupeError, unreadable } from '../errors.ts';
import { type RolloutTask, readTasks } from '../store/loop/play/rollout.ts';

/** Largest file of tasks: they travel in one event. */
const MOST_BYTES = 24 * 1024 * 1024;

/** @throws TroupeError `not_found`, `too_large`, or `usage` naming the line */
export function readTasksFile(file: string): RolloutTask[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw unreadable(`The file of tasks ${got(file)}`, cause);
  }
  if (Buffer.byteLength(text) > MOST_BYTES)
    throw new TroupeError(
      'too_large',
      `${file} has more than ${MOST_BYTES / 2 ** 20} MiB; split it into several rollouts.`,
    );
  return readTasks(text, file);
}
