/**
 * The entry point for running a method from outside: parameters are separated from data by name, both are checked,
 * and what does not fit is refused with the field, what was expected and what came. The method itself stays a plain function.
 */

import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { got, TroupeError } from '../../../errors.ts';
import { nearest } from '../../../nearest.ts';
import type { Ask, Method } from './method.ts';
import { refuseInput } from './refuse.ts';

type Complaint = { keyword: string; instancePath: string; message: string; params: { requiredProperties?: string[] } };
type Checker = { Check(value: unknown): boolean; Errors(value: unknown): Complaint[] };

/** Data of a method with parameters beside it; anything at all where nobody knows which method it is. */
export type Data<Input, Params> = unknown extends Input ? unknown : Input & Partial<Params>;

type Description = Pick<Method, 'name' | 'params' | 'limits' | 'input'>;

const checkers = new WeakMap<object, Checker>();

/**
 * Runs a method on one JSON-like object that holds data and parameters together; parameters are the keys of `method.params`,
 * and those not given have their defaults. Throws TroupeError `method_input` for a missing or wrong field, a number that is not
 * finite, a name the method does not know, and for rewards so large that the answer would not be finite.
 */
export function runMethod<Input, Params, Output>(
  method: Method<string, Input, Params, Output>,
  input: Data<Input, Params>,
): Output {
  if (!isRecord(input)) refuseInput('input', `an object with ${list(fieldsOf(method.input))}`, input);
  const names = parameterNames(method);
  // Without a prototype, so that a field named __proto__ is a field like any other, and refused.
  const data: Record<string, unknown> = Object.create(null);
  const given: Record<string, unknown> = Object.create(null);
  for (const [name, value] of Object.entries(input)) (names.includes(name) ? given : data)[name] = value;
  for (const name of Object.keys(data)) {
    if (!fieldsOf(method.input).includes(name)) refuseName(method, name, [...fieldsOf(method.input), ...names]);
  }
  return checkedRun(method, data as Input, methodParams(method, given));
}

/** Runs a method over data and parameters that are known to be its own. Throws TroupeError `method_input` as `runMethod` does. */
function checkedRun<Input, Params, Output>(
  method: Method<string, Input, Params, Output>,
  data: Input,
  params: Params,
): Output {
  check(method.input, data, '');
  const output = method.run(data, params);
  requireFinite(output, 'output');
  return output;
}

/** The method with these parameters, ready to be asked. */
export function askOf<Input, Params, Output>(
  method: Method<string, Input, Params, Output>,
  params: Params,
): Ask<Input, Params, Output> {
  const run = (input: Input): Output => checkedRun(method, input, params);
  const answer = (input: Input): Output | string => {
    try {
      return run(input);
    } catch (error) {
      if (error instanceof TroupeError && error.code === 'method_input') return error.message;
      throw error;
    }
  };
  return { params, run, answer };
}

/** The method's defaults with the given ones put over them, each checked. Throws TroupeError `method_input`. */
export function methodParams<Params>(
  method: Description & { readonly params: Params },
  given: Readonly<Record<string, unknown>>,
): Params {
  const defaults = method.params as Readonly<Record<string, unknown>>;
  const limits = (method.limits ?? {}) as Readonly<Record<string, object | undefined>>;
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(defaults, name)) refuseName(method, name, parameterNames(method));
    const limit = limits[name];
    if (limit !== undefined) check(limit, value, name);
    else if (typeof value !== typeof defaults[name] || !isFiniteNumberOrOther(value)) {
      const expected = typeof defaults[name] === 'number' ? 'a finite number' : `a ${typeof defaults[name]}`;
      refuseInput(name, expected, Number.isNaN(value) ? 'NaN' : value);
    }
  }
  return { ...defaults, ...given } as Params;
}

function parameterNames(method: Description): string[] {
  return Object.keys(method.params as object);
}

function fieldsOf(schema: object): string[] {
  return Object.keys((schema as { properties?: object }).properties ?? {});
}

function refuseName(method: Description, name: string, known: readonly string[]): never {
  const near = nearest(name, known);
  const hint = near === null ? `It takes ${list(known)}.` : `Did you mean ${near}?`;
  throw new TroupeError('method_input', `${method.name} has no input or parameter named ${got(name)}. ${hint}`, {
    field: name,
    expected: list(known),
    got: got(name),
    hint,
  });
}

function check(schema: object, value: unknown, at: string): void {
  let checker = checkers.get(schema);
  if (checker === undefined) {
    checker = Compile(schema as TSchema) as unknown as Checker;
    checkers.set(schema, checker);
  }
  if (checker.Check(value)) return;
  const errors = checker.Errors(value);
  // The alternatives of a union all complain at one place; the deepest place of the first complaint is the cause.
  const path = errors.map((error) => error.instancePath).find((p) => p.length > 0) ?? '';
  const here = errors.filter((error) => error.instancePath === path);
  const wanted = [...new Set(here.filter(({ keyword }) => keyword !== 'anyOf').map(expectation))];
  const came = valueAt(value, path);
  refuseInput(fieldName(at, path), wanted.join(' or ') || 'another value', show(came));
}

function expectation({ message, params }: Complaint): string {
  const missing = params.requiredProperties;
  return missing === undefined ? message.replace(/^must (be )?/, '') : `an object with ${list(missing)}`;
}

function show(value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}

function valueAt(value: unknown, pointer: string): unknown {
  let here = value;
  for (const part of pointer.split('/').slice(1))
    here = (here as Record<string, unknown> | undefined)?.[unescapePart(part)];
  return here;
}

function fieldName(at: string, pointer: string): string {
  let name = at;
  for (const part of pointer.split('/').slice(1)) {
    const text = unescapePart(part);
    name += /^\d+$/.test(text) ? `[${text}]` : name === '' ? text : `.${text}`;
  }
  return name === '' ? 'input' : name;
}

function unescapePart(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** Throws TroupeError `method_input` where a number is not finite. */
// Names of places are made only where one is wrong: for a column of a million numbers they would cost more than the method.
export function requireFinite(value: unknown, at: string): void {
  if (isFiniteThroughout(value)) return;
  if (typeof value === 'number') {
    refuseInput(at, 'finite; the numbers of the input are too large to compute with', String(value));
  }
  if (Array.isArray(value))
    value.forEach((item, i) => {
      requireFinite(item, `${at}[${i}]`);
    });
  else if (isRecord(value)) for (const [name, item] of Object.entries(value)) requireFinite(item, `${at}.${name}`);
}

function isFiniteThroughout(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (Array.isArray(value)) {
    for (const item of value) if (!isFiniteThroughout(item)) return false;
    return true;
  }
  return !isRecord(value) || Object.values(value).every(isFiniteThroughout);
}

function isFiniteNumberOrOther(value: unknown): boolean {
  return typeof value !== 'number' || Number.isFinite(value);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function list(names: readonly string[]): string {
  return names.join(', ');
}
