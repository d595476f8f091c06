/**
 * A decoder's parts as graph nodes: its parameters as inputs, one layer as functions over rows, and what reads the last
 * layer. Which maps have a bias, a norm or an adapter is known to `project` and the table of families, and to nobody else.
 */
import { TroupeError } from '../../errors.ts';
import { type Dim, times, type Value } from '../tensor/node.ts';
import { add, input, linear, matmul, multiply, reshape, rmsNorm, rotary, silu } from '../tensor/operations.ts';
import { FAMILIES, headSize } from './families.ts';
import { type Adapter, adaptedMaps, adapterShapes } from './lora.ts';
import { type ParameterShape, parameterShapes } from './parameters.ts';
import type { ModelConfig } from './weights.ts';

type NamedValue = readonly [name: string, value: Value];

export type Parameters = {
  readonly get: (name: string) => Value;
  /** x [N, in] through the linear map `name`: x·Wᵀ, with its bias and its adapter where it has them. [N, out]. */
  readonly project: (x: Value, name: string) => Value;
  /** What training updates: every parameter, or with an adapter its matrices only. */
  readonly trained: readonly NamedValue[];
  /** Every input, those of the adapter last. */
  readonly all: readonly NamedValue[];
};

/** How a parameter of a shape becomes a value of the graph. */
type Source = (name: string, shape: readonly number[]) => Value;

/**
 * One graph input for each parameter, under its own name, and with an adapter for each of its matrices (`adapterShapes`).
 * @throws TroupeError `model_unsupported` when the adapter names a map the model does not have.
 */
export const parameterInputs = (config: ModelConfig, adapter: Adapter | null = null): Parameters =>
  parametersFrom(config, input, adapter);

/** The parameters of a model and its adapter as the values that `source` gives. Throws as `parameterInputs` does. */
export function parametersFrom(config: ModelConfig, source: Source, adapter: Adapter | null = null): Parameters {
  const made = ([name, shape]: ParameterShape): NamedValue => [name, source(name, shape)];
  const base = parameterShapes(config).map(made);
  const low = adapter === null ? [] : adapterShapes(config, adapter).map(made);
  const values = new Map([...base, ...low]);
  const adapted = new Map(adapter === null ? [] : adaptedMaps(config, adapter).map((map) => [map.name, map]));
  const get = (name: string): Value => {
    const value = values.get(name);
    if (value === undefined) throw new TroupeError('internal', `the model has no parameter ${name}`);
    return value;
  };
  return {
    get,
    project: (x, name) => {
      const bias = values.get(`${name}.bias`);
      const straight = linear(x, get(`${name}.weight`));
      const y = bias === undefined ? straight : add(straight, bias);
      const map = adapted.get(name);
      if (map === undefined) return y;
      const narrow = linear(x, get(`${name}.lora_A.weight`));
      return add(y, matmul(narrow, get(`${name}.lora_B.weight`), { transB: true, alpha: map.scaling }));
    },
    trained: adapter === null ? base : low,
    all: [...values],
  };
}

/** Rotary tables for a run of positions, [S, D/2] each. */
export type Rotation = { readonly cos: Value; readonly sin: Value };

export type Layer = {
  /** x [N, d] normed before attention. */
  readonly beforeAttention: (x: Value) => Value;
  /** [N, heads·D], rotated; rows are B sequences of S tokens. */
  readonly queries: (x: Value, batch: Dim, length: Dim, rotation: Rotation) => Value;
  /** [N, key-value heads·D], rotated. */
  readonly keys: (x: Value, batch: Dim, length: Dim, rotation: Rotation) => Value;
  /** [N, key-value heads·D]. */
  readonly values: (x: Value) => Value;
  /** The residual stream after attention's result [N, heads·D] and the feed-forward part. */
  readonly after: (stream: Value, attention: Value) => Value;
};

/** Layer `index` of the model as functions over rows. */
export function layer(config: ModelConfig, parameters: Parameters, index: number): Layer {
  const at = `model.layers.${index}`;
  const norm = (x: Value, name: string) => rmsNorm(x, parameters.get(`${at}.${name}.weight`), config.rms_norm_eps).y;
  const project = (x: Value, name: string) => parameters.project(x, `${at}.${name}`);
  const D = headSize(config);
  const { queryKeyNorm } = FAMILIES[config.model_type];
  const headNorm = (x: Value, name: string): Value => {
    if (!queryKeyNorm) return x;
    const [rows, width] = x.shape as readonly [Dim, number];
    return reshape(norm(reshape(x, [times(rows, width / D), D]), name), x.shape);
  };
  const rotated = (x: Value, batch: Dim, length: Dim, { cos, sin }: Rotation) =>
    reshape(rotary(reshape(x, [batch, length, x.shape[1] as Dim]), cos, sin), x.shape);
  return {
    beforeAttention: (x) => norm(x, 'input_layernorm'),
    queries: (x, batch, length, rotation) =>
      rotated(headNorm(project(x, 'self_attn.q_proj'), 'self_attn.q_norm'), batch, length, rotation),
    keys: (x, batch, length, rotation) =>
      rotated(headNorm(project(x, 'self_attn.k_proj'), 'self_attn.k_norm'), batch, length, rotation),
    values: (x) => project(x, 'self_attn.v_proj'),
    after: (stream, attention) => {
      const h = add(stream, project(attention, 'self_attn.o_proj'));
      const x = norm(h, 'post_attention_layernorm');
      const gate = silu(project(x, 'mlp.gate_proj'));
      return add(h, project(multiply(gate, project(x, 'mlp.up_proj')), 'mlp.down_proj'));
    },
  };
}

/** The last layer's rows after the model's last norm, [N, d]. */
export const normed = (config: ModelConfig, parameters: Parameters, rows: Value): Value =>
  rmsNorm(rows, parameters.get('model.norm.weight'), config.rms_norm_eps).y;

/** The matrix [vocabulary, d] that gives logits; null where an adapter changes what it gives. */
export function outputMatrix(config: ModelConfig, parameters: Parameters): Value | null {
  if (config.tie_word_embeddings) return parameters.get('model.embed_tokens.weight');
  return parameters.trained.some(([name]) => name.startsWith('lm_head.lora_'))
    ? null
    : parameters.get('lm_head.weight');
}

/** Logits [N, vocabulary] of the last layer's rows [N, d]. */
export function head(config: ModelConfig, parameters: Parameters, rows: Value): Value {
  const x = normed(config, parameters, rows);
  if (config.tie_word_embeddings) return linear(x, parameters.get('model.embed_tokens.weight'));
  return parameters.project(x, 'lm_head');
}

/** One number [N, 1] for each of the last layer's rows [N, d], of a model whose head is `value` or `reward`. */
export function valueHead(config: ModelConfig, parameters: Parameters, rows: Value): Value {
  return parameters.project(normed(config, parameters, rows), 'score');
}
