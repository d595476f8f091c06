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
