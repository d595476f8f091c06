/** Performs an operation: its input is checked, its output too. Every interface goes through here. */
import type { TObject } from 'typebox';
import { misfitOf, read } from '../../document.ts';
import { got, TroupeError } from '../../errors.ts';
import { isRecord } from '../../ingest/events/json.ts';
import { needsEscape } from '../../ingest/events/text.ts';
import { type ChangeContext, type Operation, writingOf } from './operation.ts';

/** The input with its defaults. @throws TroupeError `usage` naming the field */
export function inputOf({ input: schema }: Operation, given: unknown): Readonly<Record<string, unknown>> {
  const value = isRecord(given) ? withDefaults(schema, given) : given;
  const input = read(schema, value, { called: 'The input' });
  for (const [name, one] of Object.entries(input))
    if (writingOf(schema.properties[name]!).position && typeof one === 'string' && (one === '' || needsEscape(one)))
      throw new TroupeError('usage', `${name} should be a text without U+0000, but it is ${got(one)}.`, {
        field: name,
        got: got(one),
      });
  return input;
}

function withDefaults({ properties }: TObject, given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const defaults = Object.entries(properties).flatMap(([name, schema]) =>
    'default' in schema ? [[name, schema.default] as const] : [],
  );
  const there = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(defaults), ...Object.fromEntries(there) };
}

/** @throws TroupeError `usage` for an input that does not fit, and what the operation throws */
export async function perform(operation: Operation, context: ChangeContext, given: unknown): Promise<unknown> {
  const input = inputOf(operation, given);
  const run = await operation.run();
  const output = await run(context, input);
  const found = misfitOf(operation.output, output, 'the output');
  if (found === null) return output;
  throw new Error(`The output of ${operation.name} is not as it was declared: ${found.message}`);
}
