/**
 * How fast each pair of a head's dimensions turns with the position, under each rotary scaling. Formulas are those of
 * huggingface/transformers src/transformers/modeling_rope_utils.py, in double precision. One function a scaling.
 */
import { got, TroupeError } from '../../errors.ts';
import { headSize } from './families.ts';
import type { ModelConfig, RopeScaling } from './weights.ts';

export type RotaryFrequencies = {
  /** Radians a position, [D/2]. */
  readonly frequencies: Float64Array;
  /** What cosines and sines are multiplied by. */
  readonly attentionFactor: number;
  /** Positions from here on have no angle; null where every position has one. */
  readonly end: number | null;
};

type Of<T extends RopeScaling['rope_type']> = Extract<RopeScaling, { rope_type: T }>;

/** Frequencies of a model. @throws TroupeError `model_unsupported` where the numbers give none that is finite. */
export function rotaryFrequencies(config: ModelConfig): RotaryFrequencies {
  const found = scaled(config);
  if (!found.frequencies.every(Number.isFinite) || !Number.isFinite(found.attentionFactor)) {
    const what = `rope_theta ${config.rope_theta} with rope_scaling ${got(config.rope_scaling ?? null)}`;
    throw new TroupeError('model_unsupported', `Rotary angles must be finite, got ${what}.`, {
      field: 'rope_scaling',
      got: what,
    });
  }
  return found;
}

function scaled(config: ModelConfig): RotaryFrequencies {
  const { rope_scaling: scaling, rope_theta: theta } = config;
  const plain = plainFrequencies(theta, headSize(config));
  const all = (frequencies: Float64Array, attentionFactor = 1): RotaryFrequencies => {
    return { frequencies, attentionFactor, end: null };
  };
  switch (scaling?.rope_type) {
    case undefined:
      return all(plain);
    case 'linear':
      return all(plain.map((f) => f / scaling.factor));
    case 'dynamic':
      return { ...all(plain), end: config.max_position_embeddings };
    case 'llama3':
      return all(llama3(plain, scaling));
    case 'yarn':
      return all(yarn(plain, theta, scaling), yarnAttention(scaling));
  }
}

/** θ^(−2i/D) for i of D/2 (Su et al. 2021, arXiv:2104.09864, section 3.2.2). */
const plainFrequencies = (theta: number, D: number): Float64Array =>
  Float64Array.from({ length: D / 2 }, (_, i) => theta ** ((-2 * i) / D));

/** Llama 3.1 (arXiv:2407.21783): long waves are stretched by the factor, short ones kept, those between interpolated. */
function llama3(plain: Float64Array, scaling: Of<'llama3'>): Float64Array {
  const { factor, low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: length } = scaling;
  return plain.map((f) => {
    const wave = (2 * Math.PI) / f;
    if (wave < length / high) return f;
    if (wave > length / low) return f / factor;
    const smooth = (length / wave - low) / (high - low);
    return ((1 - smooth) * f) / factor + smooth * f;
  });
}

/** YaRN (Peng et al. 2023, arXiv:2309.00071, section 3.2): a ramp over the dimensions from kept to stretched. */
function yarn(plain: Float64Array, theta: number, scaling: Of<'yarn'>): Float64Array {
  const { factor, original_max_position_embeddings: length, truncate = true } = scaling;
  const { beta_fast: fast = 32, beta_slow: slow = 1 } = scaling;
  const D = 2 * plain.length;
  const dimension = (turns: number): number => (D * Math.log(length / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const low = Math.max(truncate ? Math.floor(dimension(fast)) : dimension(fast), 0);
  const most = Math.min(truncate ? Math.ceil(dimension(slow)) : dimension(slow), D - 1);
  const high = low === most ? most + 0.001 : most;
  return plain.map((f, i) => {
    const stretched = Math.min(Math.max((i - low) / (high - low), 0), 1);
    return (f / factor) * stretched + f * (1 - stretched);
  });
}

/** Section 3.4 of YaRN, √(1/t) = 0.1·ln(factor) + 1, unless the configuration names the factor or two weights of the logarithm. */
function yarnAttention({ factor, attention_factor: given, mscale, mscale_all_dim: all }: Of<'yarn'>): number {
  if (given !== undefined) return given;
  const temper = (weight: number): number => (factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1);
  return mscale && all ? temper(mscale) / temper(all) : temper(1);
}
