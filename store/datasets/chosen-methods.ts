/** Which judged method a recipe means: its key, with version and parameters, as the tables hold them. */

import { meantBy } from '../../document.ts';
import { got, TroupeError } from '../../errors.ts';
import { canonicalJson } from '../../ingest/events/json.ts';
import type { Session } from '../db/pool.ts';
import { query, rowsOf } from '../db/query.ts';
import { METHOD_NAMES } from '../evaluate/methods/catalogue.ts';
import type { MethodChoice } from './recipe.ts';

export type ChosenMethod = {
  readonly method_key: string;
  readonly method: string;
  readonly version: number;
  readonly kind: string;
  readonly params: Readonly<Record<string, unknown>>;
};

/** Every method that was ever judged; there are a few dozen. */
export const judgedMethods = (tx: Pick<Session, 'query'>): Promise<readonly ChosenMethod[]> =>
  rowsOf(
    tx,
    query
      .selectFrom('facts.judged_methods')
      .select(['method_key', 'method', 'version', 'kind', 'params'])
      .orderBy('method_key'),
  );

/**
 * The method that `choice` means: exactly `method_key`; else the one with this name, the given or latest version, and the given
 * parameters among its own. Several parameter sets are distinguished by naming parameters; nothing is guessed.
 * @throws TroupeError `not_found` where nothing was judged by it, `recipe_invalid` where several parameter sets fit.
 */
export function chooseMethod(judged: readonly ChosenMethod[], choice: MethodChoice, field: string): ChosenMethod {
  const named = judged.filter(
    (m) =>
      (choice.method_key === null || m.method_key === choice.method_key) &&
      (choice.method === null || m.method === choice.method),
  );
  const latest = Math.max(...named.map((m) => m.version));
  const fitting = named.filter(
    (m) => m.version === (choice.version ?? latest) && hasParams(m.params, choice.params ?? {}),
  );
  const exact = fitting.find((m) => canonicalJson(m.params) === canonicalJson(choice.params ?? {}));
  const chosen = fitting.length === 1 ? fitting[0] : exact;
  if (chosen) return chosen;
  const name = choice.method_key ?? choice.method ?? '';
  if (fitting.length > 1) {
    const sets = fitting.map((m) => canonicalJson(m.params)).join(' · ');
    throw new TroupeError(
      'recipe_invalid',
      `${field}: ${name} was judged with ${fitting.length} sets of parameters. Write one of: ${fitting.map((m) => choiceText(m, fitting)).join(' · ')}.`,
      {
        field,
        expected: 'one set of parameters',
        got: sets,
        hint: 'In a filter the key stands in the place of the name.',
      },
    );
  }
  // A name that nothing was judged by and that no method has is a mistake, and judging by it is no way out.
  if (named.length === 0 && choice.method && !isMethod(choice.method)) {
    const meant = meantBy(choice.method, [...judged.map(({ method }) => method), ...METHOD_NAMES]);
    throw new TroupeError(
      'method_unknown',
      `${field}: there is no method named ${got(choice.method)}.${meant || ' `troupe method list` names them all.'} What was recorded under a name is feedback(${choice.method}).`,
      { field, expected: 'the name of a method', got: got(choice.method) },
    );
  }
  const what = named.length > 0 ? 'with this version and these parameters' : 'yet';
  throw new TroupeError('not_found', `${field}: nothing was judged by ${name} ${what}; judge the episodes first.`, {
    field,
    ...(named.length === 0 && choice.method ? { hint: `\`troupe judge --methods ${choice.method}\` does.` } : {}),
    expected:
      named.length > 0
        ? named.map((m) => `version ${m.version} ${canonicalJson(m.params)}`).join(' · ')
        : 'a method that was run',
    got: canonicalJson(choice),
  });
}

/** Whether a method has this name, or the key of a method stands in its place, as in a filter of which methods are pinned. */
export const isMethod = (nameOrKey: string): boolean =>
  METHOD_NAMES.some((name) => nameOrKey === name || nameOrKey.startsWith(`${name}@`));

export const hasParams = (
  params: Readonly<Record<string, unknown>>,
  wanted: Readonly<Record<string, unknown>>,
): boolean => Object.entries(wanted).every(([name, value]) => canonicalJson(params[name]) === canonicalJson(value));

/** What chooses this method among those, as it stands in a recipe: the parameters in which they differ, or the key where those are too few. */
function choiceText(chosen: ChosenMethod, among: readonly ChosenMethod[]): string {
  const differs = (name: string) => new Set(among.map(({ params }) => canonicalJson(params[name]))).size > 1;
  const params = Object.fromEntries(Object.entries(chosen.params).filter(([name]) => differs(name)));
  const alone = among.filter((m) => hasParams(m.params, params)).length === 1;
  return canonicalJson(alone ? { method: chosen.method, params } : { method_key: chosen.method_key });
}
