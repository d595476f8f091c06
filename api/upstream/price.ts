/** Token usage and cost of a call. Unknown is null, never 0. */
import { inputTokens } from '../../ingest/formats/usage.ts';
import { isRecord } from '../../ingest/json.ts';
import type { Price } from './settings.ts';

/** Counts of tokens in the vocabulary's names, whichever of OpenAI's interfaces counted; null where nothing was counted. */
export function usageOf(usage: unknown): Record<string, unknown> | null {
  if (!isRecord(usage)) return null;
  const input = inputTokens(usage);
  const output = count(usage.output_tokens ?? usage.completion_tokens);
  const cached =
    count(usage.cache_read_input_tokens) ??
    detail(usage.input_tokens_details ?? usage.prompt_tokens_details, 'cached_tokens');
  const reasoning = detail(usage.output_tokens_details ?? usage.completion_tokens_details, 'reasoning_tokens');
  return {
    ...usage,
    input_tokens: input,
    output_tokens: output,
    ...(cached === null ? {} : { cached_input_tokens: cached }),
    ...(reasoning === null ? {} : { reasoning_tokens: reasoning }),
  };
}

/** US dollars for these tokens; null where the price or a count is not known, also the price of what a cache was given. What embeds text puts out no tokens. */
export function costOf(usage: Record<string, unknown> | null, price: Price | null, embeds = false): number | null {
  if (usage === null || price === null) return null;
  const input = count(usage.input_tokens);
  const output = embeds ? 0 : count(usage.output_tokens);
  if (input === null || output === null || (count(usage.cache_creation_input_tokens) ?? 0) > 0) return null;
  const cached = Math.min(count(usage.cached_input_tokens) ?? 0, input);
  const millionths =
    (input - cached) * price.input + cached * (price.cachedInput ?? price.input) + output * price.output;
  return Number((millionths / 1e6).toPrecision(12));
}

const detail = (details: unknown, name: string): number | null => (isRecord(details) ? count(details[name]) : null);
const count = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
