/** Where rewards come from: the field `reward` of a runner, and the setting `rewards`, which gives sources names. Requests name a source and nothing else. */
import { type Static, Type } from 'typebox';
import type { Keywords } from '../../../document.ts';
import { Address as AddressField, Command, named, plainAddress, readSetting, Variable } from '../../../setting.ts';

/** Computes the reward of an episode that is recorded. */
export type Scorer =
  /** A program that reads the task and the episode on standard input and prints a line with the reward. */
  | { readonly from: 'command'; readonly command: readonly string[]; readonly timeoutS: number }
  /** A server that gets the same by POST and answers with JSON. */
  | (Address & { readonly from: 'url' })
  /** A model behind an OpenAI-compatible address, which grades by a rubric. */
  | (Address & {
      readonly from: 'model';
      readonly model: string;
      readonly rubric: string | null;
      readonly range: readonly [number, number];
    })
  /** A query over the views, in which `:episode` stands for the id of the episode. */
  | { readonly from: 'sql'; readonly sql: string; readonly timeoutS: number };

export type Address = {
  readonly url: string;
  /** Name of the variable with the key. */
  readonly keyEnv: string | null;
  /** Whether the name may lead to an address of a private network. */
  readonly isPrivate: boolean;
  readonly timeoutS: number;
};

/** `team`: feedback that the team records itself; `output`: the last line of its output that is JSON with a number `reward`. */
export type RewardSource = { readonly from: 'team' } | { readonly from: 'output' } | Scorer;

/** The setting `rewards`, by name. */
export type Scorers = Readonly<Record<string, Scorer>>;

const TIMEOUT_S = 60;
const strict = { additionalProperties: false } as const;
const Timeout = { timeout_s: Type.Optional(Type.Number({ minimum: 0.1, maximum: 86_400 })) };
const Text = Type.String({ pattern: '\\S', expects: 'a text' } satisfies Keywords & { pattern: string });
/** Where a server is, and how it is reached. */
export const Reached = { key_env: Type.Optional(Variable), private: Type.Optional(Type.Boolean()) };
const ByCommand = Type.Object({ command: Command, ...Timeout }, strict);
const ByUrl = Type.Object({ url: AddressField, ...Reached, ...Timeout }, strict);
const ByModel = Type.Object(
  {
    model: Text,
    url: AddressField,
    rubric: Type.Optional(Text),
    range: Type.Optional(
      Type.Tuple([Type.Number(), Type.Number()], {
        fits: ([least, greatest]: [number, number]) => least < greatest,
        expects: 'a least and a greater number, such as [0, 1]',
      }),
    ),
    ...Reached,
    ...Timeout,
  },
  strict,
);
const BySql = Type.Object({ sql: Text, ...Timeout }, strict);
const SOURCES = [ByCommand, ByUrl, ByModel, BySql] as const;
const Source = Type.Union([...SOURCES], { expects: 'a map with command, url, model or sql' });

/** @throws TroupeError `config_invalid` naming the field, what was expected and what came */
export const readScorers = (setting: Readonly<Record<string, unknown>> | null): Scorers =>
  Object.fromEntries(readSetting('rewards', Source, setting).map(([name, value]) => [name, scorerOf(value)]));

/** @throws TroupeError `not_found` naming the sources that there are */
export const findScorer = (scorers: Scorers, name: string): Scorer =>
  named(
    'rewards',
    'reward',
    Object.entries(scorers).map(([name, scorer]) => ({ name, scorer })),
    name,
  ).scorer;

/** The field `reward` of a runner. @param output how it writes that the reward is in the output of the team; null where its output is not seen */
export const RewardField = (output: string | null) =>
  Type.Optional(
    Type.Union(
      [
        Type.String({ enum: output === null ? ['team'] : ['team', output] }),
        Type.Object({ use: Type.String() }, strict),
        ...SOURCES,
      ],
      {
        expects: `${output === null ? 'team' : `team, ${output}`}, or a map with use, command, url, model or sql${output === null ? '; the output of workers is not seen' : ''}`,
      },
    ),
  );

/** @throws TroupeError `not_found` for a name that is none of the scorers */
export function rewardOf(value: Static<ReturnType<typeof RewardField>> | undefined, scorers: Scorers): RewardSource {
  if (value === undefined || value === 'team') return { from: 'team' };
  if (typeof value === 'string') return { from: 'output' };
  return 'use' in value ? findScorer(scorers, value.use) : scorerOf(value);
}

function scorerOf(value: Static<typeof Source>): Scorer {
  const timeoutS = value.timeout_s ?? TIMEOUT_S;
  if ('command' in value) return { from: 'command', command: value.command, timeoutS };
  if ('sql' in value) return { from: 'sql', sql: value.sql, timeoutS };
  const address = { ...addressOf(value.url, value), timeoutS };
  if (!('model' in value)) return { from: 'url', ...address };
  const { model, rubric = null, range = [0, 1] } = value;
  return { from: 'model', model, rubric, range, ...address };
}

export const addressOf = (
  url: string,
  {
    key_env: keyEnv = null,
    private: isPrivate = false,
  }: { readonly key_env?: string | null; readonly private?: boolean },
): Omit<Address, 'timeoutS'> => ({ url: plainAddress(url), keyEnv, isPrivate });
