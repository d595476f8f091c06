/**
 * The text of samples while they grow, for clients that read along. It is given out once it can no longer change: not the beginning of
 * a stop text, part of a character, or what may be the call of a tool.
 */
import type { Tokenizer } from '../model/tokens/tokenizer.ts';
import type { PreparedSample } from './infer-request.ts';
import type { TextPart } from './infer-wire.ts';

/** Called with the tokens of a sample after each of them; calls `onText` where there is new text. */
export function textStream(
  { request, stops, readCalls }: Pick<PreparedSample, 'request' | 'stops' | 'readCalls'>,
  tokenizer: Tokenizer,
  onText: (part: TextPart) => void,
): (choice: number, tokenIds: readonly number[]) => void {
  const choices = new Map<number, { known: string; given: number; before: number; read: number }>();
  const decode = (ids: readonly number[]) => tokenizer.decode(ids.filter((id) => tokenizer.token(id) !== null));
  /** A token of one byte: how a run of them reads depends on all of it. */
  const isByte = (id: number): boolean => {
    const token = tokenizer.token(id);
    return token !== null && /^<0x[0-9A-Fa-f]{2}>$/.test(token) && tokenizer.decode([id]) !== token;
  };
  return (choice, tokenIds) => {
    const last = tokenIds.at(-1) as number;
    if (request.stopIds.includes(last) || isByte(last)) return;
    const one = choices.get(choice) ?? { known: '', given: 0, before: 0, read: 0 };
    choices.set(choice, one);
    // How a token reads depends on the one before it, so each is decoded after the last tokens that gave text.
    const before = decode(tokenIds.slice(one.before, one.read));
    const now = decode(tokenIds.slice(one.before));
    if (now.length <= before.length || now.endsWith('\ufffd') || !now.startsWith(before)) return;
    one.known += now.slice(before.length);
    one.before = one.read;
    one.read = tokenIds.length;
    const safe = safeLength(one.known, stops, readCalls !== null);
    if (safe <= one.given) return;
    onText({ choice, at: one.given, text: one.known.slice(one.given, safe) });
    one.given = safe;
  };
}

/** How many characters of a text that grows are part of the answer, whatever follows. `calls`: it may hold calls of tools. */
function safeLength(text: string, stops: readonly string[], calls: boolean): number {
  const ends = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
  const end = ends.length > 0 ? Math.min(...ends) : text.length - Math.max(0, ...stops.map((s) => begun(text, s)));
  // Calls begin with a tag or an object, and the white space before them is no part of the answer.
  const call = calls ? text.search(/[<{]/) : -1;
  const shown = text.slice(0, call >= 0 ? Math.min(call, end) : end);
  return calls ? shown.trimEnd().length : shown.length;
}

/** How many characters at the end of a text may be the beginning of a stop text. */
function begun(text: string, stop: string): number {
  for (let length = Math.min(stop.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(stop.slice(0, length))) return length;
  }
  return 0;
}
