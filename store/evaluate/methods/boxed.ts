/** Reads `\boxed{…}` with nested braces, the way a final answer is marked in mathematical text. */

const OPENING = '\\boxed{';

/** What the `\boxed{` at `start` holds, up to its matching brace; null when it never closes. */
function readBox(text: string, start: number): string | null {
  const from = start + OPENING.length;
  let depth = 1;
  for (let i = from; i < text.length; i++) {
    if (text[i] === '{') depth += 1;
    else if (text[i] === '}') depth -= 1;
    if (depth === 0) return text.slice(from, i);
  }
  return null;
}

/** The inside of the last `\boxed{…}`; null when there is none or the last one never closes. */
export function lastBox(text: string): string | null {
  const start = text.lastIndexOf(OPENING);
  return start < 0 ? null : readBox(text, start);
}

/** True iff some `\boxed{…}` at or after `from` closes. */
export function hasBox(text: string, from: number): boolean {
  /** Of each brace that is open, whether it is one of a box. */
  const open: boolean[] = [];
  const last = OPENING.length - 1;
  for (let i = text.indexOf(OPENING, from) + last; i >= last && i < text.length; i++) {
    if (text[i] === '{') open.push(text.startsWith(OPENING, i - last));
    else if (text[i] === '}' && open.pop()) return true;
  }
  return false;
}
