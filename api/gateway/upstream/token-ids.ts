/**
 * Token ids and log-probabilities that vLLM (from 0.10.2) and SGLang (from 0.5.13; in streams of chat completions as of 0.5.23,
 * entrypoints/openai/protocol.py) return if a request asks for them. The gateway asks for its record; the client gets what it asked for
 * itself. Pure.
 */
import { asText, isRecord, type JsonObject, ownOf } from '../../../ingest/events/json.ts';
import type { Kind } from './kind.ts';
import type { Upstream } from './settings.ts';

/** What asks for token ids in an interface; null where a server returns none. */
function asked(tokenIds: NonNullable<Upstream['tokenIds']>, kind: Kind, request: JsonObject): readonly string[] | null {
  if (kind === 'text') return ['return_token_ids'];
  if (tokenIds === 'vllm') {
    if (kind === 'chat') return ['return_token_ids'];
    return kind === 'responses' && request.background !== true ? ['enable_response_messages'] : null;
  }
  if (kind !== 'chat') return null;
  return request.stream === true
    ? ['return_input_ids_in_sglext', 'return_output_ids_in_sglext']
    : ['return_prompt_token_ids', 'return_meta_info'];
}

/**
 * The fields to add to a request; none where they are there already. Null if the server returns no token ids for it. Log-probabilities
 * are not asked of the Responses API: vLLM refuses them there for gpt-oss. A stream is asked for its usage, which says how many ids there are.
 */
export function tokenFields(
  { tokenIds }: Pick<Upstream, 'tokenIds'>,
  kind: Kind,
  request: JsonObject,
): JsonObject | null {
  const names = tokenIds === null ? null : asked(tokenIds, kind, request);
  if (names === null) return null;
  const hasLogprobs = kind === 'chat' ? request.logprobs === true : kind !== 'text' || request.logprobs != null;
  const options = isRecord(request.stream_options) ? request.stream_options : {};
  const hasUsage = request.stream !== true || kind === 'responses' || options.include_usage === true;
  return {
    ...(hasLogprobs ? {} : { logprobs: kind === 'chat' ? true : 0 }),
    ...(hasUsage ? {} : { stream_options: { ...options, include_usage: true } }),
    ...Object.fromEntries(names.filter((name) => request[name] !== true).map((name) => [name, true])),
  };
}

/** Member of a choice that was put together from chunks of which some had output and no ids, and others had ids. */
export const LOST = 'lost_token_ids';

/** What a server returns for a field that was added: on the response, in its extension `sglext`, and on each of its choices. */
type ReturnedFields = {
  readonly body?: readonly string[];
  readonly sglext?: readonly string[];
  readonly choice?: readonly string[];
};
const RETURNED: Readonly<Record<string, ReturnedFields>> = {
  stream_options: { body: ['usage'] },
  return_token_ids: { body: ['prompt_token_ids'], choice: ['prompt_token_ids', 'token_ids', LOST] },
  return_prompt_token_ids: { choice: ['prompt_token_ids'] },
  return_meta_info: { choice: ['meta_info'] },
  return_input_ids_in_sglext: { sglext: ['input_ids'] },
  return_output_ids_in_sglext: { sglext: ['output_ids'] },
  enable_response_messages: { body: ['input_messages', 'output_messages'] },
};

/** A response, or an event of its stream, without what the added fields brought; null for an event that held nothing else. */
export function withoutAdded(body: unknown, added: JsonObject): unknown {
  if (!isRecord(body)) return body;
  const names = (of: keyof ReturnedFields) => Object.keys(added).flatMap((name) => ownOf(RETURNED, name)?.[of] ?? []);
  const choices = Array.isArray(body.choices) ? body.choices : null;
  const choice = (one: unknown): unknown => {
    if (!isRecord(one)) return one;
    const rest = dropped(one, names('choice'));
    return 'logprobs' in added && 'logprobs' in rest ? { ...rest, logprobs: null } : rest;
  };
  const { sglext, ...plain } = body;
  const extension = isRecord(sglext) ? dropped(sglext, names('sglext')) : sglext;
  const isGone = isRecord(extension) && Object.keys(extension).length === 0;
  const holdsUsage = plain.usage != null;
  const rest = dropped(
    plain,
    names('body').filter((name) => name !== 'usage' || holdsUsage),
  );
  if (choices?.length === 0 && (isGone || (extension === undefined && holdsUsage)) && rest.usage == null) return null;
  return {
    ...rest,
    ...(isRecord(body.response) ? { response: dropped(body.response, names('body')) } : {}),
    ...(extension === undefined || isGone ? {} : { sglext: extension }),
    ...(choices === null ? {} : { choices: choices.map(choice) }),
  };
}

