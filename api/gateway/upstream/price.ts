/** The cost of a call. Unknown is null, never 0. */
import type { Price } from './settings.ts';

/** US dollars for these tokens; null where the price or a count is not known, also the price of what a cache was given. What embeds text puts out no tokens. */
export function costOf(usage: Record<string, unknown> | undefined, price: Price | null, embeds = false): number | null {
  if (usage === undefined || price === null) return null;
  const input = count(usage.input_tokens);
  const output = embeds ? 0 : count(usage.output_tokens);
  if (input === null || output === null || (count(usage.cache_write_input_tokens) ?? 0) > 0) return null;
  const cached = Math.min(count(usage.cached_input_tokens) ?? 0, input);
  const millionths =
    (input - cached) * price.input + cached * (price.cachedInput ?? price.input) + output * price.output;
  return Number((millionths / 1e6).toPrecision(12));
}

const count = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
