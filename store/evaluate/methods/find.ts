/** The methods of the catalogue as a list, and each by its name. */
import { got, TroupeError } from '../../../errors.ts';
import { nearest } from '../../../nearest.ts';
import * as catalogue from './catalogue.ts';
import type { Method, MethodKind } from './method.ts';

type Catalogued = (typeof catalogue)[keyof typeof catalogue];

export type MethodName = Catalogued['name'];
/** The method of that name, with the types of its input, parameters and output. */
export type MethodNamed<Name extends MethodName> = Extract<Catalogued, { readonly name: Name }>;

const KINDS: readonly MethodKind[] = ['filter', 'score', 'reward', 'credit', 'process', 'blame'];

/** By kind, then by name. */
export const METHODS: readonly Method[] = Object.values<Method>(catalogue).sort(
  (a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || (a.name < b.name ? -1 : 1),
);

/** The method of that name among the judge's, or among those given. Throws TroupeError `method_unknown`, with the nearest name where one is near. */
export function findMethod<Name extends MethodName>(name: Name): MethodNamed<Name>;
export function findMethod(name: string, methods?: readonly Method[]): Method;
export function findMethod(name: string, methods: readonly Method[] = METHODS): unknown {
  const method = methods.find((one) => one.name === name);
  if (method !== undefined) return method;
  const near = nearest(
    name,
    methods.map((one) => one.name),
  );
  const hint = near === null ? '`troupe method list` names them all.' : `Did you mean ${near}?`;
  throw new TroupeError('method_unknown', `There is no method named ${got(name)}. ${hint}`, {
    field: 'method',
    expected: 'the name of a method in the catalogue',
    got: got(name),
    hint,
  });
}
