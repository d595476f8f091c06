/** The setting `runners`: who plays episodes, by name. Commands and addresses come from here and nowhere else; requests only name a runner. */
import { got, TroupeError, wrongSetting } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import { nearest } from '../../../nearest.ts';
import {
  type Address,
  type RewardSource,
  readAddress,
  readCommand,
  readNumber,
  readRewardSource,
  readUrl,
  type Scorers,
} from '../rewards/source.ts';

type Shared = {
  readonly name: string;
  /** Seconds an episode may take. */
  readonly timeoutS: number;
  /** How often a sample is tried again after a failure. */
  readonly retries: number;
  /** Name of the agent in the base URL of the gateway. */
  readonly agent: string;
  readonly reward: RewardSource;
};

/** What `run work` plays itself. */
type Played = Shared & {
  /** Episodes at a time. */
  readonly concurrency: number;
  /** Where the API answers for the team; null: where `run serve` listens. */
  readonly url: string | null;
};

/** A program that is started for each episode. */
export type CommandRunner = Played & {
  readonly by: 'command';
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** Names of variables that the program inherits, besides those that every program needs. */
  readonly env: readonly string[];
};

/** A server of the team that gets each episode by POST, and answers once it is over. */
export type WebhookRunner = Played & {
  readonly by: 'webhook';
  readonly at: Omit<Address, 'timeoutS'>;
};

/** Programs that run for long, and lease episodes over HTTP. */
export type WorkersRunner = Shared & {
  readonly by: 'workers';
  /** Seconds without a sign of life after which an episode is lost. */
  readonly leaseS: number;
};

/** Those that `run work` plays itself. */
export type PlayedRunner = CommandRunner | WebhookRunner;
export type Runner = PlayedRunner | WorkersRunner;

const FIELDS = {
  command: ['command', 'env', 'timeout_s', 'concurrency', 'retries', 'agent', 'url', 'reward'],
  webhook: ['webhook', 'key_env', 'private', 'timeout_s', 'concurrency', 'retries', 'agent', 'url', 'reward'],
  workers: ['workers', 'timeout_s', 'lease_s', 'retries', 'agent', 'reward'],
} as const;
/** How each kind writes that the output of the team has the reward. */
const OUTPUT = { command: 'stdout', webhook: 'answer', workers: null } as const;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const DAY_S = 86_400;
const LEASE_S = 60;

/**
 * @param scorers the setting `rewards`, whose names a runner may use
 * @throws TroupeError `config_invalid` naming the field, what was expected and what came
 */
export function readRunners(
  setting: Readonly<Record<string, unknown>> | null,
  scorers: Scorers = {},
): readonly Runner[] {
  return Object.entries(setting ?? {}).map(([name, fields]) => readRunner(name, fields, scorers));
}

/** @throws TroupeError `not_found` naming the runners that there are, and the nearest of them */
export function findRunner(runners: readonly Runner[], name: string): Runner {
  const found = runners.find((one) => one.name === name);
  if (found) return found;
  const names = runners.map((one) => one.name);
  const known = runners.length === 0 ? 'the setting runners is empty' : `it has ${names.join(', ')}`;
  const meant = nearest(name, names);
  throw new TroupeError(
    'not_found',
    `The configuration has no runner ${got(name)}; ${known}.${meant ? ` Did you mean ${meant}?` : ''} Add it to runners in troupe.yaml of the folder where Troupe was started.`,
    { field: 'runner' },
  );
}

function readRunner(name: string, value: unknown, scorers: Scorers): Runner {
  const at = `runners.${name}`;
  if (!NAME.test(name))
    throw wrongSetting('a name in runners', 'letters, digits, dots, dashes or underscores, at most 64', name);
  if (!isRecord(value)) throw wrongSetting(at, 'a map with command, webhook or workers', value);
  const by = (['workers', 'webhook'] as const).find((one) => value[one] !== undefined) ?? 'command';
  const fields: readonly string[] = FIELDS[by];
  const strange = Object.keys(value).find((field) => !fields.includes(field));
  if (strange !== undefined) throw wrongSetting(`a field of ${at} with ${by}`, `one of ${fields.join(', ')}`, strange);
  const { env = [], agent = 'agent', url = null } = value;
  if (typeof agent !== 'string' || agent === '' || Buffer.byteLength(agent) > 512)
    throw wrongSetting(`${at}.agent`, 'a name of 1 to 512 bytes', agent);
  const shared: Shared = {
    name,
    timeoutS: readNumber(`${at}.timeout_s`, value.timeout_s ?? 600, { least: 0.1, most: 7 * DAY_S }),
    retries: readNumber(`${at}.retries`, value.retries ?? 1, { least: 0, most: 100, whole: true }),
    agent,
    reward: readRewardSource(`${at}.reward`, value.reward, { scorers, output: OUTPUT[by] }),
  };
  if (by === 'workers') {
    if (value.workers !== true) throw wrongSetting(`${at}.workers`, 'true', value.workers);
    return { ...shared, by, leaseS: readNumber(`${at}.lease_s`, value.lease_s ?? LEASE_S, { least: 1, most: DAY_S }) };
  }
  const played = {
    ...shared,
    concurrency: readNumber(`${at}.concurrency`, value.concurrency ?? 4, { least: 1, most: 1024, whole: true }),
    url: url === null ? null : readUrl(`${at}.url`, url),
  };
  if (by === 'webhook') {
    const { webhook, key_env, private: isPrivate } = value;
    const address = readAddress(at, { url: webhook, key_env, private: isPrivate }, 'webhook');
    return { ...played, by, at: address };
  }
  if (!Array.isArray(env) || !env.every((one) => typeof one === 'string' && /^[A-Za-z_]\w*$/.test(one)))
    throw wrongSetting(`${at}.env`, 'a list of names of variables, without values', env);
  return { ...played, by, command: readCommand(`${at}.command`, value.command), env };
}

/** Variables that the settings of a runner name and that are not there, with the setting that names them. */
export function missingVariables(
  runner: PlayedRunner,
  env: Readonly<Record<string, string | undefined>>,
): { readonly field: string; readonly missing: readonly string[] } {
  const isCommand = runner.by === 'command';
  const named = isCommand ? runner.env : runner.at.keyEnv === null ? [] : [runner.at.keyEnv];
  return {
    field: `runners.${runner.name}.${isCommand ? 'env' : 'key_env'}`,
    missing: named.filter((one) => env[one] === undefined),
  };
}
