/** Fields of a stranger's config.json, each checked before it is believed. */

import { got, TroupeError } from '../../errors.ts';
import type { JsonObject } from '../../ingest/events/json.ts';

/** The refusal of a field, by its name. */
export const unsupported = (field: string, expected: string, value: unknown): TroupeError =>
  new TroupeError('model_unsupported', `config.json: ${field} must be ${expected}, it is ${got(value)}.`, {
    field,
    expected,
    got: got(value),
  });

/** Readers of one object's fields; `prefix` stands before their names in a refusal. Absent and null are the same. */
export function jsonFields(json: JsonObject, limits: Readonly<Record<string, number>> = {}, prefix = '') {
  const number = (field: string, value: unknown): number => {
    if (typeof value !== 'number' || !Number.isFinite(value)) throw unsupported(prefix + field, 'a number', value);
    return value;
  };
  return {
    /** A whole number from 1 to the field's limit. */
    count: (field: string, fallback?: number): number => {
      const value = json[field] ?? fallback;
      if (!Number.isSafeInteger(value) || (value as number) < 1) {
        throw unsupported(prefix + field, 'a whole number above 0', value);
      }
      const most = limits[field] ?? Number.MAX_SAFE_INTEGER;
      if ((value as number) > most) throw unsupported(prefix + field, `at most ${most}`, value);
      return value as number;
    },
    /** A finite number above 0. */
    positive: (field: string, fallback?: number): number => {
      const value = json[field] ?? fallback;
      if (typeof value !== 'number' || !(value > 0 && value < Infinity)) {
        throw unsupported(prefix + field, 'a number above 0', value);
      }
      return value;
    },
    /** A finite number, or undefined. */
    optional: (field: string): number | undefined => (json[field] == null ? undefined : number(field, json[field])),
    /** True or false; false where absent. */
    flag: (field: string): boolean => {
      const value = json[field] ?? false;
      if (typeof value !== 'boolean') throw unsupported(prefix + field, 'true or false', value);
      return value;
    },
    /** A token id or null; of several the first. */
    token: (field: string): number | null => {
      const value = json[field] ?? null;
      const first = Array.isArray(value) ? value[0] : value;
      if (first !== null && !Number.isSafeInteger(first))
        throw unsupported(prefix + field, 'a token id or null', value);
      return first;
    },
  };
}
