/** A benchmark's results as one JSON document and as a table for people, with the machine they were measured on. */
import { execFileSync } from 'node:child_process';
import { cpus, loadavg, totalmem } from 'node:os';
import { type Result, shortNumber } from './harness.ts';
import type { Summary } from './statistics.ts';

export type Machine = {
  readonly cores: number;
  readonly processor: string;
  readonly memory_gib: number;
  /** Load average of the last minute when the benchmark began: what others were doing. */
  readonly load: number;
  readonly platform: string;
  readonly node: string;
  /** Null outside a repository. */
  readonly commit: string | null;
  readonly date: string;
};

export type Report = { readonly name: string; readonly machine: Machine; readonly results: readonly Result[] };

export function thisMachine(): Machine {
  const git = (...args: string[]): string | null => {
    try {
      return execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8', stdio: 'pipe' }).trim();
    } catch {
      return null;
    }
  };
  const commit = git('rev-parse', '--short', 'HEAD');
  return {
    cores: cpus().length,
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    memory_gib: Math.round(totalmem() / 2 ** 30),
    load: Number(loadavg()[0]!.toFixed(2)),
    platform: `${process.platform}-${process.arch}`,
    node: process.version,
    commit: commit && git('status', '--porcelain') ? `${commit} and uncommitted changes` : commit,
    date: new Date().toISOString().slice(0, 10),
  };
}

/** What people read: the machine, a row for each case, and below what the numbers do not say. */
export function reportText({ name, machine, results }: Report): string {
  const { cores, processor, memory_gib, load, platform, node, commit, date } = machine;
  const where = `${cores} cores (${processor}), ${memory_gib} GiB, ${platform}, load ${load} before, Node ${node.slice(1)}`;
  const head = ['case', 'unit', 'ours', 'other', 'ratio', 'seconds', 'CPU-seconds'];
  const pair = (both: Result['seconds']) => `${cell(both.ours)} / ${cell(both.other)}`;
  const rows = results.map((result) => [
    result.case,
    result.ours?.unit ?? '–',
    spreadText(result.ours),
    spreadText(result.other),
    spreadText(result.ratio),
    pair(result.seconds),
    pair(result.cpu_seconds),
  ]);
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]!.length)));
  const line = (row: readonly string[]) =>
    row
      .map((text, i) => text.padEnd(widths[i]!))
      .join('  ')
      .trimEnd();
  return [
    `bench ${name}, ${date}, commit ${commit ?? 'unknown'}`,
    where,
    'median [smallest–largest] over rounds taken in turns; seconds and CPU-seconds of a round, ours / other',
    '',
    line(head),
    ...rows.map(line),
    '',
    ...results.flatMap(notes),
  ].join('\n');
}

function notes(result: Result): string[] {
  const { other, outputs, skipped, failed, more = {}, rounds, disturbed } = result;
  const facts = [
    ...(other ? [`against ${other.what}, ${rounds} rounds`] : []),
    ...(disturbed > 0
      ? [`DISTURBED by other programs in ${disturbed} of ${rounds} rounds: the ratio says little`]
      : []),
    ...(outputs && !failed ? [outputs] : []),
    ...(skipped ? [`skipped: ${skipped}`] : []),
    ...(failed ? [`FAILED: ${failed}`] : []),
    ...Object.entries(more).map(([name, value]) => `${name.replaceAll('_', ' ')}: ${shown(value)}`),
  ];
  return facts.map((fact, i) => `${i === 0 ? `${result.case}: ` : '  '}${fact}`);
}

function shown(value: unknown): string {
  if (typeof value === 'number') return shortNumber(value);
  if (Array.isArray(value)) return value.map(shown).join(' ');
  if (value === null || typeof value !== 'object') return String(value);
  return Object.entries(value)
    .map(([name, inner]) => `${name.replaceAll('_', ' ')} ${shown(inner)}`)
    .join(', ');
}

const cell = (value: number | null): string => (value === null ? '–' : shortNumber(value));
const spreadText = (value: Summary | null): string =>
  value === null
    ? '–'
    : `${shortNumber(value.median)} [${shortNumber(value.spread[0])}–${shortNumber(value.spread[1])}]`;

/** 1 when a comparison failed; what was skipped is no failure. */
export const exitCode = (results: readonly Result[]): number => (results.some(({ failed }) => failed) ? 1 : 0);
