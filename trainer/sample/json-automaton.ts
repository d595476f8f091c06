/**
 * Reads a text of a grammar byte by byte. A state is what may still come: stacks of what is expected next, and what after it. Stacks are
 * made once, so that equal states are the same numbers. Pure.
 */
import { type Grammar, SPACE } from './json-schema.ts';

type Expectation =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array; readonly at: number }
  | { readonly kind: 'space' }
  | { readonly kind: 'value'; readonly grammar: Grammar }
  /** In a string: after a backslash, or with bytes of a character left, the next of which lies between two. */
  | {
      readonly kind: 'string';
      readonly escaped: boolean;
      readonly left: number;
      readonly from: number;
      readonly to: number;
    }
  | { readonly kind: 'number'; readonly integer: boolean; readonly place: NumberPlace; readonly digits: number }
  | { readonly kind: 'items'; readonly array: Extract<Grammar, { kind: 'array' }>; readonly count: number }
  | { readonly kind: 'members'; readonly object: ObjectOf<'object'>; readonly isFirst: boolean }
  /** In an object of listed members: those before `at` are behind. */
  | {
      readonly kind: 'properties';
      readonly object: ObjectOf<'properties'>;
      readonly at: number;
      readonly place: 'first' | 'name' | 'after';
    };
type ObjectOf<K extends Grammar['kind']> = Extract<Grammar, { kind: K }>;
type InString = Extract<Expectation, { kind: 'string' }>;
type NumberPlace = 'start' | 'sign' | 'zero' | 'whole' | 'point' | 'fraction';

/** Null: nothing more may come. */
type Stack = { readonly id: number; readonly expected: Expectation; readonly below: Stack } | null;

/** What may come, as one text names it; two states with the same key allow the same. */
export type State = { readonly key: string; readonly stacks: readonly Stack[] };

export type Automaton = {
  readonly start: State;
  /** The state after a byte; null where the byte is not allowed. */
  readonly step: (state: State, byte: number) => State | null;
  /** Whether the text may end here. */
  readonly isWhole: (state: State) => boolean;
};

/** Digits of a number before and after the point, at most: a number of so many is the same when it is read. No exponents. */
const MOST_DIGITS = 15;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const CLOSE = 0x7d;
const ESCAPES = new Set([...'"\\/bfnrt'].map((character) => character.charCodeAt(0)));
const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;
const INSIDE: InString = { kind: 'string', escaped: false, left: 0, from: 0, to: 0 };

export function automatonOf(grammar: Grammar): Automaton {
  const stacks = new Stacks();
  return {
    start: stateOf([stacks.push(value(grammar), null)]) as State,
    step: ({ stacks: now }, byte) =>
      stateOf(now.length === 1 ? stacks.next(now[0] as Stack, byte) : now.flatMap((one) => stacks.next(one, byte))),
    isWhole: ({ stacks: now }) => now.some(mayEnd),
  };
}

const text = (written: string): Expectation => ({ kind: 'bytes', bytes: Buffer.from(written), at: 0 });
const value = (one: Grammar): Expectation => ({ kind: 'value', grammar: one });
const member = (object: ObjectOf<'object'>): readonly Expectation[] => [
  INSIDE,
  text(':'),
  { kind: 'space' },
  value(object.values),
  { kind: 'members', object, isFirst: false },
];

const stateOf = (stacks: readonly Stack[]): State | null => {
  if (stacks.length === 0) return null;
  if (stacks.length === 1) return { key: String(stacks[0]?.id ?? 0), stacks };
  const unique = new Map(stacks.map((stack) => [stack?.id ?? 0, stack]));
  const ids = [...unique.keys()].sort((a, b) => a - b);
  return { key: ids.join(), stacks: ids.map((id) => unique.get(id) as Stack) };
};
const mayEnd = (stack: Stack): boolean =>
  stack === null ||
  ((stack.expected.kind === 'space' || (stack.expected.kind === 'number' && isNumber(stack.expected))) &&
    mayEnd(stack.below));

/** The stacks of a grammar, each made once. */
class Stacks {
  private readonly made = new Map<string, Stack>();
  private readonly names = new Map<Grammar, number>();

  private name(one: Grammar): number {
    const known = this.names.get(one) ?? this.names.size;
    this.names.set(one, known);
    return known;
  }

  private keyOf(one: Expectation): string {
    switch (one.kind) {
      case 'bytes':
        return `b${Buffer.from(one.bytes.subarray(one.at)).toString('latin1')}`;
      case 'value':
        return `v${this.name(one.grammar)}`;
      case 'string':
        return `s${one.escaped}${one.left},${one.from},${one.to}`;
      case 'number':
        return `n${one.integer}${one.place}${one.digits}`;
      case 'items':
        return `i${this.name(one.array)},${one.count}`;
      case 'members':
        return `m${this.name(one.object)}${one.isFirst}`;
      case 'properties':
        return `p${this.name(one.object)},${one.at}${one.place}`;
      default:
        return one.kind;
    }
  }

  push(expected: Expectation, below: Stack): Stack {
    const key = `${below?.id ?? 0} ${this.keyOf(expected)}`;
    let stack = this.made.get(key);
    if (stack === undefined) {
      stack = { id: this.made.size + 1, expected, below };
      this.made.set(key, stack);
    }
    return stack;
  }

  private all(parts: readonly Expectation[], below: Stack): Stack {
    return parts.reduceRight<Stack>((stack, part) => this.push(part, stack), below);
  }

