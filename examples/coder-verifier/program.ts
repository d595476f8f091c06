/** A coder's answer as text: operations marked with `#`, such as `#asc #neg #odd`. */
import { isOperation, type Operation, type Program } from './operations.ts';

/** Longer programs than any recipe are malformed. */
export const MAX_OPERATIONS = 3;

/** An operation as it is written, or null for another word. */
export function parseOperation(word: string): Operation | null {
  const name = word.slice(1);
  return word.startsWith('#') && isOperation(name) ? name : null;
}

/** The program a coder wrote, or null where it is malformed. The end token is not part of the text. */
export function parseProgram(text: string): Program | null {
  const operations = text.split(' ').map(parseOperation);
  if (operations.length > MAX_OPERATIONS || operations.includes(null)) return null;
  return operations as Program;
}

export const writeProgram = (program: Program): string => program.map((operation) => `#${operation}`).join(' ');
