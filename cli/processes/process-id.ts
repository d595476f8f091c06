/** What a process is registered by. The machine is part of it: in containers the numbers of processes are the same everywhere. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';

/** What the ids of all processes of this role on this machine, or in this container, begin with. */
export const processesHere = (role: string): string => `${role}-${hostname()}-`;

export const processId = (role: string): string =>
  `${processesHere(role)}${process.pid}-${randomBytes(3).toString('hex')}`;

/** Whether the process with this id ran on this machine, and is gone. False where that is not known. */
export function isGone(id: string, role: string): boolean {
  const here = processesHere(role);
  const [digits = ''] = id.startsWith(here) ? id.slice(here.length).split('-') : [];
  const pid = Number(digits);
  if (!/^\d+$/.test(digits)) return false;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}
