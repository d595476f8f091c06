/** Performs an operation: its input is checked, its output too. Every interface goes through here. */
import type { TObject } from 'typebox';
import { Check, Errors } from 'typebox/value';
import { got, TroupeError } from '../../errors.ts';
import { isRecord } from '../../ingest/events/json.ts';
import { needsEscape } from '../../ingest/events/text.ts';
import { misfitOf } from '../../store/misfit.ts';
import { type ChangeContext, type Operation, writingOf } from './operation.ts';

/** The input with its defaults. @throws TroupeError `usage` naming the field */
export function inputOf({ input: schema }: Operation, given: unknown): Readonly<Record<string, unknown>> {
  const value = isRecord(given) ? withDefaults(schema, given) : given;
  if (!Check(schema, value)) {
    const { field, message, ...detail } = misfitOf(schema, Errors(schema, value), value, 'The input');
    throw new TroupeError('usage', message, { ...(field === '' ? {} : { field }), ...detail });
  }
  for (const [name, one] of Object.entries(value))
    if (writingOf(schema.properties[name]!).position && typeof one === 'string' && (one === '' || needsEscape(one)))
      throw new TroupeError('usage', `${name} should be a text without U+0000, but it is ${got(one)}.`, {
        field: name,
        got: got(one),
      });
  return value;
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
  if (Check(operation.output, output)) return output;
  const { message } = misfitOf(operation.output, Errors(operation.output, output), output, 'the output');
  throw new Error(`The output of ${operation.name} is not as it was declared: ${message}`);
}
