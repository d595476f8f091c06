/**
 * The two graphs for sampling: one reads prompts, one generates the next token of each sample.
 * H key-value heads, G query heads for each of them, D the width of a head.
 */
import { plus, times, type Value } from '../tensor/node.ts';
import {
  add,
  concat,
  constant,
  gatherRows,
  input,
  matmul,
  multiply,
  reshape,
  softmax,
  split,
  sum,
  transpose,
} from '../tensor/operations.ts';
import { attentionWidth, headSize } from './families.ts';
import type { Outputs } from './graphs.ts';
import { head, layer, type Parameters, parametersFrom } from './layer.ts';
import type { ModelConfig, Tensor, Weights } from './weights.ts';

/**
 * The weights as constants of the graph: ONNX Runtime lays them out for its products once, when the session opens. Against
 * weights fed as inputs a step then costs four fifths (5 M parameters, 32 rows), and equal rows give equal bits
 * whatever number of rows runs beside them, because a packed product treats one row as it treats many.
 * Each use of a matrix is a constant of its own: one that a lookup reads too (tied embeddings) would not be laid out.
 */
export function parameterConstants(config: ModelConfig, weights: Weights): Parameters {
  const made = (name: string, shape: readonly number[]) => constant((weights.get(name) as Tensor).data, shape);
  return { ...parametersFrom(config, made), get: (name) => made(name, (weights.get(name) as Tensor).shape) };
}

/**
 * Reads S more tokens of Q prompts that have C slots already. Inputs: read.ids [Q, S] int32, read.causal [S, S],
 * read.cos/.sin [S, D/2], read.last [R] int32 (rows among Q·S whose next token is wanted), inverse.temperature [R],
 * past.k.<layer> and past.v.<layer> [Q, H, C, D], past.mask [C]. Outputs: probabilities and logits [R, vocabulary] of the
 * tokens that follow, and k.<layer>, v.<layer> [Q, H, S, D]. Prompts of one run are equally long, so none is padded.
 */
export function readGraph(config: ModelConfig, parameters: Parameters): Outputs {
  const D = headSize(config);
  const H = config.num_key_value_heads;
  const G = config.num_attention_heads / H;
  const scale = 1 / Math.sqrt(D);
  const N = times('Q', 'S');
  const SG = times('S', G);
  const rotation = { cos: input('read.cos', ['S', D / 2]), sin: input('read.sin', ['S', D / 2]) };
  const causal = reshape(input('read.causal', ['S', 'S']), ['S', 1, 'S']);
  const mask = input('past.mask', ['C']);
  const perHead = (x: Value) => transpose(reshape(x, ['Q', 'S', H, D]), [0, 2, 1, 3]);
  const outputs: Record<string, Value> = {};

  let stream = gatherRows(
    parameters.get('model.embed_tokens.weight'),
    reshape(input('read.ids', ['Q', 'S'], 'int32'), [N]),
  );
  for (let index = 0; index < config.num_hidden_layers; index++) {
    const at = layer(config, parameters, index);
    const x = at.beforeAttention(stream);
    const rows = reshape(at.queries(x, 'Q', 'S', rotation), ['Q', 'S', H, G, D]);
    const q = reshape(transpose(rows, [0, 2, 1, 3, 4]), ['Q', H, SG, D]);
    const k = perHead(at.keys(x, 'Q', 'S', rotation));
    const v = perHead(at.values(x));
    const pastK = input(`past.k.${index}`, ['Q', H, 'C', D]);
    const pastV = input(`past.v.${index}`, ['Q', H, 'C', D]);
    const toPast = add(matmul(q, pastK, { transB: true, alpha: scale }), mask);
    const own = matmul(q, k, { transB: true, alpha: scale });
    const toOwn = reshape(add(reshape(own, ['Q', H, 'S', G, 'S']), causal), ['Q', H, SG, 'S']);
    const [pPast, pOwn] = split(softmax(concat([toPast, toOwn], 3)), ['C', 'S'], 3) as [Value, Value];
    const mixed = reshape(add(matmul(pPast, pastV), matmul(pOwn, v)), ['Q', H, 'S', G, D]);
    stream = at.after(stream, reshape(transpose(mixed, [0, 2, 1, 3, 4]), [N, attentionWidth(config)]));
    outputs[`k.${index}`] = k;
    outputs[`v.${index}`] = v;
  }
  const last = gatherRows(stream, input('read.last', ['R'], 'int32'));
  return { ...outputs, ...distribution(head(config, parameters, last), 'R') };
}

/**
 * One token more of each of B samples, which may stand at different positions. Inputs: step.ids [B] int32; step.cos/.sin
 * [B, D/2] of each sample's position, and query.cos/.sin, the same divided by √D, which scales the scores without an
 * operation of its own; own.k.<layer> and own.v.<layer> [B, H, C, D], and own.mask [B, 1+C], 0 at the first place and at
 * filled slots. Outputs: probabilities and logits [B, vocabulary], and k.<layer>, v.<layer> [B, H, 1, D], the new slot.
 */
export function stepGraph(config: ModelConfig, parameters: Parameters): Outputs {
  const D = headSize(config);
  const H = config.num_key_value_heads;
  const G = config.num_attention_heads / H;
  const tables = (name: string) => ({
    cos: input(`${name}.cos`, ['B', D / 2]),
    sin: input(`${name}.sin`, ['B', D / 2]),
  });
  const [rotation, scaled] = [tables('step'), tables('query')];
  const T = plus(1, 'C');
  const mask = reshape(input('own.mask', ['B', T]), ['B', 1, 1, T]);
  const outputs: Record<string, Value> = {};

  let stream = gatherRows(parameters.get('model.embed_tokens.weight'), input('step.ids', ['B'], 'int32'));
  for (let index = 0; index < config.num_hidden_layers; index++) {
    const at = layer(config, parameters, index);
    const x = at.beforeAttention(stream);
    const q = reshape(at.queries(x, 1, 'B', scaled), ['B', H, G, D]);
    const k = reshape(at.keys(x, 1, 'B', rotation), ['B', H, 1, D]);
    const v = reshape(at.values(x), ['B', H, 1, D]);
    const ownK = input(`own.k.${index}`, ['B', H, 'C', D]);
    const ownV = input(`own.v.${index}`, ['B', H, 'C', D]);
    // A product with alpha 1 reads the keys where they lie; with another alpha ONNX Runtime copies them first.
    const toOwn = matmul(q, ownK, { transB: true });
    // One key a row: as a product of matrices it would cost more in calls than in arithmetic.
    const toSelf = sum(multiply(q, k), [3], true);
    // The new token stands first, so that a slot's place in the sum does not depend on how many slots there are.
    const p = softmax(add(concat([toSelf, toOwn], 3), mask));
    const [pSelf, pOwn] = split(p, [1, 'C'], 3) as [Value, Value];
    const mixed = add(matmul(pOwn, ownV), multiply(pSelf, v));
    stream = at.after(stream, reshape(mixed, ['B', attentionWidth(config)]));
    outputs[`k.${index}`] = k;
    outputs[`v.${index}`] = v;
  }
  return { ...outputs, ...distribution(head(config, parameters, stream), 'B') };
}

/** Softmax of logits times inverse.temperature [rows]. */
function distribution(logits: Value, rows: string): Outputs {
  const inverse = reshape(input('inverse.temperature', [rows]), [rows, 1]);
  return { logits, probabilities: softmax(multiply(logits, inverse)) };
}
