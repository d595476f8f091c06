/** Many runs of methods as lines of JSON: one answer a line, whatever the line holds, in memory for one line at a time. */
import { got, type Refusal, TroupeError } from '../../errors.ts';
import { guardJson, isRecord, MAX_RECORD_BYTES, parseRecord } from '../../ingest/events/json.ts';
import { utf8 } from '../../ingest/events/text.ts';
import { splitLines } from '../../ingest/files/split-records.ts';
import { nearest } from '../../nearest.ts';
import { findMethod } from '../../store/evaluate/methods/find.ts';
import type { Method } from '../../store/evaluate/methods/method.ts';
import { runMethod } from '../../store/evaluate/methods/run.ts';

export type Answer = {
  /** Which line was answered, counted from 1 with the empty ones. */
  readonly line: number;
  /** `{"output":…}` or `{"error":{"code","message"}}`, without the newline. */
  readonly text: string;
  readonly answered: boolean;
};

/** Not seldom what a program writes for a missing number. */
const NO_NUMBER = /(?:^|[\s:,[])(-?(?:NaN|Infinity|inf|nan))(?=[\s,\]}]|$)/;

/** One answer for each line that is not empty, in order; it throws only what reading the chunks throws. */
export async function* answerLines(
  chunks: AsyncIterable<Uint8Array>,
  methods: readonly Method[],
): AsyncGenerator<Answer> {
  for await (const { line, size, raw } of splitLines(chunks, MAX_RECORD_BYTES)) {
    const tooLarge = size > MAX_RECORD_BYTES;
    const text = tooLarge ? null : utf8(raw);
    if (text?.trim() === '') continue;
    try {
      if (tooLarge)
        throw new Refused('too_large', `The line has ${size} bytes; at most ${MAX_RECORD_BYTES} are taken.`);
      if (text === null) throw new Refused('bad_json', 'The line is not UTF-8 text; convert it first.');
      yield { line, text: `{"output":${jsonText(answer(text, methods))}}`, answered: true };
    } catch (error) {
      yield { line, text: JSON.stringify({ error: problemOf(error) }), answered: false };
    }
  }
}

/** Why a line was not run, by the code of a refused record. */
class Refused extends Error {
  readonly code: Refusal['code'];

  constructor(code: Refusal['code'], message: string) {
    super(message);
    this.code = code;
  }
}

function answer(text: string, methods: readonly Method[]): unknown {
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
  return runMethod(findMethod(asked.method, methods), asked.input);
}

function problemOf(error: unknown): { readonly code: string; readonly message: string } {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof TroupeError || error instanceof Refused) return { code: error.code, message };
  return { code: 'internal', message };
}

/** The JSON of a whole file. Throws TroupeError `method_input` for what is not JSON, or too deep, or holds a number that no double is. */
export function readInput(bytes: Uint8Array): unknown {
  const text = utf8(bytes);
  if (text === '')
    throw new TroupeError('method_input', 'The input is empty: a method reads a JSON object from standard input.', {
      hint: '`troupe method show NAME` prints an example to paste.',
    });
  if (text === null) throw new TroupeError('method_input', 'The input is not UTF-8 text; convert it first.');
  const refusal = guardJson(text);
  if (refusal) throw new TroupeError('method_input', reasonOf(refusal, text, 'The input'));
  try {
    return JSON.parse(text);
  } catch (cause) {
    const refusal: Refusal = { code: 'bad_json', field: '', expected: 'JSON', got: (cause as Error).message };
    throw new TroupeError('method_input', reasonOf(refusal, text, 'The input'), { cause });
  }
}

function reasonOf(refusal: Refusal, text: string, what: string): string {
  if (refusal.code !== 'bad_json') return `${what} should have ${refusal.expected}, but it has ${refusal.got}.`;
  const token = NO_NUMBER.exec(text)?.[1];
  const hint = token === undefined ? '' : ` ${token} is not JSON; write null for an unknown value.`;
  return `${what} is not JSON: ${refusal.got}.${hint}`;
}

/** JSON that keeps the sign of -0, which `JSON.stringify` drops. */
export function jsonText(value: unknown): string {
  if (Object.is(value, -0)) return '-0';
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`;
  if (!isRecord(value)) return JSON.stringify(value) ?? 'null';
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${jsonText(member)}`).join(',')}}`;
}
