/** The file of a version of a team. */

import { readFileSync } from 'node:fs';
import { TroupeError } from '../errors.ts';
import { parseYaml } from '../ingest/parse-yaml.ts';

/** What it holds, YAML or JSON. @throws TroupeError `not_found`, `plan_invalid` */
export function readTeamFile(file: string): unknown {
  let written: string;
  try {
    written = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new TroupeError('not_found', `The team version ${file} cannot be read: ${(cause as Error).message}.`, {
      cause,
    });
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
