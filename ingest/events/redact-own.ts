/**
 * Rules of the user: named patterns from the setting `redact`. They run in the engine's linear mode, which takes time in proportion
 * to the text whatever the text is, and which refuses the patterns for which no such promise can be made.
 */
import { setFlagsFromString } from 'node:v8';
import { got, TroupeError } from '../../errors.ts';
import type { OwnRule } from './redact.ts';

const NAME = /^[a-z][a-z0-9_]{0,63}$/;
const LONGEST = 500;

/** @throws TroupeError `config_invalid` naming the rule: a bad name, no regular expression, or one that cannot run in linear time. */
export function ownRules(written: Readonly<Record<string, unknown>>): OwnRule[] {
  const entries = Object.entries(written);
  // Off unless asked for: the mode is an option of the engine.
  if (entries.length > 0) setFlagsFromString('--enable-experimental-regexp-engine');
  return entries.map(([name, source]) => {
    const refuse = (why: string): TroupeError =>
      new TroupeError('config_invalid', `The rule ${got(name)} of the setting redact ${why}.`, { field: 'redact' });
    if (!NAME.test(name)) throw refuse('should be named by small letters, digits and underscores');
    if (typeof source !== 'string' || source === '') throw refuse('should be a regular expression as text');
    if (source.length > LONGEST) throw refuse(`should have at most ${LONGEST} characters, it has ${source.length}`);
    let pattern: RegExp;
    try {
      pattern = new RegExp(source, 'gl');
    } catch (cause) {
      throw refuse(
        `cannot be used: ${(cause as Error).message}. Leave out look-arounds, back references and large counts, which may take for ever`,
      );
    }
    if (pattern.test('')) throw refuse('matches the empty text');
    return { name, pattern, hint: hintOf(source) };
  });
}

/** The longest plain run of the pattern that every match contains: outside groups, classes and choices, and not repeated. */
function hintOf(source: string): string | null {
  if (/[|()]/.test(source)) return null;
  const plain = source.replace(/\[(?:\\.|[^\]\\])*\]/g, '\u0000').replace(/\\./g, '\u0000');
  const runs = plain.replace(/.(?=[*+?{])/g, '\u0000').match(/[A-Za-z0-9_@:/-]{3,}/g) ?? [];
  // What stands in braces is a count.
  const counts = new Set([...plain.matchAll(/\{([^}]*)\}/g)].map(([, inside]) => inside as string));
  const usable = runs.filter((run) => !counts.has(run)).sort((a, b) => b.length - a.length);
  return usable[0] ?? null;
}
