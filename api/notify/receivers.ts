/** The setting `notify`: who is notified of runs and schedules. Commands and addresses come from here and nowhere else. */
import type { lookup as systemLookup } from 'node:dns';
import { type Static, Type } from 'typebox';
import { Address, Command, named, readSetting, Variable, Variables } from '../../setting.ts';
import { type Receiver, Refused } from '../../store/queue/notify/delivery.ts';
import { HAPPENINGS } from '../../store/queue/notify/happenings.ts';
import { runCommand } from '../../trainer/loop/play/command.ts';
import { postJson } from '../http/post.ts';

type Env = Readonly<Record<string, string | undefined>>;

const TIMEOUT_S = 10;
const ON = HAPPENINGS.filter((name) => name !== 'run_done' && name !== 'tick_skipped');
/** Statuses that refuse one message; any other one is about the receiver or the address, and the next message would fare no better. */
const ABOUT_THE_MESSAGE = [400, 409, 413, 415, 422];
const ALWAYS = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TMPDIR', 'TZ'];

const strict = { additionalProperties: false } as const;
const On = {
  on: Type.Optional(
    Type.Array(Type.Enum([...HAPPENINGS]), { minItems: 1, expects: `a list of ${HAPPENINGS.join(', ')}` }),
  ),
};
const ByCommand = Type.Object({ command: Command, env: Type.Optional(Variables), ...On }, strict);
const ByUrl = Type.Object(
  { url: Address, key_env: Type.Optional(Variable), private: Type.Optional(Type.Boolean()), ...On },
  strict,
);
const Setting = Type.Union([ByCommand, ByUrl], { expects: 'a map with either command or url' });

/** @throws TroupeError `config_invalid` naming the field, what was expected and what came */
export const readReceivers = (
  setting: Readonly<Record<string, unknown>> | null,
  env: Env,
  lookup?: typeof systemLookup,
): readonly Receiver[] =>
  readSetting('notify', Setting, setting).map(([name, value]) => ({
    name,
    on: value.on ?? ON,
    send: 'url' in value ? toUrl(`notify.${name}`, value, env, lookup) : toCommand(value, env),
  }));

/** @throws TroupeError `not_found` naming the receivers that there are */
export const findReceiver = (receivers: readonly Receiver[], name: string): Receiver =>
  named('notify', 'receiver', receivers, name);

/** A command reads the message on standard input. */
function toCommand({ command, env: names = [] }: Static<typeof ByCommand>, env: Env): Receiver['send'] {
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
  { url, key_env, private: isPrivate = false }: Static<typeof ByUrl>,
  env: Env,
  resolve?: typeof systemLookup,
): Receiver['send'] {
  const post = postJson(resolve);
  return async (message) => {
    const key = key_env === undefined ? undefined : env[key_env];
    if (key_env !== undefined && !key) throw new Error(`The variable ${key_env} of ${at}.key_env is not set.`);
    // A message is short: it is sent to its end.
    const signal = new AbortController().signal;
    const { status } = await post(new URL(url).href, message, { key, isPrivate, timeoutS: TIMEOUT_S, signal });
    if (status >= 300 && status < 400) throw new Error(`It answered ${status}; redirects are not followed.`);
    if (ABOUT_THE_MESSAGE.includes(status)) throw new Refused(`It answered ${status}.`);
    if (status < 200 || status >= 300) throw new Error(`It answered ${status}.`);
  };
}
