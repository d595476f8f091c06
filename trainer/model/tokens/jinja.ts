/**
 * Jinja as Python evaluates it, with which chat templates were written. The only file that knows @huggingface/jinja, whose interpreter
 * differs without a word where a value is shown (lists, `none`, booleans), compared, stripped of given characters or measured; these places
 * are replaced here. What the library does not have (some filters and tests) it refuses by name.
 */
import { createContext, Script } from 'node:vm';
import { Environment, Interpreter, Template } from '@huggingface/jinja';
import { spellingIn } from '../../../ingest/events/spelling.ts';

/** `spelling` is how its source wrote a number, where JavaScript would write it otherwise. */
type Value = { readonly type: string; readonly value: unknown; readonly spelling?: string };
type JinjaNode = { readonly type: string; readonly [field: string]: unknown };
type Evaluate = (node: JinjaNode, environment: Environment) => Value;

/** A value that stands where a node is expected, so that nothing is evaluated twice. */
const evaluated = (value: Value): JinjaNode => ({ type: 'Evaluated', value });

/** What the library makes of a value of JavaScript. */
const made = (value: unknown): Value => new Environment().set('value', value) as unknown as Value;
const text = (value: string): Value => made(value);

const FloatValue = made(0.5).constructor as new (value: number) => Value;

/** A number that its source spelled otherwise: `1.0` is no integer, and an integer beyond 2^53 is no text. */
function spelled(spelling: string): Value {
  const value = Number(spelling);
  return Object.assign(/[.eE]/.test(spelling) ? new FloatValue(value) : made(value), { spelling });
}

/** Gives what the library made of a value the numbers and the order that `JSON.parse` lost. */
function respell(value: unknown, of: Value): void {
  if (typeof value !== 'object' || value === null) return;
  const spelling = spellingIn(value);
  if (Array.isArray(value)) {
    const list = of.value as Value[];
    for (const [i, one] of value.entries()) respell(one, list[i]!);
    for (const [place, written] of spelling?.numbers ?? []) list[place as number] = spelled(written);
    return;
  }
  const members = of.value as Map<string, Value>;
  for (const [key, one] of Object.entries(value)) respell(one, members.get(key)!);
  for (const [key, written] of spelling?.numbers ?? []) members.set(key as string, spelled(written));
  for (const key of spelling?.keys ?? []) {
    const member = members.get(key)!;
    members.delete(key);
    members.set(key, member);
  }
}

const isText = (value: Value): value is Value & { readonly value: string } => value.type === 'StringValue';
const isNumber = ({ type }: Value): boolean => ['IntegerValue', 'FloatValue', 'BooleanValue'].includes(type);
const isObject = ({ type }: Value): boolean => type === 'ObjectValue' || type === 'NamespaceValue';
const isList = ({ type }: Value): boolean => type === 'ArrayValue' || type === 'TupleValue';
const items = (value: Value): readonly Value[] => value.value as readonly Value[];
const entries = (value: Value): ReadonlyMap<string, Value> => value.value as ReadonlyMap<string, Value>;

/** `str(value)`; what is undefined is shown as nothing. */
export function shown(value: Value): string {
  if (isText(value)) return value.value;
  return value.type === 'UndefinedValue' ? '' : represented(value);
}

/** `repr(value)`. */
function represented(value: Value): string {
  switch (value.type) {
    case 'StringValue':
      return quoted(value.value as string);
    case 'NullValue':
      return 'None';
    case 'UndefinedValue':
      return 'Undefined';
    case 'BooleanValue':
      return value.value ? 'True' : 'False';
    case 'ArrayValue':
      return `[${items(value).map(represented).join(', ')}]`;
    case 'TupleValue':
      return `(${items(value).map(represented).join(', ')}${items(value).length === 1 ? ',' : ''})`;
    case 'ObjectValue':
      return `{${[...entries(value)].map(([key, one]) => `${quoted(key)}: ${represented(one)}`).join(', ')}}`;
    case 'IntegerValue':
      return value.spelling ?? String(value);
    default:
      return String(value);
  }
}

/** `value | tojson` without options. */
function asJson(value: Value): string {
  if (isList(value)) return `[${items(value).map(asJson).join(', ')}]`;
  if (isObject(value)) {
    return `{${[...entries(value)].map(([key, one]) => `${JSON.stringify(key)}: ${asJson(one)}`).join(', ')}}`;
  }
  if (value.type === 'UndefinedValue') return 'null';
  return value.spelling ?? JSON.stringify(value.value);
}

