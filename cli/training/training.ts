/**
 * A run by hand, from flags to a document: what the commands of `train` share. The model is opened, the rows are read,
 * the run is started or resumed, monitored, saved, and reported.
 */
import { freemem } from 'node:os';
import { basename } from 'node:path';
import { recordCheckpoint } from '../../api/operations/checkpoints/record.ts';
import { type Config, loadConfig } from '../../config.ts';
import { countText, EXIT, TroupeError } from '../../errors.ts';
import { homeAt } from '../../store/server/home.ts';
import { requireAdapter } from '../../trainer/learn/adapter-start.ts';
import {
  type DataReader,
  holdOut,
  loadTrainingData,
  type TrainingData,
} from '../../trainer/learn/data/training-data.ts';
import { publishAdapter } from '../../trainer/learn/learner.ts';
import { checkTrainingMemory, countParameters, type MemoryOptions, type Remedy } from '../../trainer/learn/memory.ts';
import type { Numbers } from '../../trainer/learn/numbers.ts';
import type { Progress, RunState, Settings } from '../../trainer/learn/run-state.ts';
import type { ScheduleName } from '../../trainer/learn/schedules.ts';
import { closeTrainable, type TrainableModel, trainable } from '../../trainer/learn/step.ts';
import type { Watch } from '../../trainer/learn/training-loop.ts';
import { latestCheckpoint } from '../../trainer/model/checkpoints/checkpoint.ts';
import { bestOf, closeRun, type OpenRun, openRun, saveRun } from '../../trainer/model/checkpoints/run-folder.ts';
import { type Adapter, ALL_LINEAR, adapterText } from '../../trainer/model/lora.ts';
import { type OpenModel, openModelForIds } from '../../trainer/model/model-directory.ts';
import { withScoreHead } from '../../trainer/model/parameters.ts';
import { runOutput } from '../checkpoint-places.ts';
import { type Flags, untilInterrupted } from '../command.ts';
import { withContext } from '../context.ts';
import { progressBar, say } from '../output.ts';
import { VERSION } from '../version.ts';
import { noteOf, printResult, speedometer, writeReport } from './training-summary.ts';

/** The value of --lora; no targets: every linear map of a layer. */
export type LoraFlag = { readonly r: number; readonly alpha: number; readonly targets: readonly string[] | null };

const adapterOf = ({ targets, ...rest }: LoraFlag): Adapter => ({ ...rest, targets: targets ?? ALL_LINEAR });

/** What is trained on top of the layers: a language model's distribution, or one number a token. */
export type Head = 'lm' | 'value' | 'reward';

export type TrainingSetup<R> = {
  readonly config: Config;
  readonly start: OpenModel;
  readonly data: TrainingData<R>;
  readonly rows: readonly R[];
  readonly heldOut: readonly R[];
  /** What decides the run, so far as it is the same for every method. */
  readonly settings: Settings;
  readonly adapter: Adapter | null;
  readonly longest: number;
};

/** Opens the model, with such a head, and reads the rows, including held-out ones, and reports which were omitted. */
export async function prepared<R>(
  flags: Flags,
  method: string,
  readerFor: (start: OpenModel, longest: number) => DataReader<R>,
  head: Head = 'lm',
): Promise<TrainingSetup<R>> {
  const config = loadConfig(flags, process.env);
  const { datasets } = homeAt(config.home);
  const start = withHead(await openModelForIds(String(flags.model)), head, { method, seed: Number(flags.seed) });
  const longest = Math.min(Number(flags.maxLength ?? Infinity), start.config.max_position_embeddings);
  const reader = readerFor(start, longest);
  const seed = Number(flags.seed);
  const data = await loadTrainingData(String(flags.data), { datasets }, reader);
  noteOmitted(String(flags.data), data, longest);
  const asked = flags.eval === undefined ? null : String(flags.eval);
  const share = asked !== null && /^0?\.\d+$/.test(asked) ? Number(asked) : null;
  const parted = share === null ? null : holdOut(data.rows, share, { problem: reader.problem, seed });
  const split = data.dataset?.splits.find((name) => name === asked);
  const other =
    asked === null || share !== null
      ? null
      : await loadTrainingData(
          split === undefined ? asked : String(flags.data),
          { datasets, ...(split === undefined ? {} : { split }) },
          reader,
        );
  if (other && asked !== null) noteOmitted(asked, other, longest);
  const adapter = flags.lora === undefined ? null : adapterOf(flags.lora as LoraFlag);
  if (adapter && requireAdapter(start, adapter))
    say(`Going on with the adapter of ${start.id}, which lies over ${start.meta.adapter!.base}.`);
  const numbers = numbersOf(flags);
  const settings: Settings = {
    method,
    model: start.id,
    data: data.sha256,
    eval: other ? (split ?? other.sha256) : asked,
    seed,
    lr: numbers.learning_rate ?? null,
    schedule: numbers.schedule ?? null,
    warmup: numbers.warmup ?? null,
    weight_decay: numbers.weight_decay ?? null,
    beta1: numbers.beta1 ?? null,
    beta2: numbers.beta2 ?? null,
    clip: numbers.clip ?? null,
    max_length: longest,
    evaluate_every: Number(flags.evalEvery ?? 0),
    patience: Number(flags.patience ?? 0),
    // It changes the checkpoints, so a run that goes on needs it again; left out where it was never asked for.
    ...(flags.onnx === true ? { onnx: true } : {}),
    lora: adapter && adapterText(adapter),
  };
  return {
    config,
    start,
    data,
    rows: parted?.rows ?? data.rows,
    heldOut: parted?.heldOut ?? other?.rows ?? [],
    settings,
    adapter,
    longest,
  };
}

