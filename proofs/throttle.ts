/** Gives processes a part of one processor: by a cgroup where this user may make one, otherwise by stopping them in turns. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const CGROUPS = '/sys/fs/cgroup';
const PERIOD_US = 100_000;
/** How long a process that is stopped in turns runs and stands together. */
const TURN_MS = 400;

/** Where the kernel takes a quota, by the version of cgroups, and how it is written. */
const QUOTAS = [
  { folder: CGROUPS, file: 'cpu.max', text: (us: number) => `${us} ${PERIOD_US}` },
  { folder: join(CGROUPS, 'cpu'), file: 'cpu.cfs_quota_us', text: String },
] as const;

/**
 * Holds these processes, and whatever they start, to `share` of one processor together until `release`.
 * @returns `by`, how it is done
 */
export function throttle(
  pids: readonly number[],
  share: number,
): { readonly by: string; readonly release: () => void } {
  for (const { folder, file, text } of QUOTAS) {
    // The kernel writes it into each folder of cgroups, and nobody else would.
    if (!existsSync(join(folder, 'cgroup.procs'))) continue;
    const group = join(folder, `troupe-proof-${process.pid}`);
    const move = (pid: number | string, to: string): void => writeFileSync(join(to, 'cgroup.procs'), String(pid));
    try {
      mkdirSync(group);
      writeFileSync(join(group, file), text(Math.round(share * PERIOD_US)));
      for (const pid of pids) move(pid, group);
    } catch {
      if (existsSync(group)) rmdirSync(group);
      continue; // Not for this user.
    }
    const release = () => {
      for (const pid of readFileSync(join(group, 'cgroup.procs'), 'utf8').trim().split('\n')) move(pid, folder);
      rmdirSync(group);
    };
    return { by: `${file} of a cgroup`, release };
  }
  const signal = (name: NodeJS.Signals): void => {
    for (const pid of pids)
      try {
        process.kill(pid, name);
      } catch {} // It has ended.
  };
  const turns = setInterval(() => {
    signal('SIGSTOP');
    setTimeout(() => signal('SIGCONT'), (1 - share) * TURN_MS);
  }, TURN_MS);
  const release = () => {
    clearInterval(turns);
    setTimeout(() => signal('SIGCONT'), TURN_MS);
  };
  return { by: 'SIGSTOP in turns', release };
}

/** These processes and all that they started. */
export function withChildren(pids: readonly number[]): number[] {
  const children = (pid: number): number[] => {
    try {
      return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
    } catch {
      return []; // It has ended.
    }
  };
  return pids.flatMap((pid) => [pid, ...withChildren(children(pid))]);
}
