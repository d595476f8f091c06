/** Sampling parameters: the fields that /v1/chat/completions and /v1/completions have in common. */
import { got, TroupeError } from '../../errors.ts';

export type Sampling = {
  readonly n: number;
  /** Null where none was asked for. */
  readonly seed: number | null;
  readonly temperature: number;
  /** 0, 1 and 0 filter nothing. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly maxTokens: number | null;
  readonly stop: readonly string[];
  /** Number of most probable tokens to return at each position. */
  readonly topLogprobs: number;
  /** Log-probabilities at temperature 1 with nothing cut, beside those of the distribution drawn from. */
  readonly rawLogprobs: boolean;
  /** Whether a response ends after its first tool call. */
  readonly oneCall: boolean;
};

const MAX_N = 4096;

/** Parameters that change what is sampled and are not supported, with the values that change nothing. */
const NEUTRAL: Readonly<Record<string, readonly unknown[]>> = {
  presence_penalty: [0],
  frequency_penalty: [0],
  repetition_penalty: [1],
  logit_bias: [],
  verbosity: ['medium'],
  // Of vLLM and SGLang.
  add_generation_prompt: [true],
  allowed_token_ids: [],
  bad_words: [],
  best_of: [1],
  chat_template: [],
  chat_template_kwargs: [],
  continue_final_message: [false],
  documents: [],
  ebnf: [],
  echo: [false],
  guided_choice: [],
  guided_grammar: [],
  guided_json: [],
  guided_regex: [],
  ignore_eos: [false],
  include_stop_str_in_output: [false],
  length_penalty: [1],
  min_tokens: [0],
  regex: [],
  stop_regex: [],
  stop_token_ids: [],
  structured_outputs: [],
  truncate_prompt_tokens: [],
  typical_p: [1],
  use_beam_search: [false],
};

/** Throws `usage` for the first field that would change what is sampled and cannot. */
export function refuseUnsupported(
  fields: Readonly<Record<string, unknown>>,
  more: Readonly<Record<string, readonly unknown[]>>,
): void {
  for (const [field, neutral] of Object.entries({ ...NEUTRAL, ...more })) {
    const value = fields[field];
    if (value == null || neutral.includes(value) || (typeof value === 'object' && Object.keys(value).length === 0))
      continue;
    throw refuse(
      field,
      neutral.length === 0 ? 'left out' : JSON.stringify(neutral[0]),
      value,
      'It is not supported, and is not ignored either.',
    );
  }
}

/** Throws `usage` naming the first field that is none. */
export const readSampling = (
  fields: Readonly<Record<string, unknown>>,
): Omit<Sampling, 'maxTokens' | 'topLogprobs' | 'oneCall'> => ({
  n: whole('n', fields.n, 1, MAX_N) ?? 1,
  seed: whole('seed', fields.seed, 0),
  temperature: real('temperature', fields.temperature, 'a number from 0', (x) => x >= 0) ?? 1,
  topK: fields.top_k === -1 ? 0 : (whole('top_k', fields.top_k, 0) ?? 0),
  topP: real('top_p', fields.top_p, 'a number above 0 and at most 1', (x) => x > 0 && x <= 1) ?? 1,
  minP: real('min_p', fields.min_p, 'a number from 0 to 1', (x) => x >= 0 && x <= 1) ?? 0,
  stop: readStops('stop', fields.stop),
  rawLogprobs: flag('raw_logprobs', fields.raw_logprobs),
});

export const refuse = (field: string, expected: string, value: unknown, hint?: string): TroupeError =>
  new TroupeError('usage', `${field} should be ${expected}; it is ${got(value)}.`, {
    field,
    expected,
    got: got(value),
    ...(hint === undefined ? {} : { hint }),
  });

/** A whole number, null where none was given. */
export function whole(field: string, value: unknown, least: number, most = Number.MAX_SAFE_INTEGER): number | null {
  if (value == null) return null;
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return value as number;
  const to = most === Number.MAX_SAFE_INTEGER ? '' : ` to ${most}`;
  throw refuse(field, `a whole number from ${least}${to}`, value);
}

export function flag(field: string, value: unknown): boolean {
  if (value == null) return false;
  if (typeof value === 'boolean') return value;
  throw refuse(field, 'true or false', value);
}

function real(field: string, value: unknown, expected: string, fits: (x: number) => boolean): number | null {
  if (value == null) return null;
  if (typeof value === 'number' && Number.isFinite(value) && fits(value)) return value;
  throw refuse(field, expected, value);
}

/** Texts that end a sample. */
export function readStops(field: string, value: unknown): readonly string[] {
  const list = value == null ? [] : typeof value === 'string' ? [value] : value;
  if (Array.isArray(list) && list.length <= 16 && list.every((stop) => typeof stop === 'string' && stop !== ''))
    return list;
  throw refuse(field, 'a text, or a list of at most 16 texts that are not empty', value);
}
