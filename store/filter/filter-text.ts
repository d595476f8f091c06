/**
 * A filter as one line of text, read into the JSON tree of store/filter/select.ts and written back.
 *
 *     filter     := all ("or" all)*            all := one ("and" one)*
 *     one        := "not" one | "(" filter ")" | "true" | "false" | comparison
 *     comparison := field [op value | ["not"] "in" "(" value, … ")" | "like" value | "has" value | "is" ["not"] "null"]
 *     field      := name | name "(" … ")"      op := = != < <= > >=
 *
 * A text stands in single or double quotes, doubled inside; a word without blanks needs none. Words of the grammar are known in
 * either case. A field of true and false may stand alone.
 */
import { got, TroupeError } from '../../errors.ts';

type Comparison = { readonly field: string; readonly op: string; readonly value?: unknown };
export type FilterTree =
  | { readonly and: readonly FilterTree[] }
  | { readonly or: readonly FilterTree[] }
  | { readonly not: FilterTree }
  | Comparison;

/** What a bare word stands for where a field has this kind; null where the field is none, which `check` then says. */
type Kind = string | null;

export type FilterLanguage = {
  /** The kind of a field, so that `17` is a text where texts are compared. */
  kindOf(field: string): Kind;
  /** Checks one comparison. What it throws gets the place in the text. */
  check(comparison: Comparison): FilterTree;
};

type Token = {
  readonly is: 'word' | 'text' | 'sign';
  readonly text: string;
  readonly from: number;
  readonly to: number;
};

const TOKEN =
  /\s*(?:(?<text>'(?:[^']|'')*'|"(?:[^"]|"")*")|(?<sign><=|>=|!=|<>|[=<>(),])|(?<word>[-+]?[\p{L}\p{N}_.](?:[\p{L}\p{M}\p{N}_.:/@#%+-]|(?<=\.)(?:'(?:[^']|'')*'|"(?:[^"]|"")*"))*))/uy;
const SIGNS: readonly string[] = ['=', '!=', '<>', '<', '<=', '>', '>='];
const NUMBER = /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(e[-+]?\d+)?$/iu;
const RESERVED: readonly string[] = ['and', 'or', 'not', 'in', 'like', 'has', 'is', 'where'];
const DEEPEST = 64;

/**
 * Reads the text whole.
 * @param at name of the place the text was given at, for errors
 * @throws TroupeError `recipe_invalid` with the character (from 1) where it stops being a filter, what was expected there and what came
 */
export const readFilterText = (text: string, at: string, language: FilterLanguage): FilterTree =>
  new FilterReader(text, at, language).whole();

const isWord = (token: Token | null, word: string): boolean =>
  token?.is === 'word' && token.text.toLowerCase() === word;
const isSign = (token: Token | null, sign: string): boolean => token?.is === 'sign' && token.text === sign;

class FilterReader {
  private place = 0;
  private readonly text: string;
  private readonly at: string;
  private readonly language: FilterLanguage;

  constructor(text: string, at: string, language: FilterLanguage) {
    this.text = text;
    this.at = at;
    this.language = language;
  }

  whole(): FilterTree {
    if (this.next() === null) this.fail('a filter such as role = coder and reward >= 0.5', null);
    const filter = this.any(0);
    const rest = this.next();
    return rest === null ? filter : this.fail('and, or, or the end', rest);
  }

  private near(from: number): string {
    return `at character ${from + 1} of ${got(this.text)}`;
  }

  private fail(expected: string, token: Token | null): never {
    const came = token === null ? 'it ends there' : `there stands ${got(token.text)}`;
    throw new TroupeError(
      'recipe_invalid',
      `${this.at}: expected ${expected} ${this.near(token?.from ?? this.text.length)}, but ${came}.`,
      {
        field: this.at,
        expected,
        got: token === null ? 'the end' : got(token.text),
      },
    );
  }