/** The model with the head that the method trains: its own, or a new one in place of the head of a language model. */
function withHead(start: OpenModel, head: Head, { method, seed }: { method: string; seed: number }): OpenModel {
  const { head: own = 'lm' } = start.config;
  if (own === head) return start;
  if (own === 'lm' && head !== 'lm') {
    // A value that begins at 0 is the mean of rewards around 0; two equal scores would give a reward head no direction.
    return { ...start, ...withScoreHead(start.config, start.weights, head, head === 'reward' ? { seed } : {}) };
  }
  const takes = head === 'lm' ? 'a language model' : `a language model or one with a ${head} head`;
  throw new TroupeError('model_unsupported', `train ${method} begins with ${takes}; this one has a ${own} head.`);
}

const MOST_SAID = 5;

/** Lines that were left out are reported, so that nobody searches for them. */
function noteOmitted(name: string, { rows, refused, cut, skipped }: TrainingData<unknown>, longest: number): void {
  for (const { line, field, expected, got } of refused.slice(0, MOST_SAID)) {
    say(`${name}:${line}: ${field || 'the row'} should be ${expected}, it is ${got}; the line is omitted.`);
  }
  if (refused.length > MOST_SAID) say(`${name}: ${refused.length - MOST_SAID} more lines are omitted.`);
  const all = rows.length + skipped;
  if (cut > 0) say(`${name}: ${cut} of ${countText(all, 'row')} cut at ${longest} tokens.`);
  if (skipped > 0)
    say(`${name}: ${skipped} of ${countText(all, 'row')} left out: nothing to learn within ${longest} tokens.`);
}

/** The numbers that every method has, as a plan would have them. */
export const numbersOf = (flags: Flags) =>
  ({
    learning_rate: flags.lr as number | undefined,
    schedule: flags.schedule as ScheduleName,
    warmup: Number(flags.warmup),
    beta1: Number(flags.beta1),
    beta2: Number(flags.beta2),
    weight_decay: Number(flags.weightDecay),
    clip: Number(flags.clip),
  }) satisfies Numbers;

/** What a step takes, and the flag that makes it smaller, with the number it has now. */
export type StepSize = Omit<MemoryOptions, 'adapter' | 'recompute'> & {
  readonly smaller?: { readonly flag: string; readonly now: number };
};

/** Refuses a run that does not fit into memory: that of this machine, or --memory-limit. */
export function requireMemory(
  flags: Flags,
  { start, adapter }: TrainingSetup<unknown>,
  { smaller, ...step }: StepSize,
): void {
  if (flags.memoryCheck === false) return;
  const recompute = flags.recompute === true;
  // The weights as they were opened are in memory already; where an adapter is gone on with, those of its base are not.
  const opened = 4 * countParameters(start.config);
  const free =
    Number(flags.memoryLimit ?? (process.availableMemory?.() ?? freemem()) + opened) -
    (adapter && start.meta.adapter ? opened : 0);
  const low: Adapter = { r: 8, alpha: 16, targets: ALL_LINEAR };
  const sizes = smaller ? halves(smaller.now) : [];
  const remedies: Remedy[][] = [
    recompute ? [] : [{ say: '--recompute', change: { recompute: true } }],
    adapter ? [] : [{ say: '--lora r=8', change: { adapter: low } }],
    sizes.map((size) => ({
      say: `${smaller?.flag} ${size}`,
      change: { tokensPerStep: Math.ceil((step.tokensPerStep * size) / (smaller?.now ?? 1)) },
    })),
  ];
  checkTrainingMemory(start.config, { ...step, adapter, recompute, onnx: flags.onnx === true }, { free, remedies });
}

/** Half of a number, half of that, and so on to 1. */
const halves = (from: number): number[] => (from < 2 ? [] : [Math.floor(from / 2), ...halves(Math.floor(from / 2))]);

