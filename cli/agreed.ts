/** A question before what cannot be undone. */
import { createInterface } from 'node:readline/promises';

/** Where nobody can answer, nobody has agreed. */
export async function agreed(question: string, word: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return false;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await terminal.question(question)).trim() === word;
  } finally {
    terminal.close();
  }
}
