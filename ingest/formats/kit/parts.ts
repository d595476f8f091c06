/** Content of any shape, for formats that promise none. */
import type { Part } from '../../events/events.ts';
import { isRecord } from '../../events/json.ts';

/** A text as it is; of anything else each piece is a part: texts, parts with a type, and what is neither as `json`. */
export function partsOf(content: unknown): string | Part[] {
  if (typeof content === 'string') return content;
  const pieces = Array.isArray(content) ? content : [content];
  return pieces.map((piece): Part => {
    if (typeof piece === 'string') return { type: 'text', content: piece };
    const typed = isRecord(piece) && typeof piece.type === 'string' && piece.type !== '';
    return typed ? (piece as Part) : { type: 'json', content: piece };
  });
}
