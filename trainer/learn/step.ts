/**
 * One training step: gradients of a batch by the graph, then the optimizer in place. A model under training is its weights,
 * its optimizer state and one compiled graph for each loss and layout it was trained with.
 */
import { TroupeError } from '../../errors.ts';
import { evaluationGraph, type Outputs, trainingGraph } from '../model/graphs.ts';
import { type Adapter, checkAdapter } from '../model/lora.ts';
import type { Loss } from '../model/losses/loss.ts';
import { checkWeights } from '../model/parameters.ts';
import { type RotaryTable, rotaryTable } from '../model/positions.ts';
import type { ModelConfig, Weights } from '../model/weights.ts';
import { type Feed, type Feeds, openSession, type Session } from '../tensor/session.ts';
import { type Arena, makeArena } from './arena.ts';
import {
  type Batch,
  type Layout,
  layoutOf,
  makeBatch,
  partition,
  perCompletion,
  TOKENS_AT_ONCE,
} from './data/batch.ts';
import type { Row } from './data/row.ts';
import {
  type AdamOptions,
  type AdamState,
  adamUpdate,
  addGradients,
  globalNorm,
  initAdam,
  loadAdam,
} from './optimizer.ts';

export type TrainableModel = {
  readonly config: ModelConfig;
  /** Of the whole model. Updated in place by `trainStep`, or the given ones, held as they are, where an adapter is trained. */
  readonly weights: Weights;
  readonly adapter: Adapter | null;
  /** What is trained: `weights`, or the adapter's matrices. Updated in place by `trainStep`. */
  readonly trained: Weights;
  readonly arena: Arena;
  readonly threads: number;
  readonly recompute: boolean;
  readonly profile: string | undefined;
  /** As it is now; set it to resume from a checkpoint, or to `initAdam()` to start afresh. */
  optimizer: AdamState;
  readonly rotary: RotaryTable;
  readonly gradients: ReadonlyMap<string, Float32Array>;
  readonly sessions: Map<string, Promise<Session>>;
};

export type TrainableOptions = {
  /** Threads inside one operation. With one, equal inputs give equal bits. */
  readonly threads?: number;
  readonly optimizer?: AdamState;
  /** Computes layers again for the gradient instead of keeping them: a third more work, a fraction of the memory. */
  readonly recompute?: boolean;
  /** Where to write traces of the sessions, see `SessionOptions`. */
  readonly profile?: string;
  /** Trains these low-rank matrices and holds the weights; several may share one set of weights. */
  readonly adapter?: { readonly adapter: Adapter; readonly weights: Weights };
};

export type Measures = {
  /** Token accuracy among the metrics; it costs a pass over the logits. */
  readonly accuracy?: boolean;
};

export type Outcome = {
  readonly loss: number;
  /**
   * Of each token of each completion of each row, under the weights before the update: its log-probability, or what the value head
   * says before it where the model has one. Null for a token that was not trained.
   */
  readonly logprobs: readonly (readonly (readonly (number | null)[])[])[];
  /** Means over the trained tokens of what the loss reports (`entropy`, `clip_share`, `kl`, …), and `accuracy` where asked for. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Trained tokens in the batch. */
  readonly tokens: number;
};

/**
 * A model that can be trained. What is trained is copied into an arena, everything else is used as it is.
 * @throws TroupeError `model_unsupported` when a parameter is missing or has another shape than in the configuration.
 */
export function trainable(
  config: ModelConfig,
  weights: Weights,
  { threads = 1, optimizer = initAdam(), recompute = false, profile, adapter }: TrainableOptions = {},
): TrainableModel {
  checkWeights(config, weights);
  if (adapter !== undefined) checkAdapter(config, adapter.adapter, adapter.weights);
  const arena = makeArena(adapter?.weights ?? weights);
  let step = loadAdam(arena, optimizer);
  return {
    config,
    weights: adapter === undefined ? arena.weights : weights,
    adapter: adapter?.adapter ?? null,
    trained: arena.weights,
    arena,
    threads,
    recompute,
    profile,
    get optimizer() {
      return { step, m: arena.m, v: arena.v };
    },
    set optimizer(state) {
      step = loadAdam(arena, state);
    },
    rotary: rotaryTable(config),
    gradients: arena.gradients,
    sessions: new Map(),
  };
}

/** Releases the compiled graphs. */
export async function closeTrainable(model: TrainableModel): Promise<void> {
  for (const session of model.sessions.values()) await (await session).close();
  model.sessions.clear();
}

/**
 * Computes the loss of the rows and its gradients, clips them and updates what is trained in place.
 * @throws TroupeError `training_failed` for rows that cannot be trained on, and when the loss or the gradient is not finite; the
 * weights are then as they were.
 */
