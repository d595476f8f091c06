/** The rotary part of config.json, in its older spelling (`rope_theta`, `rope_scaling`) and its newer (`rope_parameters`). */
import type { JsonObject } from '../../ingest/events/json.ts';
import { jsonFields, unsupported } from './model-config-fields.ts';
import type { RopeScaling } from './weights.ts';

/**
 * θ and the scaling. Where both spellings are there `rope_scaling` counts, and `original_max_position_embeddings` beside it
 * counts before the one within, as in transformers. Throws `model_unsupported` naming the field.
 */
export function readRopeScaling(
  config: JsonObject,
  maxPositions: number,
): { readonly theta: number; readonly scaling: RopeScaling | null } {
  const name = isFilled(config.rope_scaling) ? 'rope_scaling' : 'rope_parameters';
  const rope = config[name] ?? {};
  if (typeof rope !== 'object' || Array.isArray(rope)) throw unsupported(name, 'an object or null', rope);
  const within = rope as JsonObject;
  const nested = Object.entries(within).find(([, value]) => typeof value === 'object' && value !== null);
  if (nested) throw unsupported(`${name}.${nested[0]}`, 'one number for all layers', nested[1]);
  const { positive, optional, count, flag } = jsonFields(within, {}, `${name}.`);
  const theta = within.rope_theta == null ? jsonFields(config).positive('rope_theta', 10000) : positive('rope_theta');
  if ((within.partial_rotary_factor ?? 1) !== 1) {
    throw unsupported(`${name}.partial_rotary_factor`, '1 or absent', within.partial_rotary_factor);
  }
  const original = (): number =>
    config.original_max_position_embeddings == null
      ? count('original_max_position_embeddings', maxPositions)
      : jsonFields(config).count('original_max_position_embeddings');
  const type: unknown = within.rope_type ?? within.type ?? 'default';
  switch (type) {
    case 'default':
      return { theta, scaling: null };
    case 'linear':
    case 'dynamic':
      return { theta, scaling: { rope_type: type, factor: positive('factor') } };
    case 'llama3': {
      const low = positive('low_freq_factor');
      const high = positive('high_freq_factor');
      if (high <= low) throw unsupported(`${name}.high_freq_factor`, `above low_freq_factor ${low}`, high);
      const lengths = { low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: original() };
      return { theta, scaling: { rope_type: type, factor: positive('factor'), ...lengths } };
    }
    case 'yarn': {
      if (theta <= 1) throw unsupported('rope_theta', 'above 1 for yarn', theta);
      const numbers = ['attention_factor', 'beta_fast', 'beta_slow', 'mscale', 'mscale_all_dim'].map((field) => [
        field,
        optional(field),
      ]);
      const scaling = {
        rope_type: type,
        factor: positive('factor'),
        original_max_position_embeddings: original(),
        ...Object.fromEntries(numbers.filter(([, value]) => value !== undefined)),
        ...(within.truncate == null ? {} : { truncate: flag('truncate') }),
      } as const;
      return { theta, scaling };
    }
    default:
      throw unsupported(`${name}.rope_type`, '"default", "linear", "dynamic", "llama3" or "yarn"', type);
  }
}

const isFilled = (value: unknown): boolean =>
  value != null && !(typeof value === 'object' && Object.keys(value).length === 0);