const isJson = (value: Value): boolean =>
  isList(value)
    ? items(value).every(isJson)
    : isObject(value)
      ? [...entries(value).values()].every(isJson)
      : value.type !== 'FunctionValue' && value.type !== 'KeywordArgumentsValue';

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** A text between single quotes, or double ones where it holds single ones only. */
function quoted(value: string): string {
  const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
  const inside = value.replace(/[\\\n\r\t]|(?! )[\p{C}\p{Z}]/gu, (one) => ESCAPES[one] ?? escaped(one.codePointAt(0)!));
  return `${quote}${quote === "'" ? inside.replaceAll("'", "\\'") : inside}${quote}`;
}

function escaped(code: number): string {
  const digits = code.toString(16);
  if (code < 0x100) return `\\x${digits.padStart(2, '0')}`;
  return code < 0x10000 ? `\\u${digits.padStart(4, '0')}` : `\\U${digits.padStart(8, '0')}`;
}

/** `a == b`: by value, and a text is no number. */
function equal(a: Value, b: Value): boolean {
  if (isNumber(a) && isNumber(b)) return Number(a.value) === Number(b.value);
  if (isList(a) && isList(b)) {
    return (
      a.type === b.type && items(a).length === items(b).length && items(a).every((one, i) => equal(one, items(b)[i]!))
    );
  }
  if (isObject(a) && isObject(b)) {
    const [left, right] = [entries(a), entries(b)];
    return left.size === right.size && [...left].every(([key, one]) => right.has(key) && equal(one, right.get(key)!));
  }
  return a.type === b.type && a.value === b.value;
}

/** White space as `str.strip` knows it. */
const SPACES = [...'\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000'].concat(
  Array.from({ length: 11 }, (_, i) => String.fromCharCode(0x2000 + i)),
);

function stripped(value: string, side: 'strip' | 'lstrip' | 'rstrip', given: Value | undefined): string {
  if (given !== undefined && !isText(given) && given.type !== 'NullValue') {
    throw new Error(`${side} arg must be None or str`);
  }
  const gone = new Set(given !== undefined && isText(given) ? [...given.value] : SPACES);
  const characters = [...value];
  let [from, to] = [0, characters.length];
  if (side !== 'rstrip') while (from < to && gone.has(characters[from]!)) from++;
  if (side !== 'lstrip') while (to > from && gone.has(characters[to - 1]!)) to--;
  return characters.slice(from, to).join('');
}

const capitalized = (value: string): string => {
  const [first = '', ...rest] = value;
  return first.toUpperCase() + rest.join('').toLowerCase();
};

/** Methods of texts. */
const METHODS: Readonly<Record<string, (value: string, args: readonly Value[]) => string>> = {
  strip: (value, [given]) => stripped(value, 'strip', given),
  lstrip: (value, [given]) => stripped(value, 'lstrip', given),
  rstrip: (value, [given]) => stripped(value, 'rstrip', given),
  capitalize: capitalized,
  title: (value) => value.replace(/\p{L}+/gu, capitalized),
};