export async function trainStep(
  model: TrainableModel,
  rows: readonly Row[],
  options: AdamOptions & Measures & { readonly loss: Loss },
): Promise<Outcome & { readonly gradientNorm: number }> {
  const outcome = await lossAndGradients(model, rows, options.loss, options);
  const { step, m, v } = model.optimizer;
  const gradientNorm = globalNorm(model.arena);
  if (!Number.isFinite(outcome.loss) || !Number.isFinite(gradientNorm)) {
    const what = Number.isFinite(outcome.loss)
      ? `the gradient's norm became ${gradientNorm}`
      : `the loss became ${outcome.loss}`;
    throw new TroupeError(
      'training_failed',
      `${what} at update ${step + 1}; lower the learning rate (it is ${options.learningRate})`,
    );
  }
  adamUpdate(model.arena, step + 1, gradientNorm, options);
  model.optimizer = { step: step + 1, m, v };
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
  { accuracy = false }: Measures = {},
): Promise<Outcome> {
  const { config, adapter, recompute } = model;
  return inParts(model, rows, {
    key: `train ${loss.key}${accuracy ? ' accuracy' : ''}`,
    graph: (layout) => trainingGraph(config, loss, layout, { accuracy, adapter, recompute }),
    gradients: true,
  });
}

/** Loss and metrics of rows, token accuracy among them, without gradients. @throws as `lossAndGradients`. */
export async function evaluate(model: TrainableModel, rows: readonly Row[], loss: Loss): Promise<Outcome> {
  const { config, adapter } = model;
  return inParts(model, rows, {
    key: `evaluate ${loss.key}`,
    graph: (layout) => evaluationGraph(config, loss, layout, { accuracy: true, adapter }),
    gradients: false,
  });
}

type Pass = {
  readonly key: string;
  readonly graph: (layout: Layout) => Outputs;
  readonly gradients: boolean;
};

/** Rows in parts of one layout and of like lengths, each run by the session of its layout; what they give is summed. */
async function inParts(model: TrainableModel, rows: readonly Row[], pass: Pass): Promise<Outcome> {
  if (rows.length === 0) throw new TroupeError('training_failed', 'a training step needs at least one row, got none');
  checkIds(rows, model.config.vocab_size);
  const logprobs: (readonly (readonly (number | null)[])[])[] = rows.map(() => []);
  const sums = new Map<string, number>();
  let loss = 0;
  let tokens = 0;
  let first = true;
  for (const { layout, part } of partsOf(rows)) {
    const session = await sessionFor(model, `${pass.key} ${layout}`, () => pass.graph(layout));
    const outputName = session.outputs.includes('values') ? 'values' : 'logprobs';
    const reports = session.outputs.filter((name) => name.startsWith('report.'));
    const batch = makeBatch(
      part.map((row) => rows[row] as Row),
      model,
      { layout },
    );
    const wanted = Object.fromEntries(['loss', outputName, ...reports].map((name) => [name, null]));
    const out = pass.gradients
      ? await runWithGradients(model, session, batch, wanted, first)
      : await session.run({ ...parameterFeeds(model), ...batch.feeds }, wanted);
    first = false;
    loss += (out.loss as Feed).data[0] as number;
    tokens += batch.tokens;
    for (const name of reports) {
      const { data } = out[name] as Feed;
      let total = 0;
      for (const value of data) total += value;
      sums.set(name, (sums.get(name) ?? 0) + total);
    }
    for (const [q, ofRow] of perCompletion(batch, (out[outputName] as Feed).data).entries()) {
      logprobs[part[q] as number] = ofRow;
    }
  }
  const metrics = Object.fromEntries([...sums].map(([name, total]) => [name.slice('report.'.length), total / tokens]));
  return { loss, logprobs, metrics, tokens };
}

/** Row numbers by layout and in parts: a row alone in its prompt is not padded for the sake of rows that share theirs. */
function partsOf(rows: readonly Row[]): { readonly layout: Layout; readonly part: readonly number[] }[] {
  const byLayout = new Map<Layout, number[]>();
  for (const [index, row] of rows.entries()) {
    const layout = layoutOf([row]);
    byLayout.set(layout, [...(byLayout.get(layout) ?? []), index]);
  }
  return [...byLayout].flatMap(([layout, indices]) => {
    const of = indices.map((index) => rows[index] as Row);
    return partition(of, TOKENS_AT_ONCE, layout).map((part) => {
      return { layout, part: part.map((at) => indices[at] as number) };
    });
  });
}

function sessionFor(
  { sessions, threads, profile }: TrainableModel,
  key: string,
  graph: () => Outputs,
): Promise<Session> {
  const known = sessions.get(key);
  if (known !== undefined) return known;
  const opening = openSession(graph(), { threads, ...(profile === undefined ? {} : { profile }) });
  sessions.set(key, opening);
  return opening;
}

/** All parameters as feeds by their names. */
function parameterFeeds({ weights, trained }: TrainableModel): Feeds {
  return Object.fromEntries([...weights, ...trained]);
}

/** Runs one part; its gradients replace those of the model when it is the first, and are added to them after that. */
async function runWithGradients(
  model: TrainableModel,
  session: Session,
  batch: Batch,
  wanted: Readonly<Record<string, null>>,
  first: boolean,
): Promise<Record<string, Feed>> {
  const { trained, arena } = model;
  const into = first ? arena.gradients : arena.more;
  const fetches: Record<string, Feed | null> = { ...wanted };
  for (const [name, data] of into) fetches[`d.${name}`] = { shape: (trained.get(name) as Feed).shape, data };
  const out = await session.run({ ...parameterFeeds(model), ...batch.feeds }, fetches);
  if (!first) addGradients(arena);
  return out;
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
