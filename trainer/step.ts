/**
 * One training step: gradients of a batch by the graph, then the optimizer in place. A model under training is its weights,
 * its optimizer state and one compiled graph for each loss it was trained with.
 */
import { TroupeError } from '../errors.ts';
import { type Batch, makeBatch, partition, perCompletion, type Row } from './batch.ts';
import { type Feed, type Feeds, openSession, type Session } from './graph/session.ts';
import type { Loss } from './losses/loss.ts';
import { trainingGraph } from './models/graphs.ts';
import { checkWeights, parameterShapes } from './models/llama.ts';
import { type RotaryTable, rotaryTable } from './models/positions.ts';
import { type AdamOptions, type AdamState, adamUpdate, initAdam } from './optimizer.ts';
import type { ModelConfig, Weights } from './weights.ts';

export type TrainableModel = {
  readonly config: ModelConfig;
  /** Updated in place by `trainStep`. */
  readonly weights: Weights;
  readonly threads: number;
  /** Replaced by each step; set it to resume from a checkpoint, or to `initAdam(weights)` to start afresh. */
  optimizer: AdamState;
  readonly rotary: RotaryTable;
  readonly gradients: ReadonlyMap<string, Float32Array>;
  /** Buffers for the parts of a batch after its first; made when a batch first has more than one. */
  readonly partGradients: Map<string, Float32Array>;
  readonly sessions: Map<string, Promise<Session>>;
};

export type StepOptions = AdamOptions & { readonly loss: Loss };

export type StepResult = {
  readonly loss: number;
  /** Before clipping. */
  readonly gradientNorm: number;
  /** Of each token of each completion of each row, under the weights before the update. */
  readonly logprobs: readonly (readonly (readonly number[])[])[];
  /** Mean entropy in nats over tokens with an entropy weight or a weight; null where the loss does not compute it. */
  readonly entropy: number | null;
  /** Share of the tokens with a weight whose gradient was clipped away; null where the loss clips nothing. */
  readonly clipShare: number | null;
  /** Completion tokens in the batch, padding not counted. */
  readonly tokens: number;
};

/**
 * A model that can be trained. The weights are used as they are, not copied.
 * @throws TroupeError `model_unsupported` when a parameter is missing or has another shape than the configuration says.
 */
export function trainable(
  config: ModelConfig,
  weights: Weights,
  { threads = 1, optimizer }: { readonly threads?: number; readonly optimizer?: AdamState } = {},
): TrainableModel {
  checkWeights(config, weights);
  return {
    config,
    weights,
    threads,
    optimizer: optimizer ?? initAdam(weights),
    rotary: rotaryTable(config),
    gradients: new Map(parameterShapes(config).map(([name]) => [name, new Float32Array(sizeOf(weights, name))])),
    partGradients: new Map(),
    sessions: new Map(),
  };
}

/** Releases the compiled graphs. */
export async function closeTrainable(model: TrainableModel): Promise<void> {
  for (const session of model.sessions.values()) await (await session).close();
  model.sessions.clear();
}

/** The parameters as feeds by their names. */
export function parameterFeeds(config: ModelConfig, weights: Weights): Feeds {
  return Object.fromEntries(parameterShapes(config).map(([name]) => [name, weights.get(name) as Feed]));
}

/**
 * Tokens computed at once; it bounds memory, whatever the size of the batch. Measured at width 128: parts of 4,096 tokens
 * take 5 % less CPU time than one of 8,192, whose activations leave the processor's cache, and parts of 512 take 10 % more.
 */
const TOKENS_AT_ONCE = 4096;

/**
 * Computes the loss of the rows and its gradients, clips them and updates the weights in place.
 * @throws TroupeError `training_failed` for rows that cannot be trained on, and when the loss is not finite; the weights are
 * then as they were.
 */
export async function trainStep(
  model: TrainableModel,
  rows: readonly Row[],
  options: StepOptions,
): Promise<StepResult> {
  const outcome = await lossAndGradients(model, rows, options.loss);
  if (!Number.isFinite(outcome.loss)) {
    throw new TroupeError(
      'training_failed',
      `the loss became ${outcome.loss} at update ${model.optimizer.step + 1}; lower the learning rate (it is ${options.learningRate})`,
    );
  }
  const { state, gradientNorm } = adamUpdate(model.weights, model.gradients, model.optimizer, options);
  model.optimizer = state;
  return { ...outcome, gradientNorm };
}

