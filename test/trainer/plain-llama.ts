/**
 * The decoder once more, token by token in double precision and plain loops: no batches, no padding, no cache, no graph.
 * Rotary positions, norms and grouped heads are written as in Hugging Face's modelling of the family.
 */
import type { ModelConfig, Weights } from '../../trainer/weights.ts';

type Vector = number[];

/** Log-probabilities [tokens, vocabulary] of what follows each of `ids`. */
export function plainLlama(config: ModelConfig, weights: Weights, ids: readonly number[]): Vector[] {
  const get = (name: string) => weights.get(name) as { shape: readonly number[]; data: Float32Array };
  const D = config.hidden_size / config.num_attention_heads;
  const group = config.num_attention_heads / config.num_key_value_heads;
  const embedding = get('model.embed_tokens.weight');
  const row = (table: typeof embedding, i: number): Vector => {
    const width = table.shape[1] as number;
    return [...table.data.subarray(i * width, (i + 1) * width)];
  };
  const times = (name: string, x: Vector): Vector => {
    const table = get(name);
    return Array.from({ length: table.shape[0] as number }, (_, o) => dot(row(table, o), x));
  };
  const norm = (name: string, x: Vector): Vector => {
    const scale = 1 / Math.sqrt(dot(x, x) / x.length + config.rms_norm_eps);
    return x.map((value, i) => value * scale * (get(name).data[i] as number));
  };
  const headOf = (x: Vector, h: number): Vector => x.slice(h * D, (h + 1) * D);
  // x·cos + rotate_half(x)·sin, cos and sin repeated for both halves.
  const rotate = (x: Vector, position: number): Vector =>
    x.map((value, i) => {
      const angle = position * config.rope_theta ** ((-2 * (i % (D / 2))) / D);
      const other = i < D / 2 ? -(x[i + D / 2] as number) : (x[i - D / 2] as number);
      return value * Math.cos(angle) + other * Math.sin(angle);
    });

  let stream = ids.map((id) => row(embedding, id));
  for (let l = 0; l < config.num_hidden_layers; l++) {
    const at = `model.layers.${l}`;
    const x = stream.map((h) => norm(`${at}.input_layernorm.weight`, h));
    const q = x.map((h) => times(`${at}.self_attn.q_proj.weight`, h));
    const k = x.map((h) => times(`${at}.self_attn.k_proj.weight`, h));
    const v = x.map((h) => times(`${at}.self_attn.v_proj.weight`, h));
    stream = stream.map((h, t) => {
      const mixed: Vector = [];
      for (let head = 0; head < config.num_attention_heads; head++) {
        const shared = Math.floor(head / group);
        const query = rotate(headOf(q[t] as Vector, head), t);
        const scores = k.slice(0, t + 1).map((key, s) => dot(query, rotate(headOf(key, shared), s)) / Math.sqrt(D));
        const p = softmax(scores);
        for (let d = 0; d < D; d++) {
          mixed.push(p.reduce((total, weight, s) => total + weight * (headOf(v[s] as Vector, shared)[d] as number), 0));
        }
      }
      return sum(h, times(`${at}.self_attn.o_proj.weight`, mixed));
    });
    stream = stream.map((h) => {
      const y = norm(`${at}.post_attention_layernorm.weight`, h);
      const up = times(`${at}.mlp.up_proj.weight`, y);
      const gated = times(`${at}.mlp.gate_proj.weight`, y).map((g, i) => (g / (1 + Math.exp(-g))) * (up[i] as number));
      return sum(h, times(`${at}.mlp.down_proj.weight`, gated));
    });
  }
  const last = config.tie_word_embeddings ? 'model.embed_tokens.weight' : 'lm_head.weight';
  return stream.map((h) => softmax(times(last, norm('model.norm.weight', h))).map(Math.log));
}

const dot = (a: Vector, b: Vector): number => a.reduce((total, x, i) => total + x * (b[i] as number), 0);
const sum = (a: Vector, b: Vector): Vector => a.map((x, i) => x + (b[i] as number));

function softmax(x: Vector): Vector {
  const most = Math.max(...x);
  const e = x.map((value) => Math.exp(value - most));
  const total = e.reduce((a, b) => a + b, 0);
  return e.map((value) => value / total);
}
