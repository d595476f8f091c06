/** When two written answers are the same answer: normalised text, plain numbers, and letters of a multiple choice. Our rules. */
import { Type } from 'typebox';
import { DECIMAL } from '../consistency/written-number.ts';
import { score } from '../judging/judgement.ts';
import { answersOf, textScore } from '../judging/messages.ts';
import { method } from './method.ts';

/** Strips, each once and in this order: white space at both ends, one full stop, one `$` at either end, runs of white space. */
export function normalised(text: string): string {
  let answer = text.trim();
  if (answer.endsWith('.')) answer = answer.slice(0, -1).trim();
  if (answer.startsWith('$')) answer = answer.slice(1);
  if (answer.endsWith('$')) answer = answer.slice(0, -1);
  return answer.trim().replace(/\s+/g, ' ');
}

/** Whether both, already normalised, name the same answer. Numbers agree within 1e-9; letters only count where there are choices. */
export function sameAnswer(a: string, b: string, choices: boolean): boolean {
  if (a === b) return true;
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== null && y !== null && Math.abs(x - y) <= 1e-9) return true;
  return choices && letterOf(a) !== null && letterOf(a) === letterOf(b);
}

const FRACTION = /^([+-]?\d+) ?\/ ?(\d+)$/;
const LETTER = /^(?:\(([A-Za-z])\)|([A-Za-z])[).]|([A-Za-z])$)(?: .*)?$/;

function numberOf(text: string): number | null {
  if (DECIMAL.test(text)) return Number(text);
  const parts = FRACTION.exec(text);
  const divisor = Number(parts?.[2]);
  return parts === null || divisor === 0 ? null : Number(parts[1]) / divisor;
}

function letterOf(text: string): string | null {
  const found = LETTER.exec(text);
  return found === null ? null : (found[1] ?? found[2] ?? found[3])!.toUpperCase();
}

/**
 * An answer as it is compared: without surrounding white space, one final full stop, one dollar sign at either end, doubled spaces.
 *
 * Source: ours, for the correctness test of MAS-TTS; each step is done once, in this order, and the dollar signs need not be a pair.
 */
export const normaliseAnswer = method({
  name: 'normalise_answer',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'The answer without surrounding space, final full stop, dollar signs and doubled spaces.',
  input: Type.Object({ text: Type.String() }),
  run: ({ text }): string => normalised(text),
  judged: {
    reads: ['content'],
    rows: (facts, ask) => {
      const answerOf = answersOf(facts);
      return facts.episodes.map((episode) => {
        const answer = answerOf(episode);
        if (answer === null) return score(`e/${episode.episode_id}`, null, 'no_answer');
        const text = ask.run({ text: answer.text });
        return textScore(episode, text, { answer_from: answer.from });
      });
    },
  },
});
