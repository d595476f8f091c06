/** How the settings that are maps of names are read (`troupe.yaml`), and the parts that several of them have. */
import { type Static, type TSchema, Type } from 'typebox';
import { type Keywords, meantBy, read } from './document.ts';
import { got, TroupeError } from './errors.ts';

const expecting = (keywords: Keywords): Keywords => keywords;

/** A setting by name. @throws TroupeError `config_invalid` naming the field, what was expected and what came */
export const readSetting = <T extends TSchema>(
  name: string,
  schema: T,
  value: unknown,
): readonly [string, Static<T>][] =>
  Object.entries(
    read(Type.Record(Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' }), schema), value ?? {}, {
      called: name,
      at: name,
      code: 'config_invalid',
    }) as Readonly<Record<string, Static<T>>>,
  );

/** A program and its arguments. */
export const Command = Type.Array(Type.String({ minLength: 1 }), {
  minItems: 1,
  ...expecting({ expects: 'a list: the program and its arguments, such as [python3, team.py]' }),
});

const VARIABLE = '^[A-Za-z_][A-Za-z0-9_]*$';
/** The name of a variable with a secret. Whoever writes the secret itself here does not see it in a message. */
export const Variable = Type.String({
  pattern: VARIABLE,
  ...expecting({ expects: 'the name of a variable', secret: true }),
});
/** Variables that a program inherits, besides those that every program needs. */
export const Variables = Type.Array(Type.String({ pattern: VARIABLE }), {
  ...expecting({ expects: 'a list of names of variables, without values' }),
});

/** An address that holds no secret, and may have a slash at its end. */
export const Address = Type.String(
  expecting({
    fits: isAddress,
    expects: 'an address such as http://127.0.0.1:7717, without name, password or query',
    secret: true,
  }),
);

function isAddress(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, username, password, search, hash } = new URL(value);
  return /^https?:$/.test(protocol) && `${username}${password}${search}${hash}` === '';
}

/** Without the slash at its end. */
export const plainAddress = (address: string): string => new URL(address).href.replace(/\/+$/, '');

/** The one of that name. @param of what each is called, such as `runner` @throws TroupeError `not_found` naming those that there are */
export function named<T extends { readonly name: string }>(
  setting: string,
  of: string,
  all: readonly T[],
  name: string,
): T {
  const found = all.find((one) => one.name === name);
  if (found !== undefined) return found;
  const names = all.map((one) => one.name);
  const known = names.length === 0 ? `the setting ${setting} is empty` : `it has ${names.join(', ')}`;
  throw new TroupeError(
    'not_found',
    `The configuration has no ${of} ${got(name)}; ${known}.${meantBy(name, names)} Add it to ${setting} in troupe.yaml of the folder where Troupe was started.`,
    { field: of },
  );
}