/**
 * Loss and gradients without an update; the gradients are left in `model.gradients`. Rows are computed in parts of like
 * lengths and summed, which a loss that is a sum allows.
 * @throws TroupeError `training_failed` for rows that cannot be trained on.
 */
export async function lossAndGradients(
  model: TrainableModel,
  rows: readonly Row[],
  loss: Loss,
): Promise<Omit<StepResult, 'gradientNorm'>> {
  if (rows.length === 0) throw new TroupeError('training_failed', 'a training step needs at least one row, got none');
  checkIds(rows, model.config.vocab_size);
  const session = await sessionFor(model, loss);
  const logprobs: (readonly (readonly number[])[])[] = rows.map(() => []);
  const entropy: Mean = { total: 0, count: 0 };
  const kept: Mean = { total: 0, count: 0 };
  let total = 0;
  let tokens = 0;
  for (const [index, part] of partition(rows, TOKENS_AT_ONCE).entries()) {
    const batch = makeBatch(
      part.map((row) => rows[row] as Row),
      model.rotary,
    );
    const out = await runPart(model, session, batch, index === 0);
    const weight = (batch.feeds.weight as Feed).data;
    const entropyWeight = (batch.feeds['entropy.weight'] as Feed).data;
    const trained = (i: number) => weight[i] !== 0;
    take(entropy, out.entropy, (i) => trained(i) || entropyWeight[i] !== 0);
    take(kept, out.keep, trained);
    total += (out.loss as Feed).data[0] as number;
    tokens += batch.tokens;
    for (const [q, ofRow] of perCompletion(batch, (out.logprobs as Feed).data).entries()) {
      logprobs[part[q] as number] = ofRow;
    }
  }
  const clipShare = kept.count === 0 ? null : 1 - kept.total / kept.count;
  return {
    loss: total,
    logprobs,
    entropy: entropy.count === 0 ? null : entropy.total / entropy.count,
    clipShare,
    tokens,
  };
}

function sessionFor({ config, sessions, threads }: TrainableModel, loss: Loss): Promise<Session> {
  const known = sessions.get(loss.key);
  if (known !== undefined) return known;
  const opening = openSession(trainingGraph(config, loss), { threads });
  sessions.set(loss.key, opening);
  return opening;
}

/** Runs one part; its gradients replace those of the model when it is the first, and are added to them after that. */
async function runPart(model: TrainableModel, session: Session, batch: Batch, first: boolean) {
  const { config, weights, gradients } = model;
  const into = first ? gradients : model.partGradients;
  const fetches: Record<string, Feed | null> = { loss: null, logprobs: null };
  for (const name of session.outputs) if (name === 'entropy' || name === 'keep') fetches[name] = null;
  for (const [name, data] of gradients) {
    let buffer = into.get(name);
    if (buffer === undefined) {
      buffer = new Float32Array(data.length);
      model.partGradients.set(name, buffer);
    }
    fetches[`d.${name}`] = { shape: (weights.get(name) as Feed).shape, data: buffer };
  }
  const out = await session.run({ ...parameterFeeds(config, weights), ...batch.feeds }, fetches);
  if (first) return out;
  for (const [name, sum] of gradients) {
    const more = model.partGradients.get(name) as Float32Array;
    for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) + (more[i] as number);
  }
  return out;
}

type Mean = { total: number; count: number };

/** Adds the values at places where `on` holds. */
function take(mean: Mean, values: Feed | undefined, on: (index: number) => boolean): void {
  if (values === undefined) return;
  for (const [i, value] of values.data.entries()) {
    if (!on(i)) continue;
    mean.total += value;
    mean.count += 1;
  }
}

/** A graph would read a negative id from the end of the table and train on the wrong token. */
function checkIds(rows: readonly Row[], vocabulary: number): void {
  for (const { promptIds, completions } of rows) {
    for (const ids of [promptIds, ...completions.map(({ tokenIds }) => tokenIds)]) {
      const wrong = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabulary);
      if (wrong === undefined) continue;
      throw new TroupeError('training_failed', `token ids must be whole numbers below ${vocabulary}, got ${wrong}`);
    }
  }
}

function sizeOf(weights: Weights, name: string): number {
  return (weights.get(name) as Feed).data.length;
}
