/** Configured model servers: where they are, which models they serve, and their prices. Addresses come only from here. */
import { wrongSetting } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import { isIdentifier } from '../../../ingest/events/text.ts';

/** US dollars for a million tokens. */
export type Price = {
  readonly input: number;
  /** Null where input from a cache costs the same. */
  readonly cachedInput: number | null;
  readonly output: number;
};

export type Upstream = {
  readonly name: string;
  /** Without a slash at its end. */
  readonly baseUrl: string;
  /** The key that is sent for our callers; null if the server needs none. */
  readonly key: string | null;
  /** The header of the key: Authorization with a bearer token, or x-api-key, as Anthropic's API expects. */
  readonly keyHeader: (typeof KEY_HEADERS)[number];
  /** Names, or prefixes that end with `*`. */
  readonly models: readonly string[];
  readonly prices: Readonly<Record<string, Price>>;
  /** True: its name may lead to an address of a private network. */
  readonly isPrivate: boolean;
  /** Timeout without data from it, in milliseconds. */
  readonly timeoutMs: number;
  /** The kind of server that is asked for token ids and log-probabilities; null: it is asked for none. */
  readonly tokenIds: (typeof ENGINES)[number] | null;
  /** Its log-probabilities: after temperature and filters (those of the distribution drawn from), or before. */
  readonly logprobs: (typeof LOGPROBS)[number];
  /** The checkpoint that each of its models is, where known. */
  readonly checkpoints: Readonly<Record<string, string>>;
  /** Policies whose weights it has: the process that samples for one of them calls it, and notifies it of releases. */
  readonly policies: readonly string[];
};

const KEY_HEADERS = ['authorization', 'x-api-key'] as const;
const ENGINES = ['vllm', 'sglang'] as const;
const LOGPROBS = ['raw', 'processed'] as const;
const FIELDS = [
  ...(['base_url', 'api_key_env', 'api_key_header', 'models', 'prices', 'private', 'timeout_s'] as const),
  ...(['token_ids', 'logprobs', 'checkpoints', 'policies'] as const),
];
const DEFAULT_TIMEOUT_S = 600;

type Env = Readonly<Record<string, string | undefined>>;

/**
 * The setting `upstreams`, a map of name to server; without it the server of TROUPE_UPSTREAM_BASE_URL and TROUPE_UPSTREAM_API_KEY, for
 * all models. Keys come from the environment variables that the setting names.
 * @throws TroupeError `config_invalid` naming the field
 */
export function readUpstreams(setting: unknown, env: Env): readonly Upstream[] {
  if (setting == null) {
    const { TROUPE_UPSTREAM_BASE_URL: url } = env;
    return url
      ? [readOne('default', { base_url: url, api_key_env: 'TROUPE_UPSTREAM_API_KEY', models: ['*'] }, env)]
      : [];
  }
  if (!isRecord(setting)) throw wrongSetting('upstreams', 'a map of name to server', setting);
  const upstreams = Object.entries(setting).map(([name, fields]) => readOne(name, fields, env));
  const seen = new Map<string, string>();
  for (const { name, models } of upstreams) {
    for (const model of models) {
      const other = seen.get(model);
      if (other !== undefined)
        throw wrongSetting(`upstreams.${name}.models`, `models that ${other} does not list`, model);
      seen.set(model, name);
    }
  }
  return upstreams;
}

