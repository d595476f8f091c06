/**
 * A model as one ONNX file that runs without Troupe: token ids in, logits out, weights inside. For ONNX Runtime in any
 * language: opset 18, and the operators of com.microsoft that its builds carry.
 */
import { got, TroupeError } from '../../errors.ts';
import { lower, type OnnxGraph, type OnnxNode, type OnnxPort, type OnnxTensor } from '../tensor/lower.ts';
import { times, type Value } from '../tensor/node.ts';
import { writeOnnx } from '../tensor/onnx.ts';
import { add, gatherRows, input, matmul, reshape, softmax, transpose } from '../tensor/operations.ts';
import { simplify } from '../tensor/rewrite.ts';
import { attentionWidth, headSize } from './families.ts';
import { head, layer, type Parameters, parameterInputs } from './layer.ts';
import { checkWeights, parameterShapes } from './parameters.ts';
import { MASKED, rotaryTable } from './positions.ts';
import type { ModelConfig, Weights } from './weights.ts';

/** What protobuf can hold in one message, less room for the graph itself. */
const MOST_BYTES = 2 ** 31 - 2 ** 24;

const [B, L] = ['batch', 'sequence'];

/**
 * The bytes of an ONNX model with the input `input_ids` [batch, sequence] int64 and the output `logits` [batch, sequence,
 * vocabulary] float32. Positions count from 0, and a token sees itself and what came before, so shorter sequences are padded
 * on the right with any id. A sequence longer than max_position_embeddings is refused by the runtime.
 * @throws TroupeError `model_unsupported` when weights and configuration disagree or the model has no language-model head, `too_large`
 * when the weights do not fit one file.
 */
export function exportOnnx(config: ModelConfig, weights: Weights): Uint8Array {
  if ((config.head ?? 'lm') !== 'lm') {
    throw new TroupeError(
      'model_unsupported',
      `Only a model with a language-model head has logits; this one has a ${config.head} head.`,
    );
  }
  checkWeights(config, weights);
  const names = parameterShapes(config).map(([name]) => name);
  const { cos, sin } = rotaryTable(config).rows(0, config.max_position_embeddings);
  const tables = [cos, sin].map(({ shape, data }, i): OnnxTensor => {
    return { name: `${['cos', 'sin'][i]}.table`, dims: shape, data: data as Float32Array };
  });
  const tensors = names.map((name): OnnxTensor => {
    const { shape, data } = weights.get(name) as { shape: readonly number[]; data: Float32Array };
    return { name, dims: shape, data };
  });
  const constants = [...tensors, ...tables];
  const bytes = constants.reduce((sum, { data }) => sum + data.byteLength, 0);
  if (bytes > MOST_BYTES) {
    throw new TroupeError(
      'too_large',
      `One ONNX file holds less than 2 GiB; this model has ${got(bytes)} bytes of weights.`,
      {
        hint: 'Export it as safetensors, which other runtimes convert with external data.',
      },
    );
  }
  const [logits] = simplify([decoder(config, parameterInputs(config))]);
  return writeOnnx(selfContained(lower({ logits: logits as Value }), constants));
}

/** Logits [batch, sequence, vocabulary] of whole sequences. Inputs: input_ids, cos and sin [sequence, D/2], causal [sequence, sequence]. */
function decoder(config: ModelConfig, parameters: Parameters): Value {
  const D = headSize(config);
  const H = config.num_key_value_heads;
  const G = config.num_attention_heads / H;
  const N = times(B, L);
  const GL = times(G, L);
  const rotation = { cos: input('cos', [L, D / 2]), sin: input('sin', [L, D / 2]) };
  const causal = input('causal', [L, L]);
  const keyHeads = (x: Value) => transpose(reshape(x, [B, L, H, D]), [0, 2, 1, 3]);
  const ids = reshape(input('input_ids', [B, L], 'int32'), [N]);
  let stream = gatherRows(parameters.get('model.embed_tokens.weight'), ids);
  for (let index = 0; index < config.num_hidden_layers; index++) {
    const at = layer(config, parameters, index);
    const x = at.beforeAttention(stream);
    const q = transpose(reshape(at.queries(x, B, L, rotation), [B, L, H, G, D]), [0, 2, 3, 1, 4]);
    const k = keyHeads(at.keys(x, B, L, rotation));
    const scores = matmul(reshape(q, [B, H, GL, D]), k, { transB: true, alpha: 1 / Math.sqrt(D) });
    const p = softmax(add(reshape(scores, [B, H, G, L, L]), causal));
    const mixed = reshape(matmul(reshape(p, [B, H, GL, L]), keyHeads(at.values(x))), [B, H, G, L, D]);
    stream = at.after(stream, reshape(transpose(mixed, [0, 3, 1, 2, 4]), [N, attentionWidth(config)]));
  }
  return reshape(head(config, parameters, stream), [B, L, config.vocab_size]);
}

/** The graph with its parameters as constants, and positions and mask computed from the shape of `input_ids`. */
function selfContained(graph: OnnxGraph, constants: readonly OnnxTensor[]): OnnxGraph {
  const inside = new Set([...constants.map(({ name }) => name), 'cos', 'sin', 'causal']);
  return {
    nodes: [...positionNodes(), ...graph.nodes],
    constants: [...graph.constants, ...constants, ...positionConstants],
    inputs: graph.inputs.filter(({ name }) => !inside.has(name)).map(wide),
    outputs: graph.outputs,
  };
}

/** Ids are only gathered by, which int64 does as well, and int64 is what tokenizers of other runtimes give. */
const wide = (port: OnnxPort): OnnxPort => ({ ...port, type: 'int64' });

const int64 = (name: string, dims: readonly number[], value: number): OnnxTensor => {
  return { name, dims, data: BigInt64Array.of(BigInt(value)) };
};
const positionConstants: readonly OnnxTensor[] = [
  int64('position.zero', [], 0),
  int64('position.one', [], 1),
  int64('position.front', [1], 0),
  int64('position.back', [1], 1),
  { name: 'position.masked', dims: [], data: Float32Array.of(MASKED) },
];

function positionNodes(): OnnxNode[] {
  const emit = (op: string, inputs: readonly string[], output: string, attributes: OnnxNode['attributes'] = {}) => {
    return { op, domain: '', inputs, outputs: [output], attributes };
  };
  return [
    emit('Shape', ['input_ids'], 'position.length', { start: { int: 1 }, end: { int: 2 } }),
    emit('Squeeze', ['position.length', 'position.front'], 'position.count'),
    emit('Range', ['position.zero', 'position.count', 'position.one'], 'position.ids'),
    emit('Gather', ['cos.table', 'position.ids'], 'cos', { axis: { int: 0 } }),
    emit('Gather', ['sin.table', 'position.ids'], 'sin', { axis: { int: 0 } }),
    emit('Unsqueeze', ['position.ids', 'position.back'], 'position.query'),
    emit('Unsqueeze', ['position.ids', 'position.front'], 'position.key'),
    emit('Less', ['position.query', 'position.key'], 'position.later'),
    emit('Cast', ['position.later'], 'position.hidden', { to: { int: 1 } }),
    emit('Mul', ['position.hidden', 'position.masked'], 'causal'),
  ];
}
