/** The file of a version of a team. */

import { readFileSync } from 'node:fs';
import { TroupeError, unreadable } from '../errors.ts';
import { parseYaml } from '../ingest/files/parse-yaml.ts';

/** What it holds, YAML or JSON. @throws TroupeError `not_found`, `plan_invalid` */
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
