/**
 * Which checkpoints of a folder are kept, and taking away the others. The choice is a pure function of what the folder
 * holds and a rule; every checkpoint comes out of it with a reason, so that a dry run shows what the real one does.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { removeWhole, sweepTemporary } from '../files/atomic.ts';
import { latestCheckpoint, listCheckpoints, readCheckpointManifest } from './checkpoint.ts';

export type PruneRule = {
  /** So many of the newest: those of the highest steps, of equal steps those saved last. */
  readonly keepLast: number;
  /** And every one whose step is a multiple of this, 0 included. */
  readonly keepEvery?: number;
  /** And the best by a metric of their lineage; of equals the newest. One without the metric is never the best. */
  readonly keepBest?: { readonly metric: string; readonly mode: 'max' | 'min'; readonly count?: number };
  /** And these, whatever they are: released ones, bases of others, what somebody asked for. */
  readonly protectedIds?: readonly string[];
};

/** What is known of a checkpoint without reading its weights. */
export type Candidate = {
  readonly id: string;
  /** Null where troupe.json cannot be read: of such a one nothing is known but its name. */
  readonly step: number | null;
  readonly savedAt: number;
  readonly metrics: Readonly<Record<string, number | null>>;
  readonly bytes: number;
  /** The weights that its adapter lies over; null where all of its weights were trained. */
  readonly base: string | null;
};

export type KeptCheckpoint = { readonly id: string; readonly why: readonly string[] };
type RemovedCheckpoint = { readonly id: string; readonly step: number | null; readonly bytes: number };

/**
 * The reasons to keep each checkpoint; none is a reason to remove it. Newest first. A damaged one is kept with that
 * reason: removing what nobody could look at is not a rule's business. The base of the adapter of a kept one is kept.
 * Throws `usage` for a rule that would keep nothing or is not one.
 */
export function chooseKept(
  candidates: readonly Candidate[],
  latest: string | null,
  rule: PruneRule,
): readonly KeptCheckpoint[] {
  checkRule(rule);
  const { keepLast, keepEvery, keepBest, protectedIds = [] } = rule;
  const newest = candidates.toSorted(
    (a, b) => (b.step ?? -1) - (a.step ?? -1) || b.savedAt - a.savedAt || (a.id < b.id ? 1 : -1),
  );
  const sound = newest.filter(({ step }) => step !== null);
  const last = new Set(sound.slice(0, keepLast).map(({ id }) => id));
  const best = new Set(keepBest ? bestOf(sound, keepBest) : []);
  const chosen = newest.map(({ id, step }) => {
    const why = [
      ...(id === latest ? ['latest'] : []),
      ...(protectedIds.includes(id) ? ['protected'] : []),
      ...(step === null ? ['cannot be read'] : []),
      ...(last.has(id) ? [`among the last ${keepLast}`] : []),
      ...(keepEvery !== undefined && step !== null && step % keepEvery === 0
        ? [`step ${step}, every ${keepEvery}`]
        : []),
      ...(best.has(id) ? [`best ${keepBest!.metric}`] : []),
    ];
    return { id, why };
  });
  const kept = newest.filter((_, i) => chosen[i]!.why.length > 0);
  return chosen.map(({ id, why }) => {
    const over = kept.filter(({ base }) => base === id);
    return over.length === 0 ? { id, why } : { id, why: [...why, `base of the adapter of ${over[0]!.id}`] };
  });
}

function bestOf(
  newest: readonly Candidate[],
  { metric, mode, count = 1 }: NonNullable<PruneRule['keepBest']>,
): readonly string[] {
  const measured = ({ metrics }: Candidate): number | null => {
    const value = Object.hasOwn(metrics, metric) ? metrics[metric] : null;
    return typeof value === 'number' && Number.isFinite(value) ? value : null;
  };
  const sign = mode === 'max' ? 1 : -1;
  return newest
    .filter((one) => measured(one) !== null)
    .toSorted((a, b) => sign * (measured(b)! - measured(a)!))
    .slice(0, count)
    .map(({ id }) => id);
}

function checkRule({ keepLast, keepEvery, keepBest }: PruneRule): void {
  const whole = (name: string, value: number | undefined, least: number): void => {
    if (value === undefined || (Number.isSafeInteger(value) && value >= least)) return;
    throw new TroupeError('usage', `${name} must be a whole number of at least ${least}, not ${value}.`);
  };
  whole('keepLast', keepLast, 1);
  whole('keepEvery', keepEvery, 1);
  whole('keepBest.count', keepBest?.count, 1);
  if (keepBest && keepBest.mode !== 'max' && keepBest.mode !== 'min') {
    throw new TroupeError('usage', `keepBest.mode must be max or min, not ${keepBest.mode}.`);
  }
}

/**
 * Removes the checkpoints of a folder that no part of the rule keeps. Each is renamed away in one step and then deleted:
 * who reads it meanwhile finds all of it or nothing, and what a crash leaves is swept by the next call. `latest` is looked
 * at again before and after each step, and a checkpoint it has come to name is put back.
 * With `dryRun` nothing is touched, and the answer is the same. Throws `usage` for the rule, before anything is touched.
 */
export async function pruneCheckpoints(
  folder: string,
  rule: PruneRule,
  { dryRun = false }: { readonly dryRun?: boolean } = {},
): Promise<{
  readonly kept: readonly KeptCheckpoint[];
  readonly removed: readonly RemovedCheckpoint[];
  /** What processes that died had left half written or half removed; taken away too. */
  readonly swept: readonly string[];
}> {
  const candidates = await Promise.all((await listCheckpoints(folder)).map((id) => candidateAt(folder, id)));
  const chosen = chooseKept(candidates, await latestId(folder), rule);
  const kept: KeptCheckpoint[] = chosen.filter(({ why }) => why.length > 0);
  const removed: RemovedCheckpoint[] = [];
  for (const { id } of chosen.filter(({ why }) => why.length === 0)) {
    if (!dryRun && !(await removeUnlessLatest(folder, id))) {
      kept.push({ id, why: ['latest'] });
      continue;
    }
    const { step, bytes } = candidates.find((one) => one.id === id)!;
    removed.push({ id, step, bytes });
  }
  return { kept, removed, swept: dryRun ? [] : await sweepTemporary(folder) };
}

async function removeUnlessLatest(folder: string, id: string): Promise<boolean> {
  if ((await latestId(folder)) === id) return false;
  if (!(await removeWhole(join(folder, id), { unless: async () => (await latestId(folder)) === id }))) return false;
  const adapter = join(folder, `${id}-adapter`);
  if ((await stat(adapter).catch(() => null)) !== null) await removeWhole(adapter);
  return true;
}

const latestId = async (folder: string): Promise<string | null> => (await latestCheckpoint(folder))?.slice(-16) ?? null;

async function candidateAt(folder: string, id: string): Promise<Candidate> {
  const dir = join(folder, id);
  const { mtimeMs } = await stat(dir).catch(() => ({ mtimeMs: 0 }));
  try {
    const { meta, files } = await readCheckpointManifest(dir);
    const bytes = Object.values(files).reduce((sum, file) => sum + file.bytes, 0);
    return { id, step: meta.step, savedAt: mtimeMs, metrics: meta.metrics, bytes, base: meta.adapter?.base ?? null };
  } catch {
    return { id, step: null, savedAt: mtimeMs, metrics: {}, bytes: 0, base: null };
  }
}
