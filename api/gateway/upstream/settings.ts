/** Configured model servers: where they are, which models they serve, and their prices. Addresses come only from here. */
import { type Static, Type } from 'typebox';
import { read } from '../../../document.ts';
import { wrongSetting } from '../../../errors.ts';
import { isIdentifier } from '../../../ingest/events/text.ts';
import { Address, plainAddress, readSetting } from '../../../setting.ts';

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
  /** The kind of server, where token ids and log-probabilities are requested from it; null: none are. */
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

const strict = { additionalProperties: false } as const;
const Dollars = Type.Number({ minimum: 0 });
/** US dollars for a million tokens of each model, or of each policy. */
const Prices = Type.Record(
  Type.String(),
  Type.Object(
    { input: Dollars, output: Dollars, cached_input: Type.Optional(Type.Union([Dollars, Type.Null()])) },
    { expects: 'input, output and perhaps cached_input, in US dollars for a million tokens' },
  ),
);
const Name = Type.String({ fits: isIdentifier, expects: 'a name' });
const Setting = Type.Object(
  {
    base_url: Address,
    api_key_env: Type.Optional(Type.String()),
    api_key_header: Type.Optional(Type.Enum([...KEY_HEADERS])),
    models: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { expects: 'a list of names' })),
    prices: Type.Optional(Prices),
    private: Type.Optional(Type.Boolean()),
    timeout_s: Type.Optional(
      Type.Number({ exclusiveMinimum: 0, maximum: 86_400, description: 'seconds; 600 if left out' }),
    ),
    token_ids: Type.Optional(Type.Enum([...ENGINES])),
    logprobs: Type.Optional(Type.Enum([...LOGPROBS])),
    checkpoints: Type.Optional(Type.Record(Type.String(), Name)),
    policies: Type.Optional(Type.Array(Name)),
  },
  { ...strict, refuses: { api_key: 'should be left out; api_key_env names the environment variable.' } },
);

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
      ? [
          upstreamOf(
            'default',
            read(
              Setting,
              { base_url: url, api_key_env: 'TROUPE_UPSTREAM_API_KEY', models: ['*'] },
              {
                called: 'upstreams',
                at: 'upstreams.default',
                code: 'config_invalid',
              },
            ),
            env,
          ),
        ]
      : [];
  }
  const upstreams = readSetting('upstreams', Setting, setting).map(([name, one]) => upstreamOf(name, one, env));
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

function upstreamOf(name: string, setting: Static<typeof Setting>, env: Env): Upstream {
  const { api_key_env: variable, token_ids = null, policies = [] } = setting;
  if (policies.length > 0 && token_ids === null)
    throw wrongSetting(
      `upstreams.${name}.token_ids`,
      'vllm or sglang, so that releases can be loaded into it',
      token_ids,
    );
  return {
    name,
    baseUrl: plainAddress(setting.base_url),
    key: (variable !== undefined && env[variable]) || null,
    keyHeader: setting.api_key_header ?? 'authorization',
    models: setting.models ?? [],
    prices: pricesOf(setting.prices ?? {}),
    isPrivate: setting.private ?? false,
    timeoutMs: (setting.timeout_s ?? 600) * 1000,
    tokenIds: token_ids,
    logprobs: setting.logprobs ?? 'raw',
    checkpoints: setting.checkpoints ?? {},
    policies,
  };
}

/** The setting `prices`. @throws TroupeError `config_invalid` naming the field */
export const readPrices = (setting: unknown): Readonly<Record<string, Price>> =>
  pricesOf(read(Prices, setting, { called: 'prices', at: 'prices', code: 'config_invalid' }));

const pricesOf = (prices: Static<typeof Prices>): Readonly<Record<string, Price>> =>
  Object.fromEntries(
    Object.entries(prices).map(([model, { input, output, cached_input = null }]) => [
      model,
      { input, output, cachedInput: cached_input },
    ]),
  );

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
