/** Fields of the parts of a tokenizer.json, each checked before it is believed. */
import { got } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';

/** The expression of a `pattern`: `{"String": …}` or `{"Regex": …}`, which is Oniguruma's. Global, and aware of Unicode. */
export type PatternOf = (json: unknown) => RegExp;

export type TokenizerPart = {
  readonly type: string;
  readonly json: Readonly<Record<string, unknown>>;
  /** The fields, or what they are where absent. @throws Error that names the field */
  readonly text: (field: string, fallback?: string) => string;
  readonly flag: (field: string, fallback: boolean) => boolean;
  readonly count: (field: string, fallback?: number) => number;
  readonly list: (field: string) => readonly unknown[];
};

/** Readers of one part's fields; `what` names the part in an error. */
export function partReader(what: string, json: unknown): TokenizerPart {
  if (!isRecord(json) || typeof json.type !== 'string') throw new Error(`the ${what} ${got(json)} has no type`);
  const type = json.type;
  const read = <T>(field: string, expected: string, fits: (value: unknown) => value is T, fallback?: T): T => {
    const value = json[field] ?? fallback;
    if (fits(value)) return value;
    throw new Error(`${field} of the ${what} ${type} must be ${expected}, it is ${got(value)}`);
  };
  const isText = (value: unknown): value is string => typeof value === 'string';
  const isFlag = (value: unknown): value is boolean => typeof value === 'boolean';
  const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
  const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value);
  return {
    type,
    json,
    text: (field, fallback) => read(field, 'a text', isText, fallback),
    flag: (field, fallback) => read(field, 'true or false', isFlag, fallback),
    count: (field, fallback) => read(field, 'a whole number', isCount, fallback),
    list: (field) => read(field, 'a list', isList),
  };
}
