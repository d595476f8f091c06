/** The setting `engines`: training programs by name. Commands come from here and nowhere else; a plan only names one. */
import { Type } from 'typebox';
import { Command, named, readSetting, Variables } from '../../setting.ts';

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

const DAY_S = 86_400;

const Setting = Type.Object(
  {
    command: Command,
    env: Type.Optional(Variables),
    timeout_s: Type.Optional(
      Type.Number({ minimum: 0.1, maximum: 30 * DAY_S, description: 'seconds; a day if left out' }),
    ),
    elsewhere: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);

/** @throws TroupeError `config_invalid` naming the field, what was expected and what came */
export const readEngines = (setting: Readonly<Record<string, unknown>> | null): readonly Engine[] =>
  readSetting('engines', Setting, setting).map(
    ([name, { command, env = [], timeout_s = DAY_S, elsewhere = false }]) => ({
      name,
      command,
      env,
      timeoutS: timeout_s,
      elsewhere,
    }),
  );

/** @throws TroupeError `not_found` naming the engines that there are */
export const findEngine = (engines: readonly Engine[], name: string): Engine =>
  named('engines', 'engine', engines, name);