  private next(): Token | null {
    TOKEN.lastIndex = this.place;
    const found = TOKEN.exec(this.text);
    if (found === null) {
      const rest = this.text.slice(this.place).trimStart();
      if (rest === '') return null;
      const from = this.text.length - rest.length;
      return this.fail('a field, a value or an operator', { is: 'sign', text: rest.slice(0, 12), from, to: from });
    }
    const { text: quoted, sign, word } = found.groups!;
    const to = TOKEN.lastIndex;
    if (quoted !== undefined) return { is: 'text', text: unquoted(quoted), from: to - quoted.length, to };
    const plain = (sign ?? word)!;
    return { is: sign === undefined ? 'word' : 'sign', text: plain, from: to - plain.length, to };
  }

  private taken(token: Token | null): void {
    this.place = token!.to;
  }

  private takeWord(word: string): boolean {
    const token = this.next();
    if (!isWord(token, word)) return false;
    this.taken(token);
    return true;
  }

  private need(sign: string, expected: string): void {
    const token = this.next();
    if (isSign(token, sign)) this.taken(token);
    else this.fail(expected, token);
  }

  private chain(word: 'and' | 'or', inner: (depth: number) => FilterTree, depth: number): FilterTree {
    const parts = [inner(depth)];
    while (this.takeWord(word)) parts.push(inner(depth));
    return parts.length === 1 ? parts[0]! : word === 'and' ? { and: parts } : { or: parts };
  }

  private any(depth: number): FilterTree {
    return this.chain('or', (deep) => this.chain('and', (deeper) => this.one(deeper), deep), depth);
  }

  private one(depth: number): FilterTree {
    const token = this.next();
    if (depth > DEEPEST) return this.fail(`at most ${DEEPEST} levels of brackets and not`, token);
    if (isWord(token, 'not')) {
      this.taken(token);
      return { not: this.one(depth + 1) };
    }
    if (isSign(token, '(')) {
      this.taken(token);
      const inner = this.any(depth + 1);
      this.need(')', '), and or or');
      return inner;
    }
    if (token?.is !== 'word' || RESERVED.includes(token.text.toLowerCase())) return this.fail('a field', token);
    this.taken(token);
    if (isWord(token, 'true')) return { and: [] };
    if (isWord(token, 'false')) return { or: [] };
    return this.comparison(token);
  }

  /** A field with brackets goes on to the bracket that closes them; what stands inside is the field's own. */
  private fieldOf(word: Token): string {
    if (this.text[this.place] !== '(') return tagName(word.text);
    let open = 0;
    for (;;) {
      const token = this.next();
      if (token === null) return this.fail(') that closes the brackets of the field', token);
      this.taken(token);
      if (isSign(token, '(')) open++;
      if (isSign(token, ')') && --open === 0) return this.text.slice(word.from, token.to);
    }
  }

  private comparison(word: Token): FilterTree {
    const field = this.fieldOf(word);
    const kind = this.placed(word.from, () => this.language.kindOf(field));
    const checked = (op: string, value?: unknown) =>
      this.placed(word.from, () => this.language.check(value === undefined ? { field, op } : { field, op, value }));
    const token = this.next();
    if (token?.is === 'sign' && SIGNS.includes(token.text)) {
      this.taken(token);
      return checked(token.text === '<>' ? '!=' : token.text, this.value(kind));
    }
    if (isWord(token, 'is')) {
      this.taken(token);
      const not = this.takeWord('not');
      if (!this.takeWord('null')) this.fail('null', this.next());
      return not ? { not: checked('is null') } : checked('is null');
    }
    const not = isWord(token, 'not');
    if (not) this.taken(token);
    const op = not ? this.next() : token;
    if (isWord(op, 'in')) {
      this.taken(op);
      const members = checked('in', this.list(kind));
      return not ? { not: members } : members;
    }
    if (not) return this.fail('in', op);
    if (isWord(op, 'like') || isWord(op, 'has')) {
      this.taken(op);
      return checked(op!.text.toLowerCase(), this.value('text'));
    }
    return kind === 'boolean' ? checked('=', true) : this.fail(`an operator after ${field}`, op);
  }

