/** What a run by hand begins with: the model, the rows, their order, and whether a step fits into memory. */
import { freemem } from 'node:os';
import { countText, TroupeError } from '../../../errors.ts';
import { requireAdapter } from '../../../trainer/learn/adapter-start.ts';
import { fileOrder, listedOrder, shuffledOrder, stepsFor } from '../../../trainer/learn/data/orders.ts';
import {
  type DataReader,
  holdOut,
  loadTrainingData,
  type TrainingData,
} from '../../../trainer/learn/data/training-data.ts';
import { checkTrainingMemory, countParameters, type MemoryOptions } from '../../../trainer/learn/memory.ts';
import { roleOrder } from '../../../trainer/learn/role-steps.ts';
import type { Settings } from '../../../trainer/learn/run-state.ts';
import { closeTrainable, type TrainableModel, trainable } from '../../../trainer/learn/step.ts';
import { adapterAsked } from '../../../trainer/loop/jobs/job-specs.ts';
import { ALL_LINEAR, adapterText } from '../../../trainer/model/lora.ts';
import { orderedBatches } from '../../../trainer/model/losses/ordered-batches.ts';
import { type OpenModel, openModelForIds } from '../../../trainer/model/model-directory.ts';
import { withScoreHead } from '../../../trainer/model/parameters.ts';
import { checkpointAt } from '../checkpoint-places.ts';
import type { ChangeContext } from '../operation.ts';
import type { OrderInput, TrainingInput } from './input.ts';

export type TrainingSetup<R> = Awaited<ReturnType<typeof prepared<R>>>;
/** Its rows are written apart from it, so that what only looks at the model takes any. */
export type ModelSetup = Omit<TrainingSetup<unknown>, 'data'> & { readonly data: TrainingData<unknown> };

/** Opens the model, with such a head, and reads the rows, including held-out ones, and says which were omitted. */
export async function prepared<R>(
  context: ChangeContext,
  input: TrainingInput,
  method: string,
  readerFor: (start: OpenModel, longest: number) => DataReader<R>,
  head: 'lm' | 'value' | 'reward' = 'lm',
) {
  const { home, say } = context;
  const { seed, eval: asked = null } = input;
  const start = withHead(await openModelForIds(checkpointAt(home, input.model)), head, { method, seed });
  const longest = Math.min(input.max_length ?? Infinity, start.config.max_position_embeddings);
  const reader = readerFor(start, longest);
  const read = async (name: string, split?: string) => {
    const places = { datasets: home.datasets, ...(split === undefined ? {} : { split }) };
    const data = await loadTrainingData(name, places, reader);
    sayOmitted(context, name, data, longest);
    return data;
  };
  const data = await read(input.data);
  const share = asked !== null && /^0?\.\d+$/.test(asked) ? Number(asked) : null;
  const parted = share === null ? null : holdOut(data.rows, share, { problem: reader.problem, seed });
  const split = data.dataset?.splits.find((name) => name === asked);
  const other =
    asked === null || share !== null ? null : await (split === undefined ? read(asked) : read(input.data, split));
  const adapter = adapterAsked(input.lora);
  if (adapter && requireAdapter(start, adapter))
    say(`Going on with the adapter of ${start.id}, which lies over ${start.meta.adapter!.base}.`);
  const settings: Settings = {
    method,
    model: start.id,
    data: data.sha256,
    eval: other ? (split ?? other.sha256) : asked,
    seed,
    lr: input.learning_rate ?? null,
    schedule: input.schedule,
    warmup: input.warmup,
    weight_decay: input.weight_decay,
    beta1: input.beta1,
    beta2: input.beta2,
    clip: input.clip,
    max_length: longest,
    evaluate_every: input.eval_every ?? 0,
    patience: input.patience ?? 0,
    // It changes the checkpoints, so a run that goes on needs it again; left out where it was never asked for.
    ...(input.onnx ? { onnx: true } : {}),
    lora: adapter && adapterText(adapter),
  };
  return {
    start,
    data,
    rows: parted?.rows ?? data.rows,
    heldOut: parted?.heldOut ?? other?.rows ?? [],
    settings,
    adapter,
  };
}

