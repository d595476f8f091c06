/** Many runs of methods as lines of JSON: one answer a line, whatever the line holds, in memory for one line at a time. */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { got, type Refusal, TroupeError, unreadable } from '../../../errors.ts';
import { asText, isRecord, MAX_RECORD_BYTES, parseRecord } from '../../../ingest/events/json.ts';
import { utf8 } from '../../../ingest/events/text.ts';
import { splitLines } from '../../../ingest/files/split-records.ts';
import { nearest } from '../../../nearest.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { fileToWrite } from '../export/run.ts';
import type { ReadContext } from '../operation.ts';
import { methodNamed } from './named.ts';
import { jsonText } from './text.ts';

/** Not seldom what a program writes for a missing number. */
const NO_NUMBER = /(?:^|[\s:,[])(-?(?:NaN|Infinity|inf|nan))(?=[\s,\]}]|$)/;

/**
 * One answer for each line that is not empty, in order: its number from 1, counted with the empty ones, and `{"output":…}` or
 * `{"error":{"code","message"}}` without the line break. It throws only what reading the chunks throws.
 */
async function* answerLines(chunks: AsyncIterable<Uint8Array>) {
  for await (const { line, size, raw } of splitLines(chunks, MAX_RECORD_BYTES)) {
    const tooLarge = size > MAX_RECORD_BYTES;
    const text = tooLarge ? null : utf8(raw);
    if (text?.trim() === '') continue;
    try {
      if (tooLarge)
        throw new Refused('too_large', `The line has ${size} bytes; at most ${MAX_RECORD_BYTES} are taken.`);
      if (text === null) throw new Refused('bad_json', 'The line is not UTF-8 text; convert it first.');
      yield { line, text: `{"output":${jsonText(await answer(text))}}`, answered: true };
    } catch (error) {
      yield { line, text: JSON.stringify({ error: problemOf(error) }), answered: false };
    }
  }
}

/** Writes the answers to the file or standard output, as fast as they are taken. */
export async function runLines(
  { signal }: Pick<ReadContext, 'signal'>,
  { file, out: at }: { readonly file: string; readonly out?: string },
) {
  const out = at === undefined ? process.stdout : await fileToWrite(at);
  const refused: number[] = [];
  let lines = 0;
  for await (const { line, text, answered } of answerLines(file === '-' ? process.stdin : await opened(file))) {
    signal?.throwIfAborted();
    lines++;
    if (!answered) refused.push(line);
    if (!out.write(`${text}\n`)) await once(out, 'drain');
  }
  if (at !== undefined) {
    out.end();
    await once(out, 'finish');
  }
  return { lines, refused: refused.length, first_refused: refused[0] ?? null };
}

async function opened(path: string) {
  const stream = createReadStream(path);
  await once(stream, 'open').catch((cause) => {
    throw unreadable(path, cause);
  });
  return stream;
}

/** Why a line was not run, by the code of a refused record. */
class Refused extends Error {
  readonly code: Refusal['code'];

  constructor(code: Refusal['code'], message: string) {
    super(message);
    this.code = code;
  }
}

async function answer(text: string): Promise<unknown> {
  const parsed = parseRecord(text);
  if ('refusal' in parsed) throw new Refused(parsed.refusal.code, reasonOf(parsed.refusal, text, 'The line'));
  const asked = parsed.value;
  if (!isRecord(asked))
    throw new Refused('bad_shape', `The line should be {"method":…,"input":…}, but it is ${got(asked)}.`);
  const strange = Object.keys(asked).find((key) => key !== 'method' && key !== 'input');
  if (strange !== undefined) {
    const near = nearest(strange, ['method', 'input']);
    const hint = near === null ? 'Parameters go into input, beside the data.' : `Did you mean ${near}?`;
    throw new Refused('bad_shape', `A line should hold only method and input, but it holds ${got(strange)}. ${hint}`);
  }
  if (typeof asked.method !== 'string')
    throw new Refused('bad_shape', `method should be the name of a method, but it is ${got(asked.method)}.`);
  return runMethod(await methodNamed(asked.method), asked.input);
}

function problemOf(error: unknown): { readonly code: string; readonly message: string } {
  const message = error instanceof Error ? error.message : asText(error);
  if (error instanceof TroupeError || error instanceof Refused) return { code: error.code, message };
  return { code: 'internal', message };
}

/** Why it is not read, as a sentence. */
export function reasonOf(refusal: Refusal, text: string, what: string): string {
  if (refusal.code !== 'bad_json') return `${what} should have ${refusal.expected}, but it has ${refusal.got}.`;
  const token = NO_NUMBER.exec(text)?.[1];
  const hint = token === undefined ? '' : ` ${token} is not JSON; write null for an unknown value.`;
  return `${what} is not JSON: ${refusal.got}.${hint}`;
}
