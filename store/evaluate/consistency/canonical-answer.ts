/**
 * One spelling for all that is the same answer, so that answers can be counted: two agree exactly when their canonical forms are
 * equal strings. It goes with `sameAnswer` of the correctness filter: what that calls the same has one form, and numbers of one form
 * are the same to it; beyond it, fractions in LaTeX, mixed numbers, thousands and percentages are read.
 *
 * One part of `sameAnswer` cannot be had: within 1e-9 of each other is no equivalence (0, 8e-10 and 1.6e-9 are the same by pairs
 * only). A number is therefore rounded to nine decimals: numbers of one form are at most 1e-9 apart, and different numbers within
 * 1e-9 may have two forms. Numbers that are quotients of denominators below 31,000, or have at most four decimals, are never
 * different and that near, so for them both relations are one.
 */
import { normalised, sameAnswer } from '../methods/answer.ts';
import { lastBox } from '../methods/boxed.ts';
import { writtenNumber } from './written-number.ts';

/** `\text{…}` and its like around a whole answer. */
const DRESSED = /^\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf)\{([^{}]*)\}$/;
/** Words before a letter, read only inside a box: elsewhere a sentence may continue. */
const ANSWER_PREFIX = /^(?:the )?(?:correct |final |right )?(?:answer|option|choice)(?: is)?:? (?=\(?[A-Za-z][).]?$)/i;
/** From here on two doubles that differ are further apart than 1e-9. */
const WIDE = 2 ** 23;
const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];

/**
 * The canonical form of an answer, or of the inside of the last `\boxed{…}` that it has; null where nothing is left of it. `choices`:
 * it is an answer to a multiple choice, so `B`, `(b)`, `B.` and `(B) because` are the letter B. Case matters in other text.
 */
export function canonicalAnswer(text: string, { choices }: { readonly choices: boolean }): string | null {
  const box = lastBox(text);
  let answer = normalised(box ?? text);
  if (box !== null) {
    const undressed = DRESSED.exec(answer)?.[1];
    if (undressed !== undefined) answer = normalised(undressed);
    if (choices) answer = answer.replace(ANSWER_PREFIX, '');
  }
  if (answer === '') return null;
  const letter = choices ? LETTERS.find((one) => sameAnswer(answer, one, true)) : undefined;
  return letter ?? numberForm(answer) ?? percentForm(answer) ?? answer;
}

function numberForm(answer: string): string | null {
  const value = writtenNumber(answer);
  if (value === null) return null;
  // Written out, so that no number looks like a text with an exponent, which is none.
  if (Math.abs(value) >= 1e21) return BigInt(value).toString();
  if (Math.abs(value) >= WIDE) return String(value);
  const digits = value.toFixed(9).replace(/\.?0+$/, '');
  return digits === '-0' ? '0' : digits;
}

/** A percentage is the same as another spelling of it, not as its hundredth: `50%` is asked for as `50` and as `0.5`. */
function percentForm(answer: string): string | null {
  const before = /^(.+?) ?\\?%$/.exec(answer)?.[1];
  const form = before === undefined ? null : numberForm(before);
  return form === null ? null : `${form}%`;
}