const dropped = (fields: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)));

const isIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0);
const isNumbers = (values: readonly unknown[]): values is number[] =>
  values.every((value) => typeof value === 'number' && Number.isFinite(value) && Math.abs(value) < 3.4e38);

/** Token ids of the prompt: of the response, or the same in all of its choices; null where there are none. */
export function promptIdsOf(response: JsonObject | null): readonly number[] | null {
  if (isIds(response?.prompt_token_ids)) return response.prompt_token_ids;
  if (isRecord(response?.sglext) && isIds(response.sglext.input_ids)) return response.sglext.input_ids;
  if (response !== null && 'input_messages' in response) return messageIds(response)?.prompt ?? null;
  const choices = Array.isArray(response?.choices) ? response.choices.filter(isRecord) : [];
  const [first, ...others] = choices.map(({ prompt_token_ids: ids }) => (isIds(ids) ? ids : null));
  const isSame = others.every((ids) => JSON.stringify(ids) === JSON.stringify(first));
  return first != null && isSame ? first : null;
}

/** Of the Responses API of vLLM: what the model read and wrote, each as one text with its tokens; null where it is more than one call. */
function messageIds({ input_messages: read, output_messages: written }: JsonObject) {
  const [prompt, output] = [read, written].map((list) =>
    Array.isArray(list) && list.length === 1 && isRecord(list[0]) && isIds(list[0].tokens) ? list[0].tokens : null,
  );
  return prompt && output ? { prompt, output } : null;
}

type UpstreamExchange = {
  readonly upstream: Pick<Upstream, 'tokenIds' | 'logprobs'>;
  readonly request: JsonObject;
  readonly response: JsonObject | null;
};

/** The output of the Responses API as a choice: its text is one, and its log-probabilities are those of all tokens. */
export function responseChoice(response: JsonObject | null): JsonObject {
  const output = Array.isArray(response?.output) ? response.output.filter(isRecord) : [];
  const parts = output.flatMap(({ content }) => (Array.isArray(content) ? content.filter(isRecord) : []));
  const logprobs = { content: parts.find(({ logprobs }) => Array.isArray(logprobs))?.logprobs };
  return { token_ids: response === null ? null : messageIds(response)?.output, logprobs };
}

/**
 * The tokens of all choices. Servers lose ids: vLLM streamed no chunk, and so no ids, while its parser of tool calls held text back
 * (vllm-project/vllm#27482). Ids that are fewer than the tokens that were counted are not the answer's, so they stay in the raw record.
 */
export function answerTokens(
  choices: readonly JsonObject[],
  answered: UpstreamExchange,
): { readonly tokens: readonly object[]; readonly lost: boolean } {
  const tokens = choices.map((choice) => tokensOf(choice, answered));
  const sizes = tokens.map((one) => ('token_ids' in one ? (one.token_ids as readonly number[]).length : null));
  const { usage } = answered.response ?? {};
  const counted = isRecord(usage) ? Number(usage.completion_tokens ?? usage.output_tokens ?? 0) : 0;
  const isShort = sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0) < counted;
  const isLost = (choice: JsonObject, size: number | null) =>
    size !== null && (isShort || choice[LOST] === true || size < countedOf(choice));
  const lost = choices.map((choice, i) => isLost(choice, sizes[i]!));
  return { tokens: tokens.map((one, i) => (lost[i] ? {} : one)), lost: lost.includes(true) };
}

/** SGLang counts the tokens of each choice. */
const countedOf = ({ meta_info: meta }: JsonObject): number =>
  isRecord(meta) ? Number(meta.completion_tokens ?? 0) : 0;

