/**
 * Token ids and log-probabilities that vLLM (from 0.10.2) and SGLang (from 0.5.13) return if a request asks for them. The gateway asks
 * for its record; the client gets what it asked for itself. Pure.
 */
import { isRecord } from '../../ingest/json.ts';
import type { Kind } from './record.ts';
import type { Upstream } from './settings.ts';

type Fields = Readonly<Record<string, unknown>>;

const ASKED = {
  vllm: ['return_token_ids'],
  sglang: ['return_prompt_token_ids', 'return_meta_info'],
} as const;

/**
 * The fields to add to a request; none where they are there already. Null if the server returns no token ids for it: in other
 * interfaces, and in streams of SGLang, which refuses these fields there.
 */
export function tokenFields({ tokenIds }: Pick<Upstream, 'tokenIds'>, kind: Kind, request: Fields): Fields | null {
  if (tokenIds === null || !(kind === 'chat' || (kind === 'text' && tokenIds === 'vllm'))) return null;
  if (tokenIds === 'sglang' && request.stream === true) return null;
  const wanted = ASKED[tokenIds].filter((name) => request[name] !== true);
  const logprobs = kind === 'chat' ? request.logprobs !== true : request.logprobs == null;
  return {
    ...(logprobs ? { logprobs: kind === 'chat' ? true : 0 } : {}),
    ...Object.fromEntries(wanted.map((name) => [name, true])),
  };
}

/** What a server returns for a field that was added: on the response, and on each of its choices. */
const RETURNED: Readonly<Record<string, { readonly body: readonly string[]; readonly choice: readonly string[] }>> = {
  return_token_ids: { body: ['prompt_token_ids'], choice: ['prompt_token_ids', 'token_ids'] },
  return_prompt_token_ids: { body: [], choice: ['prompt_token_ids'] },
  return_meta_info: { body: [], choice: ['meta_info'] },
};

/** A response, or a chunk of its stream, without what the added fields brought. */
export function withoutAdded(body: unknown, added: Fields): unknown {
  if (!isRecord(body)) return body;
  const returned = Object.keys(added).flatMap((name) => RETURNED[name] ?? []);
  const choices = Array.isArray(body.choices) ? body.choices : null;
  const choice = (one: unknown): unknown => {
    if (!isRecord(one)) return one;
    const rest = dropped(
      one,
      returned.flatMap((names) => names.choice),
    );
    return 'logprobs' in added && 'logprobs' in rest ? { ...rest, logprobs: null } : rest;
  };
  return {
    ...dropped(
      body,
      returned.flatMap((names) => names.body),
    ),
    ...(choices === null ? {} : { choices: choices.map(choice) }),
  };
}

const dropped = (fields: Fields, names: readonly string[]): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)));

const isIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0);
const isNumbers = (values: readonly unknown[]): values is number[] =>
  values.every((value) => typeof value === 'number' && Number.isFinite(value) && Math.abs(value) < 3.4e38);

/** Token ids of the prompt: of the response, or the same in all of its choices; null where there are none. */
export function promptIdsOf(response: Fields | null): readonly number[] | null {
  if (isIds(response?.prompt_token_ids)) return response.prompt_token_ids;
  const choices = Array.isArray(response?.choices) ? response.choices.filter(isRecord) : [];
  const [first, ...others] = choices.map(({ prompt_token_ids: ids }) => (isIds(ids) ? ids : null));
  const isSame = others.every((ids) => JSON.stringify(ids) === JSON.stringify(first));
  return first != null && isSame ? first : null;
}

/**
 * Token ids of a choice and one log-probability a token. What does not fit together stays in the raw record. `drawn`: the numbers are
 * under the distribution that the tokens were drawn from; otherwise they are recorded as `raw_logprobs`.
 */
export function tokensOf(choice: Fields, drawn: boolean): object {
  const tokens =
    isRecord(choice.logprobs) && Array.isArray(choice.logprobs.content) ? choice.logprobs.content.filter(isRecord) : [];
  const triples = triplesOf(choice.meta_info);
  const ids = isIds(choice.token_ids) ? choice.token_ids : (triples?.map(([, id]) => id) ?? namedIds(tokens));
  const values =
    isRecord(choice.logprobs) && Array.isArray(choice.logprobs.token_logprobs)
      ? choice.logprobs.token_logprobs
      : (triples?.map(([logprob]) => logprob) ?? tokens.map(({ logprob }) => logprob));
  const hasIds = isIds(ids) && (isIds(choice.token_ids) || ids.length > 0);
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
function namedIds(tokens: readonly Fields[]): number[] | null {
  const ids = tokens.map(({ token }) => Number(/^token_id:(\d+)$/.exec(String(token))?.[1] ?? Number.NaN));
  return ids.every(Number.isSafeInteger) ? ids : null;
}

/**
 * Whether the log-probabilities of a server are those of the distribution drawn from: it says so (`logprobs: processed`), or the request
 * names parameters that change nothing. A parameter that a request leaves out is not known: servers take defaults from the model.
 */
export function isDrawn({ tokenIds, logprobs }: Pick<Upstream, 'tokenIds' | 'logprobs'>, request: Fields): boolean {
  if (tokenIds === null || logprobs === 'processed') return true;
  const { temperature, top_p: topP, top_k: topK } = request;
  return temperature === 1 && topP === 1 && (topK === -1 || topK === 0);
}
