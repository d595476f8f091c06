/**
 * The usage of a call in our names, whichever source counted it. `input_tokens` are all tokens that the model read and `output_tokens`
 * all that it wrote; `cached_input_tokens` came from a cache, `cache_write_input_tokens` went into one and `reasoning_tokens` were
 * thought: parts of these two. Sources count the parts within the whole or beside it; their total says which, else the name of the part.
 */
import { isRecord, type JsonObject, without } from '../../events/json.ts';

/** The names in the field, in snake case; a member of a member is named `member.name`, as conventions of spans write it too. */
const WHOLES = {
  input_tokens: ['prompt_tokens', 'input_tokens', 'prompt', 'input', 'prompt_token_count', 'prompt_n'],
  output_tokens: [
    'completion_tokens',
    'output_tokens',
    'completion',
    'output',
    'candidates_token_count',
    'predicted_n',
  ],
  total_tokens: ['total_tokens', 'total', 'total_token_count'],
  cost_usd: ['cost_usd', 'total_cost', 'cost.total', 'cost', 'spend'],
} as const;

type Part = {
  readonly ours: 'cached_input_tokens' | 'cache_write_input_tokens' | 'reasoning_tokens' | null;
  readonly of: 'input_tokens' | 'output_tokens';
  /** Names of what the whole holds. */
  readonly within: readonly string[];
  /** Names of what is counted beside the whole. */
  readonly beside: readonly string[];
};

const PARTS: readonly Part[] = [
  {
    ours: 'cached_input_tokens',
    of: 'input_tokens',
    within: [
      ...['cached_input_tokens', 'cached_tokens', 'cached_prompt_tokens', 'cache_input_tokens', 'cached'],
      ...['prompt_tokens_details.cached_tokens', 'input_tokens_details.cached_tokens', 'prompt_details.cache_read'],
      ...['input_token_details.cache_read', 'input_token_details.cache_read_tokens', 'input_tokens.cached'],
      ...['cache_read.input_tokens', 'details.cache_read_tokens', 'details.cached_tokens', 'cache_read_tokens'],
      ...['prompt_cache_hit_tokens', 'cached_content_token_count'],
    ],
    beside: [
      ...['cache_read_input_tokens', 'cache_read', 'cache.read', 'cache_n', 'input_tokens_cache_read'],
      ...['input_cached_tokens', 'input_cache_read', 'input_cache_read_tokens'],
    ],
  },
  {
    ours: 'cache_write_input_tokens',
    of: 'input_tokens',
    within: [
      ...['cache_write_input_tokens', 'cache_creation.input_tokens', 'cache_write.input_tokens', 'cache_write_tokens'],
      ...['prompt_tokens_details.cache_write_tokens', 'prompt_tokens_details.cache_creation_tokens'],
      ...['prompt_details.cache_write', 'input_token_details.cache_creation', 'input_token_details.cache_write_tokens'],
      ...['input_tokens.cache_write', 'details.cache_write_tokens'],
    ],
    beside: [
      ...['cache_creation_input_tokens', 'cache_write', 'cache.write', 'input_tokens_cache_write'],
      ...['input_cache_creation', 'input_cache_write', 'input_cache_creation_tokens'],
    ],
  },
  {
    ours: 'reasoning_tokens',
    of: 'output_tokens',
    within: [
      ...['reasoning_tokens', 'reasoning_output_tokens', 'reasoning', 'completion_tokens_details.reasoning_tokens'],
      ...['output_tokens_details.reasoning_tokens', 'output_token_details.reasoning', 'completion_details.reasoning'],
      ...['output_token_details.reasoning_tokens', 'output_tokens.reasoning', 'reasoning.output_tokens'],
      'details.reasoning_tokens',
    ],
    beside: ['thoughts', 'thoughts_token_count', 'output_reasoning', 'output_reasoning_tokens'],
  },
  // What Gemini's tools put into the prompt.
  { ours: null, of: 'input_tokens', within: [], beside: ['tool', 'tool_use_prompt_token_count'] },
];