function readOne(name: string, fields: unknown, env: Env): Upstream {
  const at = `upstreams.${name}`;
  if (!/^[a-z0-9][a-z0-9._-]{0,63}$/i.test(name))
    throw wrongSetting('upstreams', 'names of letters, digits, ".", "_", "-"', name);
  if (!isRecord(fields)) throw wrongSetting(at, 'a map with base_url', fields);
  if ('api_key' in fields)
    throw wrongSetting(`${at}.api_key`, 'left out; api_key_env names the environment variable', '***');
  const strange = Object.keys(fields).find((field) => !(FIELDS as readonly string[]).includes(field));
  if (strange !== undefined) throw wrongSetting(at, `only ${FIELDS.join(', ')}`, strange);
  const { base_url, api_key_env: variable, models = [], prices = {}, private: isPrivate = false } = fields;
  const { timeout_s: seconds = DEFAULT_TIMEOUT_S, api_key_header: header = 'authorization' } = fields;
  const { token_ids: engine = null, logprobs = 'raw', checkpoints = {}, policies = [] } = fields;
  const oneOf = <T extends string>(field: string, names: readonly T[], value: unknown): T => {
    const found = names.find((name) => name === value);
    if (found === undefined) throw wrongSetting(`${at}.${field}`, names.join(' or '), value);
    return found;
  };
  if (!Array.isArray(policies) || !policies.every(isIdentifier))
    throw wrongSetting(`${at}.policies`, 'a list of policies', policies);
  if (policies.length > 0 && engine === null)
    throw wrongSetting(`${at}.token_ids`, 'vllm or sglang, so that releases can be loaded into it', engine);
  if (!isRecord(checkpoints) || !Object.values(checkpoints).every(isIdentifier))
    throw wrongSetting(`${at}.checkpoints`, 'a map of model to checkpoint id', checkpoints);
  if (variable !== undefined && typeof variable !== 'string')
    throw wrongSetting(`${at}.api_key_env`, 'a variable', variable);
  if (!Array.isArray(models) || !models.every((model) => typeof model === 'string' && model !== ''))
    throw wrongSetting(`${at}.models`, 'a list of names', models);
  if (typeof isPrivate !== 'boolean') throw wrongSetting(`${at}.private`, 'true or false', isPrivate);
  if (typeof seconds !== 'number' || !(seconds > 0 && seconds <= 86_400))
    throw wrongSetting(`${at}.timeout_s`, 'seconds, up to a day', seconds);
  return {
    name,
    baseUrl: readUrl(`${at}.base_url`, base_url),
    key: (variable !== undefined && env[variable as string]) || null,
    keyHeader: oneOf('api_key_header', KEY_HEADERS, header),
    models,
    prices: readPrices(`${at}.prices`, prices),
    isPrivate,
    timeoutMs: seconds * 1000,
    tokenIds: engine === null ? null : oneOf('token_ids', ENGINES, engine),
    logprobs: oneOf('logprobs', LOGPROBS, logprobs),
    checkpoints: checkpoints as Record<string, string>,
    policies,
  };
}

function readUrl(field: string, value: unknown): string {
  const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : null;
  const expected = 'an address such as https://api.openai.com/v1, without name, password or query';
  if (url === null || !/^https?:$/.test(url.protocol)) throw wrongSetting(field, expected, value);
  // Not shown: it holds a secret.
  if (`${url.username}${url.password}${url.search}${url.hash}` !== '') throw wrongSetting(field, expected, '***');
  return url.href.replace(/\/+$/, '');
}

/** US dollars for a million tokens of each model, or of each policy. @throws TroupeError `config_invalid` naming the field */
export function readPrices(field: string, value: unknown): Readonly<Record<string, Price>> {
  if (!isRecord(value)) throw wrongSetting(field, 'a map of model to input, cached_input and output', value);
  return Object.fromEntries(
    Object.entries(value).map(([model, price]) => {
      const { input, output, cached_input: cachedInput = null } = isRecord(price) ? price : {};
      const isPrice = (x: unknown) => typeof x === 'number' && x >= 0 && Number.isFinite(x);
      if (!isPrice(input) || !isPrice(output) || !(cachedInput === null || isPrice(cachedInput)))
        throw wrongSetting(
          `${field}.${model}`,
          'input, output and perhaps cached_input, in US dollars for a million tokens',
          price,
        );
      return [model, { input, output, cachedInput } as Price];
    }),
  );
}

/** The header of the configured key; none if there is no key. */
export function keyHeaders({ key, keyHeader }: Pick<Upstream, 'key' | 'keyHeader'>): Record<string, string> {
  if (key === null) return {};
  return keyHeader === 'x-api-key' ? { 'x-api-key': key } : { authorization: `Bearer ${key}` };
}

/** The version of Anthropic's API for calls that name none. */
export const ANTHROPIC_VERSION = '2023-06-01';

/** The server of a model name, and its own name of the model. A listed name takes precedence over `server/model`, and that over a prefix. */
export function findUpstream(
  upstreams: readonly Upstream[],
  name: string,
): { readonly upstream: Upstream; readonly model: string } | null {
  const listed = upstreams.find(({ models }) => models.includes(name));
  if (listed) return { upstream: listed, model: name };
  const prefixed = upstreams.find((one) => name.startsWith(`${one.name}/`) && name.length > one.name.length + 1);
  if (prefixed) return { upstream: prefixed, model: name.slice(prefixed.name.length + 1) };
  const begun = upstreams
    .flatMap((upstream) => upstream.models.map((model) => ({ upstream, model })))
    .filter(({ model }) => model.endsWith('*') && name.startsWith(model.slice(0, -1)))
    .sort((a, b) => b.model.length - a.model.length)[0];
  return begun ? { upstream: begun.upstream, model: name } : null;
}
