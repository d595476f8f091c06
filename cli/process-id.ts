/** What a process is registered by. The machine is part of it: in containers the numbers of processes are the same everywhere. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';

/** What the ids of all processes of this role on this machine, or in this container, begin with. */
export const processesHere = (role: string): string => `${role}-${hostname()}-`;

export const processId = (role: string): string =>
  `${processesHere(role)}${process.pid}-${randomBytes(3).toString('hex')}`;
