/** The setting `engines`: training programs by name. Commands come from here and nowhere else; a plan only names one. */
import { got, TroupeError, wrongSetting } from '../../errors.ts';
import { isRecord } from '../../ingest/events/json.ts';

export type Engine = {
  readonly name: string;
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** Names of variables that the program inherits, besides those that every program needs. */
  readonly env: readonly string[];
  /** Seconds a training may take. */
  readonly timeoutS: number;
  /** It starts work on another machine and waits for it, so it takes none of this machine's places to train. */
  readonly elsewhere: boolean;
};

const FIELDS = ['command', 'env', 'timeout_s', 'elsewhere'] as const;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const DAY_S = 86_400;

/** @throws TroupeError `config_invalid` naming the field, what was expected and what came */
export function readEngines(setting: Readonly<Record<string, unknown>> | null): readonly Engine[] {
  return Object.entries(setting ?? {}).map(([name, fields]) => readEngine(name, fields));
}

/** @throws TroupeError `not_found` naming the engines that there are */
export function findEngine(engines: readonly Engine[], name: string): Engine {
  const found = engines.find((one) => one.name === name);
  if (found) return found;
  const known =
    engines.length === 0 ? 'the setting engines is empty' : `it has ${engines.map((one) => one.name).join(', ')}`;
  throw new TroupeError(
    'not_found',
    `The configuration has no engine ${got(name)}; ${known}. Add it to engines in troupe.yaml of the folder where Troupe was started.`,
    { field: 'engine' },
  );
}

function readEngine(name: string, value: unknown): Engine {
  const at = `engines.${name}`;
  if (!NAME.test(name)) throw wrongSetting('a name in engines', 'letters, digits, dots, dashes or underscores', name);
  if (!isRecord(value)) throw wrongSetting(at, 'a map with command', value);
  const strange = Object.keys(value).find((field) => !(FIELDS as readonly string[]).includes(field));
  if (strange !== undefined) throw wrongSetting(`a field of ${at}`, `one of ${FIELDS.join(', ')}`, strange);
  const { command, env = [], timeout_s = DAY_S, elsewhere = false } = value;
  if (!Array.isArray(command) || command.length === 0 || !command.every((one) => typeof one === 'string' && one !== ''))
    throw wrongSetting(`${at}.command`, 'a list: the program and its arguments, such as [python3, train.py]', command);
  if (!Array.isArray(env) || !env.every((one) => typeof one === 'string' && /^[A-Za-z_]\w*$/.test(one)))
    throw wrongSetting(`${at}.env`, 'a list of names of variables, without values', env);
  if (typeof timeout_s !== 'number' || !(timeout_s >= 0.1 && timeout_s <= 30 * DAY_S))
    throw wrongSetting(`${at}.timeout_s`, 'a number of seconds from 0.1 to 30 days', timeout_s);
  if (typeof elsewhere !== 'boolean') throw wrongSetting(`${at}.elsewhere`, 'true or false', elsewhere);
  return { name, command, env, timeoutS: timeout_s, elsewhere };
}
