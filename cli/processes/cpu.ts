/** Processor time of a whole family of processes, from /proc; null where there is none (other systems than Linux). */
import { readdirSync, readFileSync } from 'node:fs';
import type { Db } from '../../store/db/pool.ts';
import { scalarOf, sql } from '../../store/db/query.ts';

type Stat = { readonly pid: number; readonly parent: number; readonly seconds: number };

/** Ticks of /proc/PID/stat; 100 a second on every Linux that Node runs on. */
const TICKS = 100;

/** Seconds used so far by this process, the database server, and all their living and ended children. */
export async function familySeconds(db: Db): Promise<number | null> {
  const backend = await scalarOf(db, sql<number>`pg_backend_pid()`);
  const stats = readStats();
  if (stats === null) return null;
  const postmaster = stats.get(backend)?.parent;
  const roots = [process.pid, ...(postmaster === undefined ? [] : [postmaster])];
  return [...stats.values()]
    .filter(({ pid }) => descends(stats, pid, roots))
    .reduce((sum, { seconds }) => sum + seconds, 0);
}

function descends(stats: ReadonlyMap<number, Stat>, pid: number, roots: readonly number[]): boolean {
  for (let at: number | undefined = pid; at !== undefined && at > 1; at = stats.get(at)?.parent)
    if (roots.includes(at)) return true;
  return false;
}

function readStats(): Map<number, Stat> | null {
  let names: string[];
  try {
    names = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return null;
  }
  const stats = new Map<number, Stat>();
  for (const name of names) {
    try {
      const text = readFileSync(`/proc/${name}/stat`, 'utf8');
      const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
      const ticks = [11, 12, 13, 14].reduce((sum, i) => sum + Number(fields[i]), 0);
      stats.set(Number(name), { pid: Number(name), parent: Number(fields[1]), seconds: ticks / TICKS });
    } catch {
      // It ended while we looked.
    }
  }
  return stats;
}
