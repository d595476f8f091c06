/** How a critic's message is read: the marker that means agreement, and what is left of a message as criticism. */

/** True iff the text holds the literal token `[Agree]`, in this case and spelling; `[Disagree]` beside it changes nothing. */
export function agrees(text: string): boolean {
  return text.includes('[Agree]');
}

/**
 * The text of a critic that does not agree: runs of newlines made one, every `[Disagree]` removed, ends trimmed; empty for one that agrees.
 * A critic whose criticism is empty does not block. Source: jincan333/MAS-TTS, output parser `mgsm-critic-agree`.
 */
export function criticismText(text: string): string {
  if (agrees(text)) return '';
  return text.replace(/\n+/g, '\n').replaceAll('[Disagree]', '').trim();
}