const KNOWN = new Set([
  ...Object.values(WHOLES).flat(),
  ...PARTS.flatMap(({ within, beside }) => [...within, ...beside]),
]);

/** Langfuse counts parts of any name beside `input` and `output`; tokens of a priority tier are no part of their own. */
const BUCKET = /^(input|output)_(?!tokens?(?:_|$)|priority)/;

/**
 * Undefined for what says nothing. Members without a name of ours stay as they are, but for null. `cache` says how the source counts what its cache held
 * where neither a total nor the names do.
 */
export function usageOf(native: unknown, cache?: 'within' | 'beside'): Record<string, unknown> | undefined {
  if (!isRecord(native)) return undefined;
  const { counts, rest } = countsIn(native);
  const [input, output] = [sideOf(counts, 'input_tokens', cache), sideOf(counts, 'output_tokens')];
  const total = first(counts, WHOLES.total_tokens);
  const [read, written] = billed(input, output, total?.count ?? 0);
  const parts = PARTS.flatMap(({ ours, within, beside }) => {
    const part = first(counts, [...within, ...beside]);
    return ours === null || part === undefined ? [] : [[ours, part.count] as const];
  });
  // A price of nothing is what programs write that know none.
  const cost = first(counts, WHOLES.cost_usd)?.count;
  return without({
    ...rest,
    ...(read === null ? {} : { input_tokens: read }),
    ...(written === null ? {} : { output_tokens: written }),
    ...(total === undefined ? {} : { total_tokens: total.count }),
    ...Object.fromEntries(parts),
    ...(cost ? { cost_usd: cost } : {}),
  });
}

type Counts = ReadonlyMap<string, number>;

const isCost = (name: string): boolean => (WHOLES.cost_usd as readonly string[]).includes(name);

/** The counts by their names in the table, and the members that are none. */
function countsIn(native: JsonObject): { readonly counts: Counts; readonly rest: JsonObject } {
  const counts = new Map<string, number>();
  const rest: Record<string, unknown> = {};
  for (const [member, value] of Object.entries(native)) {
    const name = snake(member);
    const counted = isCost(name) ? costIn(value) : count(value);
    const isPart = KNOWN.has(name) || (BUCKET.test(name) && Object.hasOwn(native, name.slice(0, name.indexOf('_'))));
    if (isPart && counted !== null) counts.set(name, counted);
    else if (value !== null) rest[member] = value;
    if (!isRecord(value)) continue;
    for (const [inner, part] of Object.entries(value)) {
      const path = `${name}.${snake(inner)}`;
      const within = isCost(path) ? costIn(part) : count(part);
      if (KNOWN.has(path) && within !== null) counts.set(path, within);
    }
  }
  return { counts, rest };
}

const snake = (name: string): string => name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase();

/** A count; 64-bit integers are texts in some JSON. */
function count(value: unknown): number | null {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : null;
}

const costIn = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;

/** The first of these that counted something; one that is 0 where none did: programs fill names that they do not use with 0. */
function first(
  counts: Counts,
  names: readonly string[],
): { readonly name: string; readonly count: number } | undefined {
  const found = names.flatMap((name) => (counts.has(name) ? [{ name, count: counts.get(name)! }] : []));
  return found.find((one) => one.count > 0) ?? found[0];
}

/** One side of a call: what its name counts, and its parts by whether their names say that it holds them. */
type Side = { readonly whole: number | null; readonly within: number; readonly beside: number };

function sideOf(counts: Counts, of: Part['of'], counted?: 'within' | 'beside'): Side {
  const whole = first(counts, WHOLES[of]);
  const parts = PARTS.filter((part) => part.of === of).flatMap(({ ours, within, beside }) => {
    const part = first(counts, [...within, ...beside]);
    return part ? [{ ...part, isCache: ours !== null, isBeside: beside.includes(part.name) }] : [];
  });
  // Anthropic's names are beside its `input_tokens`; programs that count as OpenAI does write them within `prompt_tokens`.
  const named = /^prompt(?:_tokens)?$/.test(whole?.name ?? '')
    ? false
    : parts.some(({ isCache, isBeside, count: tokens }) => isCache && isBeside && tokens > 0);
  const cacheIsBeside = of === 'output_tokens' ? null : counted === undefined ? named : counted === 'beside';
  let [within, beside] = [0, 0];
  for (const { isCache, isBeside, count: tokens } of parts) {
    if (isCache && cacheIsBeside !== null ? cacheIsBeside : isBeside) beside += tokens;
    else within += tokens;
  }
  for (const [name, tokens] of counts)
    if (!KNOWN.has(name) && name.startsWith(of.slice(0, of.indexOf('_')))) beside += tokens;
  return { whole: whole?.count ?? null, within, beside };
}

