/** The setting `notify`: who is notified of runs and schedules. Commands and addresses come from here and nowhere else. */
import type { lookup as systemLookup } from 'node:dns';
import { got, TroupeError, wrongSetting } from '../../errors.ts';
import { isRecord } from '../../ingest/events/json.ts';
import { type Receiver, Refused } from '../../store/queue/notify/delivery.ts';
import { HAPPENINGS } from '../../store/queue/notify/happenings.ts';
import { runCommand } from '../../trainer/loop/play/command.ts';
import { postJson } from '../http/post.ts';

type Env = Readonly<Record<string, string | undefined>>;

const FIELDS = {
  command: ['command', 'env', 'on'],
  url: ['url', 'key_env', 'private', 'on'],
} as const;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const VARIABLE = /^[A-Za-z_]\w*$/;
const TIMEOUT_S = 10;
const ON = HAPPENINGS.filter((name) => name !== 'run_done' && name !== 'tick_skipped');
/** Statuses that refuse one message; any other one is about the receiver or the address, and the next message would fare no better. */
const ABOUT_THE_MESSAGE = [400, 409, 413, 415, 422];
const ALWAYS = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TMPDIR', 'TZ'];

/** @throws TroupeError `config_invalid` naming the field, what was expected and what came */
export function readReceivers(
  setting: Readonly<Record<string, unknown>> | null,
  env: Env,
  lookup?: typeof systemLookup,
): readonly Receiver[] {
  return Object.entries(setting ?? {}).map(([name, fields]) => readReceiver(name, fields, env, lookup));
}

/** @throws TroupeError `not_found` naming the receivers that there are */
export function findReceiver(receivers: readonly Receiver[], name: string): Receiver {
  const found = receivers.find((one) => one.name === name);
  if (found) return found;
  const names = receivers.map((one) => one.name);
  const known = names.length === 0 ? 'the setting notify is empty' : `it has ${names.join(', ')}`;
  throw new TroupeError(
    'not_found',
    `The configuration has no receiver ${got(name)}; ${known}. Add it to notify in troupe.yaml of the folder where Troupe was started.`,
    { field: 'notify' },
  );
}

function readReceiver(name: string, value: unknown, env: Env, lookup?: typeof systemLookup): Receiver {
  const at = `notify.${name}`;
  if (!NAME.test(name)) throw wrongSetting('a name in notify', 'letters, digits, dots, dashes or underscores', name);
  if (!isRecord(value)) throw wrongSetting(at, 'a map with command or url', value);
  if ((value.command === undefined) === (value.url === undefined))
    throw wrongSetting(at, 'a map with either command or url', Object.keys(value).join(', '));
  const by = value.url === undefined ? 'command' : 'url';
  const fields: readonly string[] = FIELDS[by];
  const strange = Object.keys(value).find((field) => !fields.includes(field));
  if (strange !== undefined) throw wrongSetting(`a field of ${at} with ${by}`, `one of ${fields.join(', ')}`, strange);
  const { on = ON } = value;
  const isHappening = (one: unknown) => (HAPPENINGS as readonly unknown[]).includes(one);
  if (!Array.isArray(on) || on.length === 0 || !on.every(isHappening))
    throw wrongSetting(`${at}.on`, `a list of ${HAPPENINGS.join(', ')}`, on);
  return { name, on, send: by === 'url' ? toUrl(at, value, env, lookup) : toCommand(at, value, env) };
}

/** A command reads the message on standard input. */
function toCommand(at: string, { command, env: names = [] }: Record<string, unknown>, env: Env): Receiver['send'] {
  const isText = (one: unknown): one is string => typeof one === 'string' && one !== '';
  if (!Array.isArray(command) || command.length === 0 || !command.every(isText))
    throw wrongSetting(`${at}.command`, 'a list: the program and its arguments, such as [sh, notify.sh]', command);
  if (!Array.isArray(names) || !names.every((one) => isText(one) && VARIABLE.test(one)))
    throw wrongSetting(`${at}.env`, 'a list of names of variables, without values', names);
  const inherited = Object.fromEntries(
    [...ALWAYS, ...names].flatMap((one) => (env[one] === undefined ? [] : [[one, env[one]]])),
  );
  return async (message) => {
    // A message is short: what is being sent is sent to its end, so that a stop in between sends nothing twice.
    const signal = new AbortController().signal;
    const input = `${JSON.stringify(message)}\n`;
    const ran = await runCommand(command, { env: inherited, input, timeoutS: TIMEOUT_S, signal });
    if (ran.ended === 'timeout') throw new Error(`The command took longer than ${TIMEOUT_S} s.`);
    const last = ran.stderr.trim().split('\n').at(-1)!.slice(0, 200);
    if (ran.code !== 0) throw new Error(`The command ended with ${ran.code ?? 'a signal'}${last ? `: ${last}` : '.'}`);
  };
}

/** One POST of JSON. No redirect is followed, and the address is looked at when it is connected to. */
function toUrl(
  at: string,
  { url, key_env, private: isPrivate = false }: Record<string, unknown>,
  env: Env,
  resolve?: typeof systemLookup,
): Receiver['send'] {
  const target = typeof url === 'string' && URL.canParse(url) ? new URL(url) : null;
  if (
    target === null ||
    !/^https?:$/.test(target.protocol) ||
    `${target.username}${target.password}${target.search}${target.hash}` !== ''
  )
    // Not shown: it may hold a secret.
    throw wrongSetting(
      `${at}.url`,
      'an address such as https://example.com/hook, without name, password or query',
      '***',
    );
  if (key_env !== undefined && !(typeof key_env === 'string' && VARIABLE.test(key_env)))
    throw wrongSetting(`${at}.key_env`, 'the name of a variable', '***');
  if (typeof isPrivate !== 'boolean') throw wrongSetting(`${at}.private`, 'true or false', isPrivate);
  const post = postJson(resolve);
  return async (message) => {
    const key = typeof key_env === 'string' ? env[key_env] : undefined;
    if (key_env !== undefined && !key) throw new Error(`The variable ${key_env} of ${at}.key_env is not set.`);
    // A message is short: it is sent to its end.
    const signal = new AbortController().signal;
    const { status } = await post(target.href, message, { key, isPrivate, timeoutS: TIMEOUT_S, signal });
    if (status >= 300 && status < 400) throw new Error(`It answered ${status}; redirects are not followed.`);
    if (ABOUT_THE_MESSAGE.includes(status)) throw new Refused(`It answered ${status}.`);
    if (status < 200 || status >= 300) throw new Error(`It answered ${status}.`);
  };
}