/**
 * Token ids of a choice and one log-probability a token. What does not fit together stays in the raw record. Where they are not those of
 * the distribution that the tokens were drawn from, log-probabilities are recorded as `raw_logprobs`; without token ids they are recorded as
 * a server gives them that the configuration says nothing about.
 */
export function tokensOf(choice: JsonObject, { upstream, request, response }: UpstreamExchange): object {
  const tokens =
    isRecord(choice.logprobs) && Array.isArray(choice.logprobs.content) ? choice.logprobs.content.filter(isRecord) : [];
  const triples = triplesOf(choice.meta_info);
  const listed =
    isRecord(response?.sglext) && Array.isArray(response.sglext.output_ids) ? response.sglext.output_ids : [];
  const own = choice.token_ids ?? listed[choice.index as number];
  const ids = isIds(own) ? own : (triples?.map(([, id]) => id) ?? namedIds(tokens));
  const values =
    isRecord(choice.logprobs) && Array.isArray(choice.logprobs.token_logprobs)
      ? choice.logprobs.token_logprobs
      : (triples?.map(([logprob]) => logprob) ?? tokens.map(({ logprob }) => logprob));
  const hasIds = isIds(ids) && (isIds(own) || ids.length > 0);
  const drawn = isDrawn(upstream, request) || (upstream.tokenIds === null && !hasIds);
  const fits = values.length > 0 && isNumbers(values) && (!hasIds || ids.length === values.length);
  const best = tokens.map(({ top_logprobs: top }) => (Array.isArray(top) ? top.filter(isRecord) : []));
  return {
    ...(hasIds ? { token_ids: ids } : {}),
    ...(fits ? { [drawn ? 'logprobs' : 'raw_logprobs']: values } : {}),
    ...(fits && best.some((top) => top.length > 0) ? { top_logprobs: best } : {}),
  };
}

/** SGLang: log-probability, id and text of each token. */
function triplesOf(meta: unknown): readonly (readonly [unknown, unknown])[] | null {
  const list = isRecord(meta) ? meta.output_token_logprobs : null;
  return Array.isArray(list) && list.length > 0 && list.every(Array.isArray) ? (list as [unknown, unknown][]) : null;
}

/** The ids of tokens that are named `token_id:N`; null if one is not. */
function namedIds(tokens: readonly JsonObject[]): number[] | null {
  const ids = tokens.map(({ token }) => Number(/^token_id:(\d+)$/.exec(asText(token))?.[1] ?? Number.NaN));
  return ids.every(Number.isSafeInteger) ? ids : null;
}

/** Parameters that change what is drawn from, with the values that change nothing. */
const NEUTRAL: Readonly<Record<string, readonly unknown[]>> = {
  temperature: [1],
  top_p: [1],
  top_k: [-1, 0],
  min_p: [0],
  presence_penalty: [0],
  frequency_penalty: [0],
  repetition_penalty: [1],
  logit_bias: [],
};
/** What SGLang cuts off and does not count in its log-probabilities. */
const CUTS = ['top_p', 'top_k', 'min_p'];
/** Parameters that servers take from the model's generation_config.json where a request leaves them out; the others change nothing then. */
const FROM_MODEL = Object.keys(NEUTRAL).filter((name) => name !== 'logit_bias');

/**
 * Whether the log-probabilities of a server are those of the distribution drawn from: it says so (`logprobs: processed`), or the request
 * names parameters that change nothing. SGLang's are not where the request cuts tokens off. What a request to a vLLM or SGLang server
 * leaves out is not known: they take defaults from the model.
 */
export function isDrawn({ tokenIds, logprobs }: Pick<Upstream, 'tokenIds' | 'logprobs'>, request: JsonObject): boolean {
  const changesNothing = (name: string): boolean =>
    request[name] == null
      ? tokenIds === null || !FROM_MODEL.includes(name)
      : NEUTRAL[name]!.includes(request[name]) || isEmpty(request[name]);
  if (logprobs === 'processed')
    return tokenIds !== 'sglang' || CUTS.every((name) => request[name] == null || changesNothing(name));
  return Object.keys(NEUTRAL).every(changesNothing);
}

const isEmpty = (value: unknown): boolean => isRecord(value) && Object.keys(value).length === 0;