/** Tokens read and written: the reading of both sides that makes the total; without one that of the names, but no part exceeds its whole. */
function billed(input: Side, output: Side, total: number): readonly [read: number | null, written: number | null] {
  const [reads, writes] = [readings(input), readings(output)];
  if (input.whole === null || output.whole === null) return [likely(input), likely(output)];
  const possible = reads.filter((read) => read >= input.within + input.beside);
  for (const read of possible) for (const written of writes) if (read + written === total) return [read, written];
  return [likely(input), likely(output)];
}

/** What a side may amount to, what its names say first. */
const readings = ({ whole, within, beside }: Side): readonly number[] =>
  whole === null ? [] : [whole + beside, whole, whole + within + beside];

const likely = ({ whole, within, beside }: Side): number | null =>
  whole === null ? null : within > whole ? whole + within + beside : whole + beside;

/** The usage of an answer. Streams of Moonshot have it in their choices: what was read in each of them, and what each wrote. */
export function answerUsage(response: unknown): Record<string, unknown> | undefined {
  if (!isRecord(response)) return undefined;
  const whole = usageOf(response.usage);
  const choices = Array.isArray(response.choices) ? response.choices : [];
  const [one, ...others] = choices.flatMap((choice): Record<string, unknown>[] => {
    const usage = isRecord(choice) ? usageOf(choice.usage) : undefined;
    return usage ? [usage] : [];
  });
  if (whole !== undefined || one === undefined || others.length === 0) return whole ?? one;
  const { total_tokens: _, ...all } = one;
  const written = [one, ...others].reduce((sum, usage) => sum + (count(usage.output_tokens) ?? 0), 0);
  return { ...all, output_tokens: written };
}

/** The usage of a source that is written back: its own members beside ours. */
export const withOurs = (native: JsonObject): Record<string, unknown> => ({ ...native, ...usageOf(native) });

/** The source's own members of {@link withOurs}; of any other usage all. */
export function withoutOurs(usage: JsonObject): JsonObject {
  let own = usage;
  for (const name of ADDED) {
    const { [name]: added, ...others } = own;
    if (added !== undefined && withOurs(others)[name] === added) own = others;
  }
  return own;
}

const ADDED = ['input_tokens', 'output_tokens', 'cost_usd', ...PARTS.flatMap(({ ours }) => ours ?? [])];

/**
 * What a stream says of its usage after what it said before. A count is of all that came so far, so the later one holds; a 0 where there
 * was a count says nothing. What was read is replaced as a whole, so that tokens which turn out to come from a cache are not counted twice.
 */
export function laterUsage(before: unknown, after: unknown): unknown {
  if (!isRecord(before) || !isRecord(after)) return after ?? before;
  const reads = isReading(after);
  return Object.fromEntries(
    [...new Set([...Object.keys(before), ...Object.keys(after)])].map((name) => {
      const [old, young] = [before[name], after[name]];
      const isEmpty = young === undefined || young === null || (young === 0 && !(reads && READ.test(name)));
      return [name, isRecord(young) && isRecord(old) ? laterUsage(old, young) : isEmpty ? (old ?? young) : young];
    }),
  );
}

const READ = /^(?:input_tokens|cache_read_input_tokens|cache_creation_input_tokens)$/;

const isReading = (usage: JsonObject): boolean =>
  Object.entries(usage).some(([name, value]) => READ.test(name) && (count(value) ?? 0) > 0);