  private list(kind: Kind): unknown[] {
    this.need('(', '( and a list of values');
    const members: unknown[] = [];
    if (isSign(this.next(), ')')) {
      this.need(')', ')');
      return members;
    }
    for (;;) {
      members.push(this.value(kind));
      const token = this.next();
      if (isSign(token, ',')) this.taken(token);
      else {
        this.need(')', ', or )');
        return members;
      }
    }
  }

  private value(kind: Kind): unknown {
    const token = this.next();
    if (token === null || token.is === 'sign') return this.fail('a value', token);
    if (token.is === 'word' && RESERVED.includes(token.text.toLowerCase()))
      return this.fail('a value (in quotes where it is a word of the grammar)', token);
    this.taken(token);
    if (token.is === 'text' || kind === 'text' || kind === 'time') return token.text;
    const word = token.text.toLowerCase();
    if (word === 'true' || word === 'false') return word === 'true';
    return NUMBER.test(token.text) ? Number(token.text) : token.text;
  }

  /** Errors of a comparison are reported with its position. */
  private placed<T>(from: number, run: () => T): T {
    try {
      return run();
    } catch (error) {
      if (!(error instanceof TroupeError) || error.message.includes('(at character ')) throw error;
      throw new TroupeError(error.code, `${error.message.replace(/\.$/u, '')} (${this.near(from)}).`, error.detail);
    }
  }
}

const unquoted = (quoted: string): string => {
  const quote = quoted[0]!;
  return quoted.slice(1, -1).replaceAll(quote + quote, quote);
};

/** A tag whose key is no word has it in quotes: tags."my key". */
const tagName = (word: string): string =>
  word.replace(/(?<=\.)('(?:[^']|'')*'|"(?:[^"]|"")*")/gu, (quoted) => unquoted(quoted));

const TAG = /^(tags|task\.tags)\.(.+)$/su;
const BARE_KEY = /^[\p{L}\p{N}_](?:[\p{L}\p{M}\p{N}_.:/@#%+-])*$/u;
const writtenText = (text: string): string => `'${text.replaceAll("'", "''")}'`;
const writtenField = (field: string): string => {
  const [, tags, key] = TAG.exec(field) ?? [];
  return key === undefined || BARE_KEY.test(key) ? field : `${tags}.${writtenText(key)}`;
};
const writtenValue = (value: unknown): string => (typeof value === 'string' ? writtenText(value) : String(value));

/** The filter as text that reads back as the same filter. */
export function filterText(filter: FilterTree): string {
  if ('and' in filter) return joined(filter.and, 'and', 'true');
  if ('or' in filter) return joined(filter.or, 'or', 'false');
  if ('not' in filter) {
    const { not } = filter;
    return 'op' in not && not.op === 'is null' ? `${writtenField(not.field)} is not null` : `not ${bracketed(not)}`;
  }
  const { field, op, value } = filter;
  if (op === '=' && value === true && !TAG.test(field)) return field;
  if (op === 'is null') return `${writtenField(field)} is null`;
  if (Array.isArray(value)) return `${writtenField(field)} in (${value.map(writtenValue).join(', ')})`;
  return `${writtenField(field)} ${op} ${writtenValue(value)}`;
}

/** Members that are chains themselves stand in brackets, so that the tree comes back as it was; a chain of one is its member. */
const joined = (parts: readonly FilterTree[], word: string, none: string): string =>
  parts.length === 0 ? none : parts.map(bracketed).join(` ${word} `);
const bracketed = (filter: FilterTree): string =>
  ('and' in filter && filter.and.length > 0) || ('or' in filter && filter.or.length > 0) || 'not' in filter
    ? `(${filterText(filter)})`
    : filterText(filter);
