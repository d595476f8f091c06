/** Where rewards come from: the field `reward` of a runner, and the setting `rewards`, which gives sources names. Requests name a source and nothing else. */
import { got, TroupeError, wrongSetting } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';

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

const FIELDS = {
  command: ['command', 'timeout_s'],
  url: ['url', 'key_env', 'private', 'timeout_s'],
  model: ['model', 'url', 'rubric', 'range', 'key_env', 'private', 'timeout_s'],
  sql: ['sql', 'timeout_s'],
} as const;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const VARIABLE = /^[A-Za-z_]\w*$/;
const TIMEOUT_S = 60;
const DAY_S = 86_400;

/** @throws TroupeError `config_invalid` naming the field, what was expected and what came */
export function readScorers(setting: Readonly<Record<string, unknown>> | null): Scorers {
  return Object.fromEntries(
    Object.entries(setting ?? {}).map(([name, value]) => {
      if (!NAME.test(name))
        throw wrongSetting('a name in rewards', 'letters, digits, dots, dashes or underscores, at most 64', name);
      return [name, readScorer(`rewards.${name}`, value)];
    }),
  );
}

/** @throws TroupeError `not_found` naming the sources that there are */
export function findScorer(scorers: Scorers, name: string): Scorer {
  if (Object.hasOwn(scorers, name)) return scorers[name]!;
  const names = Object.keys(scorers);
  throw new TroupeError(
    'not_found',
    `The configuration has no reward ${got(name)}; ${names.length === 0 ? 'the setting rewards is empty' : `it has ${names.join(', ')}`}. Add it to rewards in troupe.yaml of the folder where Troupe was started.`,
    { field: 'reward' },
  );
}

/**
 * The field `reward` of a runner.
 * @param of.output how the runner writes that the reward is in the output of the team; null where its output is not seen
 * @throws TroupeError `config_invalid`, or `not_found` for a name that is none of `of.scorers`
 */
export function readRewardSource(
  at: string,
  value: unknown,
  { scorers, output }: { readonly scorers: Scorers; readonly output: 'stdout' | 'answer' | null },
): RewardSource {
  if (value === undefined || value === 'team') return { from: 'team' };
  if (output !== null && value === output) return { from: 'output' };
  if (isRecord(value) && typeof value.use === 'string' && Object.keys(value).length === 1)
    return findScorer(scorers, value.use);
  if (isRecord(value)) return readScorer(at, value);
  const words = output === null ? 'team' : `team, ${output}`;
  const unseen = output === null ? '; the output of workers is not seen' : '';
  throw wrongSetting(at, `${words}, or a map with use, command, url, model or sql${unseen}`, value);
}

function readScorer(at: string, value: unknown): Scorer {
  if (!isRecord(value)) throw wrongSetting(at, 'a map with command, url, model or sql', value);
  // A model has an address too.
  const by = (['command', 'model', 'sql', 'url'] as const).find((one) => value[one] !== undefined);
  if (by === undefined) throw wrongSetting(at, 'a map with command, url, model or sql', Object.keys(value).join(', '));
  const fields: readonly string[] = FIELDS[by];
  const strange = Object.keys(value).find((field) => !fields.includes(field));
  if (strange !== undefined) throw wrongSetting(`a field of ${at} with ${by}`, `one of ${fields.join(', ')}`, strange);
  const timeoutS = readNumber(`${at}.timeout_s`, value.timeout_s ?? TIMEOUT_S, { least: 0.1, most: DAY_S });
  if (by === 'command') return { from: by, command: readCommand(`${at}.command`, value.command), timeoutS };
  if (by === 'sql') return { from: by, sql: readText(`${at}.sql`, value.sql), timeoutS };
  const address = { ...readAddress(at, value), timeoutS };
  if (by === 'url') return { from: by, ...address };
  return {
    from: by,
    model: readText(`${at}.model`, value.model),
    rubric: value.rubric === undefined ? null : readText(`${at}.rubric`, value.rubric),
    range: readRange(`${at}.range`, value.range ?? [0, 1]),
    ...address,
  };
}

/** @param named what the field with the address is called @throws TroupeError `config_invalid` */
export function readAddress(
  at: string,
  value: Readonly<Record<string, unknown>>,
  named = 'url',
): Omit<Address, 'timeoutS'> {
  const { url, key_env = null, private: isPrivate = false } = value;
  if (key_env !== null && !(typeof key_env === 'string' && VARIABLE.test(key_env)))
    throw wrongSetting(`${at}.key_env`, 'the name of a variable', '***');
  if (typeof isPrivate !== 'boolean') throw wrongSetting(`${at}.private`, 'true or false', isPrivate);
  return { url: readUrl(`${at}.${named}`, url), keyEnv: key_env, isPrivate };
}

function readText(at: string, value: unknown): string {
  if (typeof value === 'string' && value.trim() !== '') return value;
  throw wrongSetting(at, 'a text', value);
}

function readRange(at: string, value: unknown): readonly [number, number] {
  const [least, most] = Array.isArray(value) && value.length === 2 ? value : [];
  if (typeof least === 'number' && typeof most === 'number' && least < most) return [least, most];
  throw wrongSetting(at, 'a least and a greater number, such as [0, 1]', value);
}

/** A program and its arguments. @throws TroupeError `config_invalid` */
export function readCommand(at: string, value: unknown): readonly string[] {
  if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string' && one !== ''))
    return value;
  throw wrongSetting(at, 'a list: the program and its arguments, such as [python3, team.py]', value);
}

/** @throws TroupeError `config_invalid` */
export function readNumber(
  at: string,
  value: unknown,
  { least, most, whole = false }: { readonly least: number; readonly most: number; readonly whole?: boolean },
): number {
  if (typeof value === 'number' && value >= least && value <= most && (!whole || Number.isInteger(value))) return value;
  throw wrongSetting(at, `a ${whole ? 'whole ' : ''}number from ${least} to ${most}`, value);
}

/** An address without a trailing slash. It is not shown where it is wrong: it may hold a secret. @throws TroupeError `config_invalid` */
export function readUrl(at: string, value: unknown): string {
  const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : null;
  if (url && /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.search}${url.hash}` === '')
    return url.href.replace(/\/+$/, '');
  throw wrongSetting(at, 'an address such as http://127.0.0.1:7717, without name, password or query', '***');
}
