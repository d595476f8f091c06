/**
 * A run and the folder its checkpoints are saved in: where a run begins, or goes on where it was interrupted, and which checkpoints are
 * kept. A run that was killed at any moment and started again ends with the very checkpoint it would have ended with.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { hashId } from '../../../ingest/events/json.ts';
import { adapterStart } from '../../learn/adapter-start.ts';
import { adamState, closeLearner, type Learner, learnerOf, saveLearner } from '../../learn/learner.ts';
import {
  beginning,
  decodeMatrices,
  differences,
  encodeMatrices,
  isFinished,
  type Progress,
  type RunState,
  readRunState,
  runState,
  type Settings,
} from '../../learn/run-state.ts';
import { removeWhole, sweepTemporary } from '../files/atomic.ts';
import type { Adapter } from '../lora.ts';
import { type OpenModel, openModelForIds } from '../model-directory.ts';
import {
  latestCheckpoint,
  listCheckpoints,
  pointLatest,
  readCheckpointManifest,
  type SavedCheckpoint,
} from './checkpoint.ts';
import type { CheckpointMeta } from './checkpoint-format.ts';

export type RunOptions = {
  /** Folder of the run's checkpoints, one run after the other. */
  readonly folder: string;
  /** The model it begins with, opened. */
  readonly start: OpenModel;
  readonly settings: Settings;
  readonly steps: number;
  readonly seed: number;
  readonly threads: number;
  readonly adapter: Adapter | null;
  /** Layers are computed again for the gradient instead of kept; no setting, since the numbers are the same. */
  readonly recompute?: boolean;
  /** `resume`: a run of these settings that is finished is not done again. `restart`: one that is not is begun anew. */
  readonly mode: 'auto' | 'resume' | 'restart';
};

export type OpenRun = {
  readonly learner: Learner;
  /** Where it begins: step 0, or the last checkpoint of the same run. */
  readonly progress: Progress;
  readonly reference: RunState['reference'];
  readonly options: RunOptions;
};

/**
 * Begins a run, or goes on with the one that `latest` of the folder names when it is not finished.
 * @throws TroupeError `conflict` when that run has other settings, naming them, and as `adapterStart` does.
 */
export async function openRun(options: RunOptions): Promise<OpenRun> {
  const { folder, start, settings, adapter, seed, threads, recompute = false, mode } = options;
  await sweepTemporary(folder);
  const latest = mode === 'restart' ? null : await latestRun(folder);
  const before = latest?.state;
  const begun = adapter && (await adapterStart(start, adapter, { seed }));
  if (before && (!isFinished(before) || mode === 'resume')) {
    const other = differences(settings, before.settings);
    if (other.length > 0) throw otherRun(folder, before, other);
    const open = await openModelForIds(latest.dir, start);
    // The state was read before the hashes were compared; this one is what was saved.
    const state = readRunState(open.state) as RunState;
    const learner = learnerOf(open, {
      threads,
      recompute,
      start: begun && state.adapter ? { ...begun, weights: decodeMatrices(state.adapter) } : null,
      ...(open.optimizer ? { optimizer: adamState(open.optimizer) } : {}),
    });
    return { learner, progress: state.progress, reference: state.reference, options };
  }
  const learner = learnerOf(start, { threads, recompute, start: begun });
  return { learner, progress: beginning(), reference: null, options };
}

export const closeRun = ({ learner }: OpenRun): Promise<void> => closeLearner(learner);

export type SaveRun = {
  readonly meta: Pick<CheckpointMeta, 'datasets' | 'log_positions' | 'code_version'>;
  /** Checkpoints of this run that are kept beside the best one; the newest is always among them. */
  readonly keep: number;
  readonly reference: RunState['reference'];
  /** The model as ONNX Runtime takes it, in each checkpoint. */
  readonly onnx?: boolean;
};

/** Saves where the run is, points `latest` to it, and removes what is not kept. */
export async function saveRun(
  { learner, options }: OpenRun,
  progress: Progress,
  { meta, keep, reference, onnx = false }: SaveRun,
): Promise<SavedCheckpoint> {
  const { folder, settings, steps, start, seed } = options;
  const state = runState({
    settings,
    steps,
    progress,
    start: start.id,
    adapter: learner.model.adapter === null ? null : encodeMatrices(learner.model.trained),
    reference,
  });
  const plan = hashId(settings);
  const loss = progress.curves.loss.at(-1) ?? null;
  const held = progress.curves.heldOut.at(-1)?.loss;
  const saved = await saveLearner(
    learner,
    folder,
    { ...meta, plan_hash: plan, seed, metrics: { loss, ...(held === undefined ? {} : { held_out_loss: held }) } },
    { state, onnx, parent: start.id },
  );
  await pointLatest(folder, saved.id);
  await pruneRun(folder, { plan, keep, best: progress.best?.step ?? null, newest: saved.id });
  return saved;
}

/** Folder of this run's checkpoint at its best evaluation; null where it was not kept. */
export async function bestOf(folder: string, settings: Settings, progress: Progress): Promise<string | null> {
  const own = await checkpointsOf(folder, hashId(settings));
  return own.find(({ step }) => step === progress.best?.step)?.dir ?? null;
}

type KeptCheckpoint = { readonly dir: string; readonly id: string; readonly step: number };

/** Checkpoints of one plan, the oldest first, by the run's own steps. */
async function checkpointsOf(folder: string, plan: string): Promise<KeptCheckpoint[]> {
  const found: KeptCheckpoint[] = [];
  for (const id of await listCheckpoints(folder)) {
    const dir = join(folder, id);
    const manifest = await readCheckpointManifest(dir).catch(() => null);
    if (manifest?.meta.plan_hash !== plan) continue;
    const state = await stateIn(dir);
    if (state) found.push({ dir, id, step: state.progress.step });
  }
  return found.sort((a, b) => a.step - b.step || (a.id < b.id ? -1 : 1));
}

async function pruneRun(
  folder: string,
  {
    plan,
    keep,
    best,
    newest,
  }: { readonly plan: string; readonly keep: number; readonly best: number | null; readonly newest: string },
): Promise<void> {
  const own = (await checkpointsOf(folder, plan)).filter(({ id, step }) => id !== newest && step !== best);
  for (const { dir } of own.slice(0, Math.max(0, own.length - Math.max(0, keep - 1)))) {
    await removeWhole(dir);
  }
}

async function latestRun(folder: string): Promise<{ readonly dir: string; readonly state: RunState } | null> {
  const dir = await latestCheckpoint(folder);
  const state = dir === null ? null : await stateIn(dir);
  return dir === null || state === null ? null : { dir, state };
}

async function stateIn(dir: string): Promise<RunState | null> {
  try {
    return readRunState(JSON.parse(await readFile(join(dir, 'state.json'), 'utf8')));
  } catch {
    return null;
  }
}

function otherRun(folder: string, before: RunState, other: readonly string[]): TroupeError {
  const where = isFinished(before)
    ? `${folder} holds a finished run`
    : `${folder} holds a run that stopped after step ${before.progress.step} of ${before.steps}`;
  return new TroupeError('conflict', `${where}, with other settings: ${other.join('; ')}.`, {
    hint: 'Go on with the same settings, pass --restart to start over, or choose another --out.',
  });
}