/** Filters of one operand, by their names; null where the library's is right. */
function filtered(name: string, operand: Value, args: readonly Value[]): Value | null {
  switch (name) {
    case 'tojson':
      return isJson(operand) ? text(asJson(operand)) : null;
    case 'trim':
      return isText(operand) || operand.type === 'UndefinedValue'
        ? text(stripped(shown(operand), 'strip', args[0]))
        : null;
    case 'string':
      return text(shown(operand));
    case 'capitalize':
      return isText(operand) ? text(capitalized(operand.value)) : null;
    case 'title':
      return isText(operand) ? text(operand.value.replace(/[^\s([{<-]+/g, capitalized)) : null;
    case 'length':
    case 'count':
      return isText(operand) ? made([...operand.value].length) : operand.type === 'UndefinedValue' ? made(0) : null;
    case 'join':
      return isList(operand)
        ? text(
            items(operand)
              .map(shown)
              .join(args[0] === undefined ? '' : shown(args[0])),
          )
        : null;
    case 'int':
      if (isText(operand)) {
        const number = operand.value.trim();
        return /^[+-]?\d+$|^[+-]?\d*\.?\d+(e[+-]?\d+)?$/i.test(number)
          ? made(Math.trunc(Number(number)))
          : (args[0] ?? made(0));
      }
      return isNumber(operand) ? made(Math.trunc(Number(operand.value))) : null;
    default:
      return null;
  }
}

/** Nodes that are no expressions and show nothing where their value is none. */
const SILENT = new Set(['Set', 'Macro', 'Comment']);

type Prototype = {
  evaluate: Evaluate;
  evaluateArguments(args: unknown, environment: Environment): [Value[], Map<string, Value>];
  evaluateBlock(statements: readonly JinjaNode[], environment: Environment): Value;
  evaluateBinaryExpression: Evaluate;
  evaluateCallExpression: Evaluate;
  evaluateMemberExpression: Evaluate;
  applyFilter(operand: Value, filter: JinjaNode, environment: Environment): Value;
};
const library = Interpreter.prototype as unknown as Prototype;
const { evaluate, evaluateBinaryExpression, evaluateCallExpression, evaluateMemberExpression, applyFilter } = library;

const replaced: Prototype & ThisType<Prototype> = {
  ...({} as Pick<Prototype, 'evaluateArguments'>),

  evaluate(node, environment) {
    return node?.type === 'Evaluated' ? (node.value as Value) : evaluate.call(this, node, environment);
  },

  evaluateBlock(statements, environment) {
    let result = '';
    for (const statement of statements) {
      const value = this.evaluate(statement, environment);
      if (value.type !== 'NullValue' || !SILENT.has(statement.type)) result += shown(value);
    }
    return text(result);
  },

  evaluateBinaryExpression(node, environment) {
    const operator = (node.operator as { readonly value: string }).value;
    if (operator === 'and' || operator === 'or') return evaluateBinaryExpression.call(this, node, environment);
    const left = this.evaluate(node.left as JinjaNode, environment);
    const right = this.evaluate(node.right as JinjaNode, environment);
    if (operator === '==') return made(equal(left, right));
    if (operator === '!=') return made(!equal(left, right));
    if (operator === '~') return text(shown(left) + shown(right));
    if ((operator === 'in' || operator === 'not in') && isList(right)) {
      return made(items(right).some((one) => equal(one, left)) === (operator === 'in'));
    }
    if (operator === '+' && isText(left) !== isText(right)) {
      throw new Error('can only concatenate a text to a text');
    }
    if (operator === '%' && isNumber(left) && isNumber(right)) {
      const [a, b] = [Number(left.value), Number(right.value)];
      if (b === 0) throw new Error('modulo by zero');
      return made(a - b * Math.floor(a / b));
    }
    return evaluateBinaryExpression.call(
      this,
      { ...node, left: evaluated(left), right: evaluated(right) },
      environment,
    );
  },

  evaluateCallExpression(node, environment) {
    const callee = node.callee as JinjaNode;
    if (callee.type !== 'MemberExpression' || callee.computed)
      return evaluateCallExpression.call(this, node, environment);
    const object = this.evaluate(callee.object as JinjaNode, environment);
    const name = (callee.property as { readonly value: string }).value;
    const method = isText(object) && Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
    if (method !== undefined) {
      const [args] = this.evaluateArguments(node.args, environment);
      return text(method(object.value as string, args));
    }
    // A key of the same name does not hide a method.
    const builtin = (object as Value & { readonly builtins?: ReadonlyMap<string, Value> }).builtins?.get(name);
    const called =
      isObject(object) && builtin?.type === 'FunctionValue'
        ? evaluated(builtin)
        : { ...callee, object: evaluated(object) };
    return evaluateCallExpression.call(this, { ...node, callee: called }, environment);
  },

  evaluateMemberExpression(node, environment) {
    const object = this.evaluate(node.object as JinjaNode, environment);
    if (object.type === 'UndefinedValue') throw new Error(`${named(node.object as JinjaNode)} is undefined`);
    return evaluateMemberExpression.call(this, { ...node, object: evaluated(object) }, environment);
  },

  applyFilter(operand, filter, environment) {
    const called = filter.type === 'CallExpression';
    const name = (called ? (filter.callee as JinjaNode) : filter).value as string;
    const [args, options] = called ? this.evaluateArguments(filter.args, environment) : [[], new Map<string, Value>()];
    const isPlain = [...options].every(([option, given]) => option === 'ensure_ascii' && given.value === false);
    return (
      (name === 'tojson' && !isPlain ? null : filtered(name, operand, args)) ??
      applyFilter.call(this, operand, filter, environment)
    );
  },
};

/** How an expression is called in an error. */
const named = (node: JinjaNode): string => {
  const last = (node.type === 'MemberExpression' ? (node.property as JinjaNode) : node).value;
  return typeof last === 'string' ? `'${last}'` : 'a value';
};

Object.assign(library, replaced);
const { set } = Environment.prototype;
Environment.prototype.set = function (name: string, value: unknown) {
  const of = set.call(this, name, value);
  respell(value, of as unknown as Value);
  return of;
};
// All environments share one table of tests.
(new Environment().tests as Map<string, (operand: Value) => boolean>).set(
  'iterable',
  (operand) => isText(operand) || isList(operand) || isObject(operand),
);

/** Far above what a template takes for the longest conversation. */
const MOST_MS = 10_000;
const CLOCK = { script: new Script('render()'), context: createContext({ render: null }) };

/** A template comes with a model, and its loops may have no end: the engine stops it after {@link MOST_MS}. The clock costs 0.1 ms. */
export function rendered(template: Template, values: Record<string, unknown>): string {
  CLOCK.context.render = () => template.render(values);
  try {
    return CLOCK.script.runInContext(CLOCK.context, { timeout: MOST_MS });
  } finally {
    CLOCK.context.render = null;
  }
}

export { Template };
