/** The input of an operation on standard input, as one JSON document. */
import { buffer } from 'node:stream/consumers';
import { reasonOf } from '../api/operations/method/lines.ts';
import { type Refusal, TroupeError } from '../errors.ts';
import { guardJson } from '../ingest/events/json.ts';
import { utf8 } from '../ingest/events/text.ts';

export const readStdin = async (): Promise<unknown> => readInput(await buffer(process.stdin));

/** The JSON of a whole file. Throws TroupeError `method_input` for what is not JSON, or too deep, or holds a number that no double is. */
function readInput(bytes: Uint8Array): unknown {
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