  /** The ways in which a value may begin. */
  private begin(one: Grammar, below: Stack): readonly Stack[] {
    switch (one.kind) {
      case 'texts':
        return one.texts.map((written) => this.push(text(written), below));
      case 'string':
        return [this.all([text('"'), INSIDE], below)];
      case 'number':
        return [this.push({ kind: 'number', integer: one.integer, place: 'start', digits: 0 }, below)];
      case 'sequence':
        return [
          this.all(
            one.parts.map((part) =>
              part === SPACE ? { kind: 'space' } : typeof part === 'string' ? text(part) : value(part),
            ),
            below,
          ),
        ];
      case 'array':
        return [this.all([text('['), { kind: 'items', array: one, count: 0 }], below)];
      case 'object':
        return [this.all([text('{'), { kind: 'members', object: one, isFirst: true }], below)];
      case 'properties':
        return [this.all([text('{'), { kind: 'properties', object: one, at: 0, place: 'first' }], below)];
      case 'any of':
        return one.options.flatMap((option) => this.begin(option, below));
      case 'defined':
        return this.begin(one.grammar(), below);
    }
  }

  next(stack: Stack, byte: number): readonly Stack[] {
    if (stack === null) return [];
    const { expected, below } = stack;
    switch (expected.kind) {
      case 'bytes': {
        const { bytes, at } = expected;
        if (bytes[at] !== byte) return [];
        return [at + 1 === bytes.length ? below : this.push({ ...expected, at: at + 1 }, below)];
      }
      case 'space':
        return byte === 0x20 ? [below] : this.next(below, byte);
      case 'value':
        return this.begin(expected.grammar, below).flatMap((one) => this.next(one, byte));
      case 'string': {
        const after = inString(expected, byte);
        return after === null ? [] : [after === 'end' ? below : this.push(after, below)];
      }
      case 'number': {
        const after = inNumber(expected, byte);
        return [
          ...(after === null ? [] : [this.push(after, below)]),
          ...(isNumber(expected) ? this.next(below, byte) : []),
        ];
      }
      case 'items': {
        const { array, count } = expected;
        const { items, least, most } = array;
        // Counts that allow the same are the same state.
        const counted = most === Number.POSITIVE_INFINITY ? Math.min(count + 1, Math.max(least, 1)) : count + 1;
        const more = (): Stack => this.all([value(items), { ...expected, count: counted }], below);
        if (byte === 0x5d) return count >= least ? [below] : [];
        if (count >= most) return [];
        if (count === 0) return this.next(more(), byte);
        return byte === COMMA ? [this.push({ kind: 'space' }, more())] : [];
      }
      case 'members': {
        const { object, isFirst } = expected;
        if (byte === CLOSE) return [below];
        if (isFirst) return byte === QUOTE ? [this.all(member(object), below)] : [];
        return byte === COMMA ? [this.all([{ kind: 'space' }, text('"'), ...member(object)], below)] : [];
      }
      case 'properties': {
        const { object, at, place } = expected;
        const left = object.members.slice(at);
        if (byte === CLOSE && place !== 'name') return left.some(({ required }) => required) ? [] : [below];
        if (place === 'after')
          return byte === COMMA && left.length > 0
            ? [this.all([{ kind: 'space' }, { ...expected, place: 'name' }], below)]
            : [];
        const last = left.findIndex(({ required }) => required);
        return left.slice(0, last < 0 ? left.length : last + 1).flatMap(({ key, grammar }, i) => {
          const rest: Expectation = { ...expected, at: at + i + 1, place: 'after' };
          return this.next(this.all([text(`${key}:`), { kind: 'space' }, value(grammar), rest], below), byte);
        });
      }
    }
  }
}

/** Inside a string after a byte: UTF-8 as RFC 3629 has it, no control characters, and escapes but `\u`. */
function inString(now: InString, byte: number): InString | 'end' | null {
  const rest = (left: number, from = 0x80, to = 0xbf): InString => ({ ...INSIDE, left, from, to });
  if (now.escaped) return ESCAPES.has(byte) ? INSIDE : null;
  if (now.left > 0) {
    if (byte < now.from || byte > now.to) return null;
    return now.left === 1 ? INSIDE : rest(now.left - 1);
  }
  if (byte === QUOTE) return 'end';
  if (byte === BACKSLASH) return { ...INSIDE, escaped: true };
  if (byte < 0x80) return byte >= 0x20 ? INSIDE : null;
  if (byte < 0xc2 || byte > 0xf4) return null;
  if (byte < 0xe0) return rest(1);
  if (byte < 0xf0) return rest(2, byte === 0xe0 ? 0xa0 : 0x80, byte === 0xed ? 0x9f : 0xbf);
  return rest(3, byte === 0xf0 ? 0x90 : 0x80, byte === 0xf4 ? 0x8f : 0xbf);
}

type InNumber = Extract<Expectation, { kind: 'number' }>;
const isNumber = ({ place }: InNumber): boolean => place === 'zero' || place === 'whole' || place === 'fraction';

function inNumber(now: InNumber, byte: number): InNumber | null {
  const { place, digits, integer } = now;
  if (place === 'start' && byte === 0x2d) return { ...now, place: 'sign' };
  if (place === 'start' || place === 'sign') {
    if (!isDigit(byte)) return null;
    return { ...now, place: byte === 0x30 ? 'zero' : 'whole', digits: 1 };
  }
  if ((place === 'zero' || place === 'whole') && byte === 0x2e && !integer)
    return { ...now, place: 'point', digits: 0 };
  if (!isDigit(byte) || place === 'zero' || digits >= MOST_DIGITS) return null;
  return { ...now, place: place === 'whole' ? 'whole' : 'fraction', digits: digits + 1 };
}
