/**
 * The decoder once more, token by token in double precision and plain loops: no batches, no padding, no cache, no graph.
 * Rotary positions, norms and grouped heads are written as in Hugging Face's modelling of the family.
 */
import type { ModelConfig, Tensor, Weights } from '../../trainer/model/weights.ts';

type Vector = number[];

/** Log-probabilities [tokens, vocabulary] of what follows each of `ids`. */
export function plainLlama(config: ModelConfig, weights: Weights, ids: readonly number[]): Vector[] {
  const last = config.tie_word_embeddings ? 'model.embed_tokens' : 'lm_head';
  return plainRows(config, weights, ids).map((h) => softmax(plainMap(weights, last, h)).map(Math.log));
}

/** The value at each of `ids`, of a model whose head is `value` or `reward`. */
export function plainValues(config: ModelConfig, weights: Weights, ids: readonly number[]): Vector {
  return plainRows(config, weights, ids).map((h) => plainMap(weights, 'score', h)[0] as number);
}

const row = (weights: Weights, name: string, i: number): Vector => {
  const { shape, data } = weights.get(name) as Tensor;
  const width = shape[1] as number;
  return [...data.subarray(i * width, (i + 1) * width)];
};

/** Wx, and + b where the weights hold one. */
function plainMap(weights: Weights, name: string, x: Vector): Vector {
  const { shape } = weights.get(`${name}.weight`) as Tensor;
  const bias = weights.get(`${name}.bias`)?.data;
  return Array.from(
    { length: shape[0] as number },
    (_, o) => dot(row(weights, `${name}.weight`, o), x) + (bias?.[o] ?? 0),
  );
}

/** The last layer's rows after the last norm. */
function plainRows(config: ModelConfig, weights: Weights, ids: readonly number[]): Vector[] {
  const D = config.head_dim ?? config.hidden_size / config.num_attention_heads;
  const group = config.num_attention_heads / config.num_key_value_heads;
  const { angle, stretch } = plainAngles(config, D);
  const norm = (name: string, x: Vector): Vector => {
    const { data } = weights.get(`${name}.weight`) as Tensor;
    const scale = 1 / Math.sqrt(dot(x, x) / x.length + config.rms_norm_eps);
    return x.map((value, i) => value * scale * (data[i] as number));
  };
  // Qwen3 norms each head; the other families have no such weight.
  const headOf = (x: Vector, h: number, named: string): Vector => {
    const part = x.slice(h * D, (h + 1) * D);
    return weights.has(`${named}.weight`) ? norm(named, part) : part;
  };
  // x·cos + rotate_half(x)·sin, cos and sin repeated for both halves.
  const rotate = (x: Vector, position: number): Vector =>
    x.map((value, i) => {
      const turned = angle(position, i % (D / 2));
      const other = i < D / 2 ? -(x[i + D / 2] as number) : (x[i - D / 2] as number);
      return (value * Math.cos(turned) + other * Math.sin(turned)) * stretch;
    });

  let stream = ids.map((id) => row(weights, 'model.embed_tokens.weight', id));
  for (let l = 0; l < config.num_hidden_layers; l++) {
    const at = `model.layers.${l}`;
    const map = (name: string, x: Vector) => plainMap(weights, `${at}.${name}`, x);
    const x = stream.map((h) => norm(`${at}.input_layernorm`, h));
    const q = x.map((h) => map('self_attn.q_proj', h));
    const k = x.map((h) => map('self_attn.k_proj', h));
    const v = x.map((h) => map('self_attn.v_proj', h));
    stream = stream.map((h, t) => {
      const mixed: Vector = [];
      for (let head = 0; head < config.num_attention_heads; head++) {
        const shared = Math.floor(head / group);
        const query = rotate(headOf(q[t] as Vector, head, `${at}.self_attn.q_norm`), t);
        const keys = k.slice(0, t + 1).map((key, s) => rotate(headOf(key, shared, `${at}.self_attn.k_norm`), s));
        const p = softmax(keys.map((key) => dot(query, key) / Math.sqrt(D)));
        for (let d = 0; d < D; d++) {
          const values = v.slice(0, t + 1).map((value) => value[shared * D + d] as number);
          mixed.push(dot(p, values));
        }
      }
      return sum(h, map('self_attn.o_proj', mixed));
    });
    stream = stream.map((h) => {
      const y = norm(`${at}.post_attention_layernorm`, h);
      const up = map('mlp.up_proj', y);
      const gated = map('mlp.gate_proj', y).map((g, i) => (g / (1 + Math.exp(-g))) * (up[i] as number));
      return sum(h, map('mlp.down_proj', gated));
    });
  }
  return stream.map((h) => norm('model.norm', h));
}

/** The angle of a position and a pair of dimensions, and what cosines and sines are stretched by; by wavelengths, as the papers tell it. */
function plainAngles(config: ModelConfig, D: number) {
  const { rope_theta: theta, rope_scaling: scaling } = config;
  const wave = (i: number): number => 2 * Math.PI * theta ** ((2 * i) / D);
  const plain = (position: number, i: number): number => (2 * Math.PI * position) / wave(i);
  if (scaling === undefined || scaling.rope_type === 'dynamic') return { angle: plain, stretch: 1 };
  const { factor } = scaling;
  if (scaling.rope_type === 'linear') return { angle: (p: number, i: number) => plain(p / factor, i), stretch: 1 };
  const length = scaling.original_max_position_embeddings;
  // Turns that a pair makes over the length the model was first trained on.
  const turns = (i: number): number => length / wave(i);
  const between = (a: number, share: number) => (p: number, i: number) => plain(p, i) * (share + (1 - share) / a);
  if (scaling.rope_type === 'llama3') {
    const { low_freq_factor: low, high_freq_factor: high } = scaling;
    const kept = (i: number): number => Math.min(1, Math.max(0, (turns(i) - low) / (high - low)));
    return { angle: (p: number, i: number) => between(factor, kept(i))(p, i), stretch: 1 };
  }
  const {
    beta_fast = 32,
    beta_slow = 1,
    truncate = true,
    attention_factor: attentionFactor,
    mscale,
    mscale_all_dim,
  } = scaling;
  const pairOf = (count: number): number => (D / 2) * (Math.log(length / (2 * Math.PI * count)) / Math.log(theta));
  const first = Math.max(0, truncate ? Math.floor(pairOf(beta_fast)) : pairOf(beta_fast));
  const end = Math.min(D - 1, truncate ? Math.ceil(pairOf(beta_slow)) : pairOf(beta_slow));
  const span = end === first ? 0.001 : end - first;
  const kept = (i: number): number => 1 - Math.min(1, Math.max(0, (i - first) / span));
  const temper = (by: number): number => (factor > 1 ? 1 + 0.1 * by * Math.log(factor) : 1);
  const both = mscale !== undefined && mscale_all_dim !== undefined;
  const stretch = attentionFactor ?? (both ? temper(mscale) / temper(mscale_all_dim) : temper(1));
  return { angle: (p: number, i: number) => between(factor, kept(i))(p, i), stretch };
}

const dot = (a: Vector, b: Vector): number => a.reduce((total, x, i) => total + x * (b[i] as number), 0);
const sum = (a: Vector, b: Vector): Vector => a.map((x, i) => x + (b[i] as number));

function softmax(x: Vector): Vector {
  const most = Math.max(...x);
  const e = x.map((value) => Math.exp(value - most));
  const total = e.reduce((a, b) => a + b, 0);
  return e.map((value) => value / total);
}