/** A model that only computes log-probabilities of rows: the one of --reference, or the one the run starts from. */
export async function withReferenceModel<T>(
  flags: Flags,
  { start, config }: TrainingSetup<unknown>,
  work: (model: TrainableModel) => Promise<T>,
): Promise<T> {
  const open = flags.reference === undefined ? start : await openModelForIds(String(flags.reference));
  const model = trainable(open.config, open.weights, { threads: config.threads });
  try {
    return await work(model);
  } finally {
    await closeTrainable(model);
  }
}

export type TrainingOutcome = {
  readonly progress: Progress;
  /** What the method adds to the document. */
  readonly more?: Readonly<Record<string, unknown>>;
};

/**
 * Trains and reports: a progress bar on standard error, the result on standard output. `reference` is computed once for a run, before its first
 * step, and kept with it.
 */
export async function runTraining(
  flags: Flags,
  prepared: TrainingSetup<unknown>,
  settings: Settings,
  steps: number,
  {
    reference: scores = async () => null,
    train,
  }: {
    readonly reference?: () => Promise<RunState['reference']>;
    readonly train: (run: OpenRun, watch: Watch, reference: RunState['reference']) => Promise<TrainingOutcome>;
  },
): Promise<number> {
  const { config, start, data, adapter } = prepared;
  const policy = flags.policy === undefined ? null : String(flags.policy);
  // A project that cannot be opened must not cost the training.
  if (policy !== null) await withContext(flags, async () => {});
  const out = await runOutput(flags);
  const { folder } = out;
  const all = { ...prepared.settings, ...settings, steps };
  const run = await openRun({
    folder,
    start,
    settings: all,
    steps,
    seed: Number(flags.seed),
    threads: config.threads,
    adapter,
    recompute: flags.recompute === true,
    mode: flags.restart === true ? 'restart' : flags.resume === true ? 'resume' : 'auto',
  });
  const from = run.progress.step;
  if (from > 0)
    say(from >= steps || run.progress.stopped ? 'This run is finished.' : `Going on after step ${from} of ${steps}.`);
  const reference = run.reference ?? (await scores());
  const meta = {
    datasets: [data.sha256],
    log_positions: data.dataset?.manifest.positions['facts/embedded'] ?? {},
    code_version: VERSION,
  };
  const keep = Number(flags.keep ?? 1);
  const bar = progressBar('Training', flags);
  const meter = speedometer();
  const signal = untilInterrupted();
  let saved: { readonly id: string; readonly dir: string } | null = null;
  let heldOut = run.progress.curves.heldOut.at(-1)?.loss ?? null;
  try {
    const { progress, more } = await train(
      run,
      {
        accuracy: flags.accuracy === true,
        evaluateEvery: Number(flags.evalEvery ?? 0),
        patience: Number(flags.patience ?? 0),
        checkpointEvery: Number(flags.checkpointEvery ?? 0),
        signal,
        save: async (at) => {
          saved = await saveRun(run, at, { meta, keep, reference, onnx: flags.onnx === true });
          await out.put(saved);
        },
        onStep: (done) => {
          meter.add(done);
          heldOut = done.heldOut ?? heldOut;
          bar.update(done.step, steps, noteOf(done, heldOut, meter.rates().tokens));
        },
      },
      reference,
    );
    bar.stop();
    // A run that was finished before is reported again, without a step.
    const at = saved ?? (await finishedAt(folder));
    await out.finish(at.id);
    if (policy !== null) await withContext(flags, (context) => recordCheckpoint(context, at.dir, policy));
    const report = await writeReport(flags, folder, { settings: all, progress, rates: meter.curve() });
    const adapterDir = await publishAdapter(run.learner, folder);
    const best = progress.best && {
      ...progress.best,
      directory: await bestOf(folder, all, progress),
    };
    printResult(flags, {
      checkpoint: at,
      progress,
      from,
      best,
      report,
      data,
      rates: meter.rates(),
      more: {
        answer_form: start.template?.answerForm ?? null,
        ...(policy === null ? {} : { policy }),
        ...(out.address ? { stored_at: out.address } : {}),
        ...(adapterDir ? { adapter: adapterDir } : {}),
        ...more,
      },
    });
    return data.refused.length > 0 ? EXIT.refused : EXIT.done;
  } catch (error) {
    bar.stop();
    if (!(error instanceof TroupeError) || error.code !== 'interrupted') throw error;
    throw new TroupeError('interrupted', `${error.message} The progress is saved in ${folder}.`, {
      hint: 'Rerun the command to go on.',
    });
  } finally {
    await closeRun(run);
  }
}

async function finishedAt(folder: string): Promise<{ readonly id: string; readonly dir: string }> {
  const dir = (await latestCheckpoint(folder)) ?? folder;
  return { id: basename(dir), dir };
}
