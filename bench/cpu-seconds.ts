/** Processor time of programs that are measured from outside. */
import { readdirSync, readFileSync } from 'node:fs';

/** Ticks in which Linux counts processor time. */
const TICKS_A_SECOND = 100;

/** Seconds of a process and of all that descend from it, also of those that have ended. 0 where there is no /proc. */
export function cpuSecondsOf(root: number): number {
  let stats: Map<number, Stat>;
  try {
    stats = new Map(readdirSync('/proc').flatMap((entry) => (/^\d+$/.test(entry) ? statOf(entry) : [])));
  } catch {
    return 0;
  }
  const isOurs = (pid: number): boolean => {
    for (let at = pid; at > 1; at = stats.get(at)?.parent ?? 0) if (at === root) return true;
    return false;
  };
  let ticks = 0;
  for (const [pid, stat] of stats) if (isOurs(pid)) ticks += stat.ticks;
  return ticks / TICKS_A_SECOND;
}

/** Seconds until now of every process, by what `nameOf` makes of its command line; those that it calls null are left out. */
export function cpuSecondsByName(nameOf: (command: string) => string | null): Record<string, number> {
  const seconds: Record<string, number> = {};
  for (const pid of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    const [found] = statOf(pid);
    const name = found && nameOf(commandOf(pid));
    if (name) seconds[name] = (seconds[name] ?? 0) + found[1].ticks / TICKS_A_SECOND;
  }
  return seconds;
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

/** Ticks of the process and of its children that have ended. */
type Stat = { readonly parent: number; readonly ticks: number };

/** Fields 4 and 14 to 17 of /proc/PID/stat; the name before them may hold anything. Empty where the process has gone. */
function statOf(pid: string): [[number, Stat]] | [] {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return [];
  }
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const ticks = fields[11]! + fields[12]! + fields[13]! + fields[14]!;
  return [[Number(pid), { parent: fields[1]!, ticks }]];
}
