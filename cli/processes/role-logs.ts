/** What the roles that a command starts write, kept in files: `run/serve.log` of the home, `run/serve-PROJECT.log` of another project. */
import { join } from 'node:path';
import { DEFAULT_PROJECT } from '../../store/db/database.ts';
import { troubleReporter } from '../output.ts';
import { type RotatedFile, rotatedFile } from './rotated-file.ts';

/** Takes each line that a process of the role wrote. */
export type RoleLogs = (role: string, line: string) => void;

/** With the four files that are kept beside the one that is written, 50 MiB for each role. */
const FILE = { maxBytes: 10 * 1024 * 1024, keep: 4 };

/** One file for each role, whatever runs in it; every line of it is a JSON object. */
export function roleLogs(folder: string, project: string): RoleLogs {
  const files = new Map<string, RotatedFile>();
  const onTrouble = troubleReporter('A log');
  return (role, line) => {
    let file = files.get(role);
    if (file === undefined) {
      file = rotatedFile(logFile(folder, role, project), { ...FILE, onTrouble });
      files.set(role, file);
    }
    file.write(isObject(line) ? line : asObject(role, line));
  };
}

/** Where the log of a role is. */
const logFile = (folder: string, role: string, project: string): string =>
  join(folder, project === DEFAULT_PROJECT ? `${role}.log` : `${role}-${project}.log`);

/** What no logger wrote: the words of Node or of a library before the process ended. */
const asObject = (role: string, line: string): string =>
  JSON.stringify({ level: 'error', time: new Date().toISOString(), role, msg: line });

function isObject(line: string): boolean {
  if (!line.startsWith('{')) return false;
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}
