/** The setting `runners`: who plays episodes, by name. Commands and addresses come from here and nowhere else; requests only name a runner. */
import { Type } from 'typebox';
import { Address as AddressField, Command, named, plainAddress, readSetting, Variables } from '../../../setting.ts';
import {
  type Address,
  addressOf,
  Reached,
  RewardField,
  type RewardSource,
  rewardOf,
  type Scorers,
} from '../rewards/source.ts';

type RunnerBase = {
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
type PlayedBase = RunnerBase & {
  /** Episodes at a time. */
  readonly concurrency: number;
  /** Where the API answers for the team; null: where `run serve` listens. */
  readonly url: string | null;
};

/** A program that is started for each episode. */
export type CommandRunner = PlayedBase & {
  readonly by: 'command';
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** Names of variables that the program inherits, besides those that every program needs. */
  readonly env: readonly string[];
};

/** A server of the team that gets each episode by POST, and answers once it is over. */
export type WebhookRunner = PlayedBase & {
  readonly by: 'webhook';
  readonly at: Omit<Address, 'timeoutS'>;
};

/** Programs that run for long, and lease episodes over HTTP. */
export type WorkersRunner = RunnerBase & {
  readonly by: 'workers';
  /** Seconds without a sign of life after which an episode is lost. */
  readonly leaseS: number;
};

/** Those that `run work` plays itself. */
export type PlayedRunner = CommandRunner | WebhookRunner;
export type Runner = PlayedRunner | WorkersRunner;

const DAY_S = 86_400;
const strict = { additionalProperties: false } as const;
const whole = (minimum: number, maximum: number) => Type.Optional(Type.Integer({ minimum, maximum }));
const Common = {
  timeout_s: Type.Optional(Type.Number({ minimum: 0.1, maximum: 7 * DAY_S })),
  retries: whole(0, 100),
  agent: Type.Optional(
    Type.String({
      fits: (name: string) => name !== '' && Buffer.byteLength(name) <= 512,
      expects: 'a name of 1 to 512 bytes',
    }),
  ),
};
const Own = { concurrency: whole(1, 1024), url: Type.Optional(AddressField) };
const Setting = Type.Union(
  [
    Type.Object(
      { command: Command, env: Type.Optional(Variables), ...Own, ...Common, reward: RewardField('stdout') },
      strict,
    ),
    Type.Object({ webhook: AddressField, ...Reached, ...Own, ...Common, reward: RewardField('answer') }, strict),
    Type.Object(
      {
        workers: Type.Literal(true),
        lease_s: Type.Optional(Type.Number({ minimum: 1, maximum: DAY_S })),
        ...Common,
        reward: RewardField(null),
      },
      strict,
    ),
  ],
  { expects: 'a map with command, webhook or workers' },
);

/**
 * @param scorers the setting `rewards`, whose names a runner may use
 * @throws TroupeError `config_invalid` naming the field, what was expected and what came
 */
export function readRunners(
  setting: Readonly<Record<string, unknown>> | null,
  scorers: Scorers = {},
): readonly Runner[] {
  return readSetting('runners', Setting, setting).map(([name, value]) => {
    const { timeout_s: timeoutS = 600, retries = 1, agent = 'agent' } = value;
    const shared: RunnerBase = { name, timeoutS, retries, agent, reward: rewardOf(value.reward, scorers) };
    if ('workers' in value) return { ...shared, by: 'workers', leaseS: value.lease_s ?? 60 };
    const { concurrency = 4, url } = value;
    const played = { ...shared, concurrency, url: url === undefined ? null : plainAddress(url) };
    return 'webhook' in value
      ? { ...played, by: 'webhook', at: addressOf(value.webhook, value) }
      : { ...played, by: 'command', command: value.command, env: value.env ?? [] };
  });
}

/** @throws TroupeError `not_found` naming the runners that there are, and the nearest of them */
export const findRunner = (runners: readonly Runner[], name: string): Runner =>
  named('runners', 'runner', runners, name);

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
