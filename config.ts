/**
 * Every setting with its default, where it may come from, and where it did come from. Flags over `TROUPE_*` (and `DATABASE_URL`)
 * over `troupe.yaml` over defaults. Read once, in the command line; rooms get what they need as arguments.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { got, TroupeError } from './errors.ts';
import { nearest } from './nearest.ts';

type Setting = {
  readonly env: string;
  readonly fallback: string | number | null;
  readonly secret?: boolean;
  /** A map of names; in the environment as JSON. */
  readonly map?: boolean;
  /** Of a text that no flag sets, since flags of that name mean something else. */
  readonly flagless?: boolean;
  /** Of a number, both included. */
  readonly range?: readonly [least: number, most: number];
  /** What a text may be, if not any. */
  readonly choices?: readonly string[];
  readonly about: string;
};

export const SETTINGS = {
  home: {
    env: 'TROUPE_HOME',
    fallback: '.troupe',
    about: 'folder of the embedded database, datasets, checkpoints and artifacts',
  },
  project: { env: 'TROUPE_PROJECT', fallback: 'troupe', about: 'name of the project: a database of its own' },
  database_url: {
    env: 'DATABASE_URL',
    fallback: null,
    secret: true,
    about: 'PostgreSQL server to use instead of the embedded one',
  },
  database_port: {
    env: 'TROUPE_DATABASE_PORT',
    fallback: 0,
    range: [0, 65535],
    about: 'TCP port of 127.0.0.1 that the embedded database listens on besides its socket; 0: none',
  },
  kafka_brokers: {
    env: 'KAFKA_BROKERS',
    fallback: null,
    about: 'Kafka to use as the log instead of the database: host:port, several with commas between',
  },
  kafka_topic: { env: 'KAFKA_TOPIC', fallback: null, about: 'topic of this project; its name if left out' },
  kafka_partitions: {
    env: 'KAFKA_PARTITIONS',
    fallback: 16,
    range: [1, 1000],
    about: 'partitions of a topic that is made; one that is there keeps its own',
  },
  kafka_tls: {
    env: 'KAFKA_TLS',
    fallback: 'off',
    choices: ['on', 'off'],
    about: 'on: connect to the brokers with TLS',
  },
  kafka_sasl_mechanism: {
    env: 'KAFKA_SASL_MECHANISM',
    fallback: null,
    choices: ['plain', 'scram-sha-256', 'scram-sha-512'],
    about: 'how to log in at the brokers; not at all if left out',
  },
  kafka_username: { env: 'KAFKA_USERNAME', fallback: null, about: 'user to log in as' },
  kafka_password: { env: 'KAFKA_PASSWORD', fallback: null, secret: true, about: 'the password of that user' },
  host: { env: 'TROUPE_HOST', fallback: '127.0.0.1', about: 'address the API listens on' },
  port: { env: 'TROUPE_PORT', fallback: 7717, range: [0, 65535], about: 'port the API listens on' },
  hosts: {
    env: 'TROUPE_HOSTS',
    fallback: null,
    about: 'names besides its addresses that the API may be called by, separated by commas',
  },
  loopback: {
    env: 'TROUPE_LOOPBACK',
    fallback: 'keys',
    about: 'keys: once there are API keys, programs on this machine need one too; open: they need none',
  },
  infer_key: {
    env: 'TROUPE_INFER_KEY',
    fallback: null,
    secret: true,
    about: 'what `serve` shows to sampling processes on other machines, and these want',
  },
  upstreams: {
    env: 'TROUPE_UPSTREAMS',
    fallback: null,
    map: true,
    about: 'model servers that the gateway passes calls on to, by name: base_url, api_key_env, models, prices',
  },
  routes: {
    env: 'TROUPE_ROUTES',
    fallback: null,
    map: true,
    about: 'calls for a model of somebody else that a policy answers, by name: model, agent, role, policy, fallback',
  },
  prices: {
    env: 'TROUPE_PRICES',
    fallback: null,
    map: true,
    about: 'US dollars for a million tokens of policies that processes of this project serve, by policy',
  },
  runners: {
    env: 'TROUPE_RUNNERS',
    fallback: null,
    map: true,
    about:
      'who plays the episodes of rollouts, by name: a command started for each, a server that gets each, or workers that lease them',
  },
  rewards: {
    env: 'TROUPE_REWARDS',
    fallback: null,
    map: true,
    about: 'where rewards come from, by name: a command, the address of a server, a model as judge, or SQL',
  },
  engines: {
    env: 'TROUPE_ENGINES',
    fallback: null,
    map: true,
    about: 'training programs of plans, by name: command, env (names of variables it inherits), timeout_s',
  },
  notify: {
    env: 'TROUPE_NOTIFY',
    fallback: null,
    map: true,
    about: 'who is notified of scheduled runs, by name: command or url, key_env, and which happenings (on)',
  },
  traces: {
    env: 'TROUPE_TRACES',
    fallback: null,
    about: 'address that takes OpenTelemetry traces of Troupe itself (OTLP/HTTP); none are made if left out',
  },
  traces_key: { env: 'TROUPE_TRACES_KEY', fallback: null, secret: true, about: 'bearer token for that address' },
  threads: {
    env: 'TROUPE_THREADS',
    fallback: 1,
    range: [1, 1024],
    about: 'threads of one training or sampling process; one makes runs repeatable',
  },
  trainings: {
    env: 'TROUPE_TRAININGS',
    fallback: 1,
    range: [1, 64],
    about: 'training jobs that this machine runs at a time, over all projects and homes',
  },
  judge: {
    env: 'TROUPE_JUDGE',
    fallback: null,
    about: 'methods that the judge process runs over every group that completes, written as for judge --methods',
  },
  formats: {
    env: 'TROUPE_FORMATS',
    fallback: null,
    flagless: true,
    about: 'files with formats of your own, JavaScript or TypeScript, separated by commas',
  },
  methods: {
    env: 'TROUPE_METHODS',
    fallback: null,
    flagless: true,
    about: 'files with methods of your own, JavaScript or TypeScript, separated by commas',
  },
  redact: {
    env: 'TROUPE_REDACT',
    fallback: null,
    map: true,
    about: 'patterns of secrets of your own, by name, that are replaced before anything is stored',
  },
  spans: {
    env: 'TROUPE_SPANS',
    fallback: null,
    map: true,
    about:
      'which spans of a program are one episode: a list `episodes` of service and by, an attribute such as session.id',
  },
  patience: {
    env: 'TROUPE_PATIENCE',
    fallback: 120,
    range: [0, 86_400],
    about: 'seconds a command goes on trying when the database, the broker or the disk fails in the middle of its work',
  },
  close_after: {
    env: 'TROUPE_CLOSE_AFTER',
    fallback: 1800,
    range: [1, 31_536_000],
    about: 'seconds without an event after which an episode is closed and a group no longer waited for',
  },
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof SETTINGS;
type Origin = 'flag' | 'environment' | 'troupe.yaml' | 'default';
type ValueOf<N extends SettingName> = (typeof SETTINGS)[N] extends { readonly map: true }
  ? Readonly<Record<string, unknown>> | null
  : (typeof SETTINGS)[N]['fallback'] extends number
    ? number
    : (typeof SETTINGS)[N]['fallback'] extends null
      ? string | null
      : string;
export type Config = { readonly [N in SettingName]: ValueOf<N> } & {
  readonly origins: Readonly<Record<SettingName, Origin>>;
};

/** The end of a message that refuses a name: what was most likely meant. */
export const didYouMean = (meant: string | null | undefined): string => (meant ? ` Did you mean ${meant}?` : '');

export const SETTINGS_HINT = 'docs/settings.md explains the settings.';

/** @throws TroupeError `config_invalid` naming the setting, where it came from, what was expected and what came. */
export function loadConfig(
  flags: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
  file = 'troupe.yaml',
): Config {
  const written = readFile(file);
  for (const name of Object.keys(written)) {
    if (!Object.hasOwn(SETTINGS, name)) {
      throw new TroupeError(
        'config_invalid',
        `${file} has a setting ${got(name)} that Troupe does not know.${didYouMean(nearest(name, Object.keys(SETTINGS)))}`,
        { field: name, hint: SETTINGS_HINT },
      );
    }
  }
  const values: Record<string, unknown> = {};
  const origins = {} as Record<SettingName, Origin>;
  for (const name of Object.keys(SETTINGS) as SettingName[]) {
    const setting: Setting = SETTINGS[name];
    const flag = setting.flagless ? undefined : flags[camel(name)];
    const inherited = env[setting.env];
    const [value, origin]: [unknown, Origin] =
      flag !== undefined
        ? [flag, 'flag']
        : inherited !== undefined && inherited !== ''
          ? [inherited, 'environment']
          : Object.hasOwn(written, name)
            ? [written[name], 'troupe.yaml']
            : [setting.fallback, 'default'];
    values[name] = typed(name, setting, value, origin);
    origins[name] = origin;
  }
  return Object.freeze({ ...values, origins }) as unknown as Config;
}

/** The value as it may be shown: secrets are masked. */
export function shown(config: Config, name: SettingName): string {
  const value = config[name];
  const setting: Setting = SETTINGS[name];
  if (value === null) return '(none)';
  if (setting.map) return JSON.stringify(value);
  if (!setting.secret) return String(value);
  return name === 'database_url' ? masked(String(value)) : '***';
}

/** Greedy up to the last @, since people forget to encode what stands in a password. */
const masked = (address: string): string =>
  address.replace(/\/\/.*@/, '//***@').replace(/\b((?:ssl)?password=)('[^']*'|[^&\s]*)/gi, '$1***');

function typed(name: SettingName, setting: Setting, value: unknown, from: Origin): unknown {
  const origin = from === 'environment' ? `${setting.env} in the environment` : from;
  if (setting.map) {
    const map = typeof value === 'string' ? jsonIn(value) : value;
    if (map === null || (typeof map === 'object' && !Array.isArray(map))) return map;
    // Not shown: it may hold what should not stand there.
    throw new TroupeError(
      'config_invalid',
      `${name} (from ${origin}) should be a map by name, and JSON in the environment.`,
      {
        field: name,
      },
    );
  }
  if (typeof setting.fallback !== 'number') {
    if (value === null && setting.fallback === null) return value;
    const { choices, secret = false } = setting;
    if (typeof value === 'string' && value !== '' && (choices?.includes(value) ?? true)) return value;
    const came = secret ? 'something else' : got(value);
    throw new TroupeError(
      'config_invalid',
      `${name} (from ${origin}) should be ${choices ? `one of ${choices.join(', ')}` : 'text'}, but it is ${came}.`,
      { field: name },
    );
  }
  const [least, most] = setting.range ?? [0, Number.MAX_SAFE_INTEGER];
  const number = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof number === 'number' && Number.isInteger(number) && number >= least && number <= most) return number;
  throw new TroupeError(
    'config_invalid',
    `${name} (from ${origin}) should be a whole number from ${least} to ${most}, but it is ${got(value)}.`,
    { field: name },
  );
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function readFile(file: string): Record<string, unknown> {
  if (!existsSync(file)) return {};
  // Loaded only where there is a file: it is a tenth of what the start of a command costs.
  const { parse } = createRequire(import.meta.url)('yaml') as typeof import('yaml');
  let value: unknown;
  try {
    value = parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new TroupeError('config_invalid', `${file} is not YAML: ${(cause as Error).message.split('\n')[0]}.`, {
      cause,
    });
  }
  if (value === null || value === undefined) return {};
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw new TroupeError('config_invalid', `${file} should hold settings by name, but it holds ${got(value)}.`);
  }
  return value as Record<string, unknown>;
}

const camel = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