/** The model with the head that the method trains: its own, or a new one in place of the head of a language model. */
function withHead(
  start: OpenModel,
  head: 'lm' | 'value' | 'reward',
  { method, seed }: { readonly method: string; readonly seed: number },
): OpenModel {
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

/** Lines that were left out are said, so that nobody searches for them. */
function sayOmitted(
  { say }: ChangeContext,
  name: string,
  { rows, refused, cut, skipped }: TrainingData<unknown>,
  longest: number,
): void {
  for (const { line, field, expected, got } of refused.slice(0, MOST_SAID))
    say(`${name}:${line}: ${field || 'the row'} should be ${expected}, it is ${got}; the line is omitted.`);
  if (refused.length > MOST_SAID) say(`${name}: ${refused.length - MOST_SAID} more lines are omitted.`);
  const all = countText(rows.length + skipped, 'row');
  if (cut > 0) say(`${name}: ${cut} of ${all} cut at ${longest} tokens.`);
  if (skipped > 0) say(`${name}: ${skipped} of ${all} left out: nothing to learn within ${longest} tokens.`);
}

/**
 * In which order rows are taken, how many steps that makes, and how many rows the largest has.
 * @param roles the role of each row, where each step takes rows of one
 */
export function orderOf(
  { say }: Pick<ChangeContext, 'say'>,
  { steps, epochs, batch, shuffle, by_problem, seed }: OrderInput & Pick<TrainingInput, 'seed'>,
  problems: readonly string[],
  roles?: readonly string[],
) {
  if (steps !== undefined && epochs !== undefined)
    throw new TroupeError('usage', '--steps and --epochs exclude each other; pass one of them.', { field: 'steps' });
  const passes = epochs ?? 1;
  const counted = { batch, epochs: steps === undefined ? passes : null };
  if (roles !== undefined && !by_problem && shuffle) {
    const taken = roleOrder(roles, { ...(steps === undefined ? { epochs: passes } : { steps }), batch, seed });
    const each = Object.entries(taken.byRole).map(([role, count]) => `${role || 'no role'} ${count}`);
    if (each.length > 1) say(`Steps by role: ${each.join(', ')}.`);
    return { steps: taken.steps, order: taken.order, largest: batch, settings: { order: 'role', ...counted } };
  }
  if (typeof steps === 'object')
    throw new TroupeError(
      'usage',
      '--steps by role excludes --no-shuffle and --by-problem, which mix roles in a step.',
      { field: 'steps' },
    );
  if (by_problem) {
    const batches = orderedBatches.run({ rows: problems.map((problem, i) => ({ id: i, problem, seq: i })) }, {});
    const listed = batches.map((ids) => ids.map(Number));
    return {
      steps: steps ?? Math.ceil(listed.length * passes),
      order: listedOrder(listed),
      largest: Math.max(...listed.map((ids) => ids.length)),
      settings: { order: 'problem', batch: null },
    };
  }
  const rows = problems.length;
  const options = { batch, ...(steps === undefined ? { taken: Math.ceil(rows * passes) } : {}) };
  return {
    steps: steps ?? stepsFor(rows, batch, passes),
    order: shuffle ? shuffledOrder(rows, options, seed) : fileOrder(rows, options),
    largest: batch,
    settings: { order: shuffle ? 'shuffled' : 'file', ...counted },
  };
}

/**
 * Refuses a run whose largest step does not fit into memory: that of this machine, or `memory_limit`.
 * @param step what it takes, and the option that makes it smaller, with the number it has now
 */
export function requireMemory(
  { memory_check, memory_limit, recompute, onnx = false }: TrainingInput,
  { start, adapter }: Pick<ModelSetup, 'start' | 'adapter'>,
  {
    smaller,
    ...step
  }: Omit<MemoryOptions, 'adapter' | 'recompute'> & {
    readonly smaller?: { readonly flag: string; readonly now: number };
  },
): void {
  if (!memory_check) return;
  // The weights as they were opened are in memory already; where an adapter is gone on with, those of its base are not.
  const opened = 4 * countParameters(start.config);
  const free =
    (memory_limit ?? (process.availableMemory?.() ?? freemem()) + opened) -
    (adapter && start.meta.adapter ? opened : 0);
  const low = { r: 8, alpha: 16, targets: ALL_LINEAR };
  const sizes = smaller ? halves(smaller.now) : [];
  const remedies = [
    recompute ? [] : [{ say: '--recompute', change: { recompute: true } }],
    adapter ? [] : [{ say: '--lora r=8', change: { adapter: low } }],
    sizes.map((size) => ({
      say: `${smaller?.flag} ${size}`,
      change: { tokensPerStep: Math.ceil((step.tokensPerStep * size) / (smaller?.now ?? 1)) },
    })),
  ];
  checkTrainingMemory(start.config, { ...step, adapter, recompute, onnx }, { free, remedies });
}

/** The same of a run whose steps take so many rows. */
export function requireRowMemory<R>(
  input: TrainingInput,
  ready: Pick<ModelSetup, 'start' | 'adapter'> & { readonly rows: readonly R[] },
  { largest, settings }: Pick<ReturnType<typeof orderOf>, 'largest' | 'settings'>,
  { tokens, sharedPrompts = false }: { readonly tokens: (row: R) => number; readonly sharedPrompts?: boolean },
): void {
  const longest = ready.rows.reduce((most, row) => Math.max(most, tokens(row)), 0);
  // Nothing makes a step smaller that is all rows of a problem.
  const smaller = settings.batch === null ? {} : { smaller: { flag: '--batch', now: largest } };
  requireMemory(input, ready, { tokensPerStep: longest * largest, longest, sharedPrompts, ...smaller });
}

/** Half of a number, half of that, and so on to 1. */
const halves = (from: number): number[] => (from < 2 ? [] : [Math.floor(from / 2), ...halves(Math.floor(from / 2))]);

export const threadsOf = ({ settings }: Pick<ChangeContext, 'settings'>, { threads }: { readonly threads?: number }) =>
  threads ?? settings.threads ?? 1;

/** A model that only computes log-probabilities of rows: the reference, or the one the run starts from. */
export async function withReferenceModel<T>(
  context: ChangeContext,
  input: TrainingInput & { readonly reference?: string },
  { start }: Pick<ModelSetup, 'start'>,
  work: (model: TrainableModel) => Promise<T>,
): Promise<T> {
  const open =
    input.reference === undefined ? start : await openModelForIds(checkpointAt(context.home, input.reference));
  const model = trainable(open.config, open.weights, { threads: threadsOf(context, input) });
  try {
    return await work(model);
  } finally {
    await closeTrainable(model);
  }
}
