/** Every way in which a variable of a container can be wrong that a person would not see: its name, its value, where it points. */

type Env = Readonly<Record<string, string>>;
export type Wrong = { readonly variable: string; readonly what: string; readonly environment: Env };

/** No number, name, key, list, address or folder that can be made. */
const NONSENSE = '/dev/null/no such thing';
/** Nothing listens there. */
const NOWHERE = '127.0.0.1:1';

/** For each variable of `environment`, as it is on this machine. `random` gives numbers from 0 to 1. */
export function wrongVariables(environment: Env, random: () => number): readonly Wrong[] {
  return Object.entries(environment).flatMap(([variable, value]) => {
    const name = misspelt(variable, random);
    const rest = Object.fromEntries(Object.entries(environment).filter(([one]) => one !== variable));
    const elsewhere = value.replace(/127\.0\.0\.1:\d+/g, NOWHERE);
    return [
      { variable, what: `misspelt as ${name}`, environment: { ...rest, [name]: value } },
      { variable, what: `set to ${NONSENSE}`, environment: { ...rest, [variable]: NONSENSE } },
      ...(elsewhere === value
        ? []
        : [{ variable, what: `pointing to ${NOWHERE}`, environment: { ...rest, [variable]: elsewhere } }]),
    ];
  });
}

/** One slip of the hand: a letter left out, doubled, or changed places with its neighbour. */
export function misspelt(name: string, random: () => number): string {
  const at = Math.floor(random() * (name.length - 1));
  const [before, one, next, after] = [name.slice(0, at), name[at]!, name[at + 1]!, name.slice(at + 2)];
  const slips = [`${before}${next}${after}`, `${before}${one}${one}${next}${after}`];
  if (one !== next) slips.push(`${before}${next}${one}${after}`);
  return slips[Math.floor(random() * slips.length)]!;
}
