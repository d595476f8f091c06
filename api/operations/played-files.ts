/** Files of what is played: tasks, and a version of a team. */
import { readFileSync } from 'node:fs';
import { got, TroupeError, unreadable } from '../../errors.ts';
import { parseYaml } from '../../ingest/files/parse-yaml.ts';
import { type RolloutTask, readTasks } from '../../store/loop/play/rollout.ts';

/** Largest file of tasks: they travel in one event. */
const MOST_BYTES = 24 * 1024 * 1024;

/** The tasks of a file of JSON lines. @throws TroupeError `not_found`, `too_large`, or `usage` naming the line */
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

/** The version of a team that a file holds, YAML or JSON. @throws TroupeError `not_found`, `plan_invalid` */
export function readTeamFile(file: string): unknown {
  let written: string;
  try {
    written = readFileSync(file, 'utf8');
  } catch (cause) {
    throw unreadable(`The team version ${file}`, cause);
  }
  try {
    return parseYaml(written);
  } catch (cause) {
    const [why] = (cause as Error).message.split('\n', 1);
    throw new TroupeError('plan_invalid', `The team version ${file} is neither YAML nor JSON: ${why}`, {
      field: 'team',
      cause,
    });
  }
}
