/** Tokens of the input of a call: all that the model read, those from a cache among them, whoever counted. */
type Fields = Readonly<Record<string, unknown>>;

const count = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;

/** Null where nothing was counted. Anthropic counts what it read from its cache, and wrote to it, beside the input; OpenAI within it. */
export function inputTokens({
  input_tokens: fresh,
  prompt_tokens: all,
  cache_read_input_tokens: read,
  cache_creation_input_tokens: written,
}: Fields): number | null {
  if (count(all) !== null) return count(all);
  return count(fresh) === null ? null : count(fresh)! + (count(read) ?? 0) + (count(written) ?? 0);
}

/** Usage of Anthropic's Messages API with the whole input; what cannot be counted stays as it is. */
export function wholeUsage(usage: Fields): Record<string, unknown> {
  const [input, cached] = [inputTokens(usage), count(usage.cache_read_input_tokens)];
  return {
    ...usage,
    ...(input === null ? {} : { input_tokens: input }),
    ...(cached === null ? {} : { cached_input_tokens: cached }),
  };
}
