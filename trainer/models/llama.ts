/**
 * The Llama family of decoders (Touvron et al. 2023, arXiv:2302.13971): names, shapes and first values of its parameters,
 * and its layer as graph nodes. Arithmetic and layout are those of Hugging Face `LlamaForCausalLM`: RMSNorm, rotary
 * embedding over halves of a head, grouped keys and values, SwiGLU.
 */
import { TroupeError } from '../../errors.ts';
import type { Dim, Value } from '../graph/node.ts';
import { add, input, linear, multiply, reshape, rmsNorm, rotary, silu } from '../graph/operations.ts';
import { randomStream } from '../random.ts';
import type { ModelConfig, Tensor, Weights } from '../weights.ts';

export type ParameterShape = readonly [name: string, shape: readonly number[]];

/** Width of one head. @throws TroupeError `model_unsupported` when heads do not divide the width or the groups. */
export function headSize(config: ModelConfig): number {
  const { hidden_size, num_attention_heads: heads, num_key_value_heads: groups } = config;
  const size = hidden_size / heads;
  if (!Number.isInteger(size) || size % 2 !== 0) {
    const got = `hidden_size ${hidden_size} and num_attention_heads ${heads}`;
    throw new TroupeError('model_unsupported', `a head needs an even whole width; got ${got}`);
  }
  if (!Number.isInteger(heads / groups)) {
    const got = `num_attention_heads ${heads} and num_key_value_heads ${groups}`;
    throw new TroupeError('model_unsupported', `each key-value head must serve equally many heads; got ${got}`);
  }
  return size;
}

/** Names and shapes ([out, in] for matrices) of all parameters, in the order of the model's definition. */
export function parameterShapes(config: ModelConfig): ParameterShape[] {
  const { hidden_size: d, intermediate_size: ff, vocab_size: vocabulary } = config;
  const keys = config.num_key_value_heads * headSize(config);
  const shapes: ParameterShape[] = [['model.embed_tokens.weight', [vocabulary, d]]];
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const at = `model.layers.${layer}.`;
    shapes.push(
      [`${at}self_attn.q_proj.weight`, [d, d]],
      [`${at}self_attn.k_proj.weight`, [keys, d]],
      [`${at}self_attn.v_proj.weight`, [keys, d]],
      [`${at}self_attn.o_proj.weight`, [d, d]],
      [`${at}mlp.gate_proj.weight`, [ff, d]],
      [`${at}mlp.up_proj.weight`, [ff, d]],
      [`${at}mlp.down_proj.weight`, [d, ff]],
      [`${at}input_layernorm.weight`, [d]],
      [`${at}post_attention_layernorm.weight`, [d]],
    );
  }
  shapes.push(['model.norm.weight', [d]]);
  if (!config.tie_word_embeddings) shapes.push(['lm_head.weight', [vocabulary, d]]);
  return shapes;
}

/** Each parameter the configuration names, in its shape. @throws TroupeError `model_unsupported`. */
export function checkWeights(config: ModelConfig, weights: Weights): void {
  for (const [name, shape] of parameterShapes(config)) {
    const found = weights.get(name);
    if (found === undefined || found.shape.join() !== shape.join()) {
      const what = found === undefined ? 'nothing' : `[${found.shape}]`;
      throw new TroupeError('model_unsupported', `the parameter ${name} must have the shape [${shape}], got ${what}`);
    }
  }
}

/**
 * First values for a model trained from nothing; the same seed gives the same weights. Norms are 1. Matrices are normal with
 * standard deviation 0.7/√in, those that write to the residual stream also divided by √(2·layers); embeddings 0.05.
 */
export function initialWeights(config: ModelConfig, seed: number): Weights {
  const { normal } = randomStream(seed);
  const weights = new Map<string, Tensor>();
  for (const [name, shape] of parameterShapes(config)) {
    const data = new Float32Array(shape.reduce((a, b) => a * b, 1));
    const deviation = firstDeviation(name, shape, config.num_hidden_layers);
    if (deviation === null) data.fill(1);
    else for (let i = 0; i < data.length; i++) data[i] = normal() * deviation;
    weights.set(name, { shape, data });
  }
  return weights;
}

function firstDeviation(name: string, shape: readonly number[], layers: number): number | null {
  if (shape.length === 1) return null;
  if (name.includes('embed_tokens')) return 0.05;
  const perInput = 0.7 / Math.sqrt(shape[1] as number);
  return /o_proj|down_proj/.test(name) ? perInput / Math.sqrt(2 * layers) : perInput;
}

export type Parameters = { readonly get: (name: string) => Value; readonly all: readonly (readonly [string, Value])[] };

/** One graph input for each parameter, under its own name. */
export function parameterInputs(config: ModelConfig): Parameters {
  const values = new Map(parameterShapes(config).map(([name, shape]) => [name, input(name, shape)]));
  return {
    get: (name) => {
      const value = values.get(name);
      if (value === undefined) throw new TroupeError('internal', `the model has no parameter ${name}`);
      return value;
    },
    all: [...values],
  };
}

/** Rotary tables for a run of positions, [S, head/2] each. */
export type Rotation = { readonly cos: Value; readonly sin: Value };

export type Layer = {
  /** x [N, d] normed before attention. */
  readonly beforeAttention: (x: Value) => Value;
  /** [N, heads·D], rotated; rows are B sequences of S tokens. */
  readonly queries: (x: Value, batch: Dim, length: Dim, rotation: Rotation) => Value;
  readonly keys: (x: Value, batch: Dim, length: Dim, rotation: Rotation) => Value;
  readonly values: (x: Value) => Value;
  /** The residual stream after attention's result [N, heads·D] and the feed-forward part. */
  readonly after: (stream: Value, attention: Value) => Value;
};

/** Layer `index` of the model as functions over rows. */
export function layer(config: ModelConfig, parameters: Parameters, index: number): Layer {
  const weight = (name: string) => parameters.get(`model.layers.${index}.${name}.weight`);
  const norm = (x: Value, name: string) => rmsNorm(x, weight(name), config.rms_norm_eps).y;
  const rotated = (x: Value, batch: Dim, length: Dim, { cos, sin }: Rotation) =>
    reshape(rotary(reshape(x, [batch, length, x.shape[1] as Dim]), cos, sin), x.shape);
  return {
    beforeAttention: (x) => norm(x, 'input_layernorm'),
    queries: (x, batch, length, at) => rotated(linear(x, weight('self_attn.q_proj')), batch, length, at),
    keys: (x, batch, length, at) => rotated(linear(x, weight('self_attn.k_proj')), batch, length, at),
    values: (x) => linear(x, weight('self_attn.v_proj')),
    after: (stream, attention) => {
      const h = add(stream, linear(attention, weight('self_attn.o_proj')));
      const x = norm(h, 'post_attention_layernorm');
      const gate = silu(linear(x, weight('mlp.gate_proj')));
      return add(h, linear(multiply(gate, linear(x, weight('mlp.up_proj'))), weight('mlp.down_proj')));
    },
  };
}

/** Logits [N, vocabulary] of the last layer's rows. */
export function head(config: ModelConfig, parameters: Parameters, rows: Value): Value {
  const x = rmsNorm(rows, parameters.get('model.norm.weight'), config.rms_norm_eps).y;
  return linear(x, parameters.get(config.tie_word_embeddings ? 'model.embed_tokens.weight' : 'lm_head.weight'));
}
