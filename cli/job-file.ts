/** The definition of a schedule out of the flags of `troupe schedule add`. */
import { readFile } from 'node:fs/promises';
import { got, TroupeError, unreadable } from '../errors.ts';
import { isRecord } from '../ingest/events/json.ts';
import type { ScheduleDefinition } from '../store/queue/schedules/definition.ts';
import type { DriftOf } from '../store/queue/schedules/drift.ts';
import type { Flags } from './command.ts';
import { secondsOf } from './durations.ts';
import { say } from './output.ts';
import { setIn } from './plan-values.ts';

/** What the flags ask for, not yet checked as a definition. @throws TroupeError `usage` naming the flag or the file */
export async function definitionOf(flags: Flags): Promise<unknown> {
  const { requireJob } = await import('../trainer/loop/jobs/checked-job.ts');
  if ((flags.plan === undefined) === (flags.job === undefined))
    throw new TroupeError('usage', 'Missing --plan FILE or --job FILE; give exactly one.');
  if (flags.plan === undefined && setIn(flags).set !== undefined)
    throw new TroupeError('usage', '--set sets values of a plan, so it needs --plan FILE; --job FILE has its own.');
  const job = flags.plan === undefined ? await jobIn(String(flags.job)) : await planJob(String(flags.plan), flags);
  requireJob(job);
  return {
    ...(flags.cron === undefined ? {} : { cron: String(flags.cron) }),
    ...(flags.every === undefined ? {} : { every_seconds: intervalOf(String(flags.every)) }),
    zone: String(flags.zone),
    job,
    overlap: String(flags.overlap),
    catch_up_seconds: secondsOf('catch-up', String(flags.catchUp)),
    jitter_seconds: secondsOf('jitter', String(flags.jitter)),
    pause_after: {
      failed: flags.pauseAfterFailed,
      refused: flags.pauseAfterRefused,
      rolled_back: flags.pauseAfterRolledBack,
      over_budget: flags.pauseAfterOverBudget,
    },
    ...(Object.keys(flags.budgetPerDay as object).length === 0 ? {} : { budget_per_day: flags.budgetPerDay }),
    ...(flags.when === undefined ? {} : { when: conditionOf(String(flags.when)) }),
    ...(flags.hours === undefined ? {} : { hours: hoursOf(String(flags.hours)) }),
  };
}

function intervalOf(text: string): number {
  const seconds = secondsOf('every', text);
  if (seconds < 60) throw new TroupeError('usage', `--every should be at least 1m, but it is ${got(text)}.`);
  return seconds;
}

async function planJob(file: string, flags: Flags): Promise<{ kind: string; spec: Record<string, unknown> }> {
  const { planOf } = await import('./commands/plan.ts');
  return { kind: 'plan', spec: { plan: await planOf(file, setIn(flags)), ...setIn(flags) } };
}

async function jobIn(file: string): Promise<{ kind: string; spec: Record<string, unknown> }> {
  const { parseYaml } = await import('../ingest/files/parse-yaml.ts');
  const text = await readFile(file, 'utf8').catch((cause) => {
    throw unreadable(`The job ${file}`, cause);
  });
  let written: unknown;
  try {
    written = parseYaml(text);
  } catch (cause) {
    const [why] = (cause as Error).message.split('\n', 1);
    throw new TroupeError('usage', `The job ${file} is neither YAML nor JSON: ${why}`, { cause });
  }
  if (!isRecord(written) || typeof written.kind !== 'string' || !isRecord(written.spec))
    throw new TroupeError('usage', `${file} should hold \`kind\` and \`spec\` of a job, but it holds ${got(written)}.`);
  const beside = Object.keys(written).filter((key) => key !== 'kind' && key !== 'spec');
  if (beside.length > 0) say(`${file}: ${beside.join(', ')} beside kind and spec has no effect.`);
  return { kind: written.kind, spec: written.spec };
}

function hoursOf(text: string): { from: string; to: string } {
  const [, from, to] = /^((?:[01]\d|2[0-3]):[0-5]\d)-((?:[01]\d|2[0-3]):[0-5]\d)$/.exec(text) ?? [];
  if (from === undefined || to === undefined)
    throw new TroupeError('usage', `--hours should be a range such as 22:00-06:00, but it is ${got(text)}.`);
  return { from, to };
}

function conditionOf(text: string): NonNullable<ScheduleDefinition['when']> {
  const [, count] = /^\s*new[ _]episodes\s*>=\s*([1-9]\d{0,8})\s*$/.exec(text) ?? [];
  if (count !== undefined) return { new_episodes: Number(count) };
  const [, metric, by] = /^\s*(reward|success)\s+fell\s+(?:by\s+)?(\d*\.?\d+)\s*$/.exec(text) ?? [];
  const [, of, byRole, above] =
    /^\s*drift\s+of\s+(families|roles|tools|tokens)(\s+by\s+role)?\s*>\s*(\d*\.?\d+)\s*$/.exec(text) ?? [];
  if (of !== undefined && above !== undefined)
    return { drift: { of: of as DriftOf, ...(byRole === undefined ? {} : { by_role: true }), above: Number(above) } };
  if (metric === undefined || by === undefined)
    throw new TroupeError(
      'usage',
      `--when should be such as "new episodes >= 500", "reward fell 0.05" or "drift of tokens by role > 0.2" (families, roles, tools or tokens), but it is ${got(text)}.`,
    );
  return { fell: { metric: metric as 'reward' | 'success', by: Number(by) } };
}
