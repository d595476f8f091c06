/** A side of ours as a process that answers questions: one JSON line in, one JSON line out, until its input ends. */
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Timed } from '../worker.ts';

/** Answers each `{"do": name, …}` by the handler of that name, one after the other. */
export async function serve(handlers: Readonly<Record<string, (question: never) => unknown>>): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    const question = JSON.parse(line);
    let answer: unknown;
    try {
      answer = await handlers[question.do]!(question as never);
    } catch (error) {
      answer = { error: (error as Error).message };
    }
    process.stdout.write(`${JSON.stringify(answer ?? {})}\n`);
  }
}

/** What the work returns, and its wall and processor seconds (all threads of this process). */
export async function timed<Result>(work: () => Promise<Result>): Promise<readonly [Result, Timed]> {
  const cpu = process.cpuUsage();
  const began = performance.now();
  const result = await work();
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return [result, { seconds, cpu_seconds: (user + system) / 1e6 }];
}

/** Bytes of physical memory of this process, from the kernel: now (VmRSS) or at most (VmHWM). Null where there is no /proc. */
export function memory(field: 'VmRSS' | 'VmHWM'): number | null {
  try {
    const kilobytes = new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync('/proc/self/status', 'utf8'));
    return kilobytes ? Number(kilobytes[1]) * 1024 : null;
  } catch {
    return null;
  }
}
