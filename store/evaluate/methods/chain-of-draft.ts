/** The form of a draft in DRAFT-RL: numbered steps of a few words, and a last line with the answer. */

const STEP = /^(?:step\s*)?\d+[.) :]\s*(\S.*)$/i;
const ANSWER = /^(?:final|answer)\s*:\s*\S/i;
const WORD = /[A-Za-z0-9]+(?:[-'][A-Za-z0-9]+)?/g;

/** Whether it has a step and an answer, and no step has more words than that. Lines of another form do not count. */
export function isChainOfDraft(text: string, mostWords: number): boolean {
  const lines = text.split('\n').map((line) => line.trim());
  const steps = lines.flatMap((line) => STEP.exec(line)?.[1] ?? []);
  return (
    steps.length > 0 &&
    lines.some((line) => ANSWER.test(line)) &&
    steps.every((step) => (step.match(WORD)?.length ?? 0) <= mostWords)
  );
}
