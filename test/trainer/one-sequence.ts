/** A model over one sequence, put together from the parts of `layer.ts` alone: no padding, no prompts that are shared. */

import { headSize } from '../../trainer/model/families.ts';
import { head, layer, type Parameters, parameterInputs, valueHead } from '../../trainer/model/layer.ts';
import type { Adapter } from '../../trainer/model/lora.ts';
import { causalMask, rotaryTable } from '../../trainer/model/positions.ts';
import type { ModelConfig, Weights } from '../../trainer/model/weights.ts';
import { gradients } from '../../trainer/tensor/gradient.ts';
import type { Value } from '../../trainer/tensor/node.ts';
import {
  add,
  gatherRows,
  input,
  logSoftmax,
  matmul,
  multiply,
  pick,
  reshape,
  softmax,
  sum,
  transpose,
} from '../../trainer/tensor/operations.ts';
import { type Feeds, openSession } from '../../trainer/tensor/session.ts';

/** The residual stream [S, d] after the last layer. */
function tower(config: ModelConfig, parameters: Parameters, S: number): Value {
  const D = headSize(config);
  const H = config.num_key_value_heads;
  const G = config.num_attention_heads / H;
  const rotation = { cos: input('cos', [S, D / 2]), sin: input('sin', [S, D / 2]) };
  const causal = reshape(input('causal', [S, S]), [1, 1, S, S]);
  let stream = gatherRows(parameters.get('model.embed_tokens.weight'), input('ids', [S], 'int32'));
  for (let index = 0; index < config.num_hidden_layers; index++) {
    const at = layer(config, parameters, index);
    const x = at.beforeAttention(stream);
    const q = reshape(transpose(reshape(at.queries(x, 1, S, rotation), [S, H, G, D]), [1, 2, 0, 3]), [H, G * S, D]);
    const keys = transpose(reshape(at.keys(x, 1, S, rotation), [S, H, D]), [1, 0, 2]);
    const values = transpose(reshape(at.values(x), [S, H, D]), [1, 0, 2]);
    const scores = reshape(matmul(q, keys, { transB: true, alpha: 1 / Math.sqrt(D) }), [H, G, S, S]);
    const mixed = matmul(reshape(softmax(add(scores, causal)), [H, G * S, S]), values);
    const rows = reshape(transpose(reshape(mixed, [H, G, S, D]), [2, 0, 1, 3]), [S, H * G * D]);
    stream = at.after(stream, rows);
  }
  return stream;
}

export type Asked = {
  readonly adapter?: Adapter;
  readonly adapterWeights?: Weights;
  /** Gradients of Σ weight·log-probability, or of Σ weight·value, with respect to what is trained. */
  readonly lossWeights?: readonly number[];
};

export type SequenceOutput = {
  /** Log-probability of each of `ids` after the first, or the value at each of them. */
  readonly numbers: readonly number[];
  readonly loss: number;
  readonly slopes: ReadonlyMap<string, Float32Array>;
};

/** Outputs of the graph for one sequence. */
export async function oneSequence(
  config: ModelConfig,
  weights: Weights,
  ids: readonly number[],
  { adapter, adapterWeights = new Map(), lossWeights }: Asked = {},
): Promise<SequenceOutput> {
  const speaks = (config.head ?? 'lm') === 'lm';
  const parameters = parameterInputs(config, adapter ?? null);
  const read = speaks ? ids.slice(0, -1) : ids;
  const S = read.length;
  const rows = tower(config, parameters, S);
  const targets = reshape(input('targets', [S], 'int32'), [S, 1]);
  const numbers = speaks
    ? pick(logSoftmax(head(config, parameters, rows)), targets)
    : valueHead(config, parameters, rows);
  const loss = sum(multiply(numbers, input('weights', [S, 1])), [0, 1]);
  const wanted = lossWeights === undefined ? [] : parameters.trained;
  const slopes = gradients(
    loss,
    wanted.map(([, value]) => value),
  );
  const named = wanted.map(([name], i): [string, Value] => [`d.${name}`, slopes[i] as Value]);
  const session = await openSession({ numbers, loss, ...Object.fromEntries(named) });
  const { cos, sin } = rotaryTable(config).rows(0, S);
  const feeds: Feeds = {
    ...Object.fromEntries([...weights, ...adapterWeights]),
    ids: { shape: [S], data: Int32Array.from(read) },
    targets: { shape: [S], data: Int32Array.from(speaks ? ids.slice(1) : read) },
    weights: { shape: [S, 1], data: Float32Array.from(lossWeights ?? read.map(() => 1)) },
    causal: causalMask(S),
    cos,
    sin,
  };
  const out = await session.run(feeds, Object.fromEntries(session.outputs.map((name) => [name, null])));
  await session.close();
  return {
    numbers: [...(out.numbers?.data ?? [])],
    loss: out.loss?.data[0] as number,
    slopes: new Map(wanted.map(([name]) => [name, out[`d.${name}`]?.data as Float32Array])),
  };
}
