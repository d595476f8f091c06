/** A variable that is misspelt would be ignored in silence, and events would go to another database or log than was meant. */
import { didYouMean, SETTINGS, SETTINGS_HINT } from '../config.ts';
import { TroupeError } from '../errors.ts';
import { nearest } from '../nearest.ts';

const OURS: readonly string[] = [
  ...Object.values(SETTINGS).map(({ env }) => env),
  'TROUPE_API_KEY',
  'TROUPE_UPSTREAM_BASE_URL',
  'TROUPE_UPSTREAM_API_KEY',
];
/** Read by the programs of agents, by tests, proofs and benches. */
const BESIDE: readonly string[] = [
  'TROUPE_URL',
  'TROUPE_KEY',
  'TROUPE_DATA',
  'TROUPE_SEED',
  'TROUPE_SOURCES',
  'TROUPE_PYTHON',
  'TROUPE_VERSITYGW',
  'TROUPE_KAFKA_JARS',
  'TROUPE_ROLLOUT',
  'TROUPE_EPISODE',
  'TROUPE_EPISODE_URL',
  'TROUPE_GROUP',
  'TROUPE_TASK',
  'TROUPE_TASK_ID',
  'TROUPE_SAMPLE',
  'TROUPE_ATTEMPT',
  'TROUPE_DEADLINE',
  'TROUPE_PARAMS',
  'TROUPE_TEAM',
  'TROUPE_TEAM_ID',
];
/** Of benches and proofs, and keys of model servers, whose variables the user names. */
const FREE = /^TROUPE_((BENCH|PROOF)_\w+|[A-Z0-9]\w*_KEY)$/;

/**
 * Refuses every `TROUPE_*` that Troupe does not know, and every other name that is one slip of the hand away from a variable of ours
 * that is not there. One that is empty counts as not set.
 * @throws TroupeError `config_invalid` naming it, and what may have been meant
 */
export function refuseUnknownVariables(env: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(env)) {
    if (!value || OURS.includes(name) || BESIDE.includes(name)) continue;
    const meant = OURS.find((known) => env[known] === undefined && oneSlip(name, known));
    if (meant !== undefined) {
      throw new TroupeError(
        'config_invalid',
        `The environment has ${name}; if ${meant} is meant, rename it. If it belongs to another program, set ${meant} too, if only to nothing.`,
        { field: name },
      );
    }
    if (!name.startsWith('TROUPE_') || FREE.test(name)) continue;
    const near = nearest(own(name), OURS.map(own));
    throw new TroupeError(
      'config_invalid',
      `The environment has ${name}, which Troupe does not know.${didYouMean(OURS.find((known) => own(known) === near))}`,
      { field: name, hint: SETTINGS_HINT },
    );
  }
}

/** What a variable is called behind the name that all of ours begin with, by which each would be near to each. */
const own = (name: string): string => name.replace('TROUPE_', '').toLowerCase();

/** Whether one letter is missing, too many or another, or two neighbours stand the other way round. */
export function oneSlip(a: string, b: string): boolean {
  const shorter = Math.min(a.length, b.length);
  let head = 0;
  while (head < shorter && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < shorter - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  if (x === y) return false;
  return (x.length <= 1 && y.length <= 1) || (x.length === 2 && x === `${y[1]}${y[0]}`);
}
