/** What the response of a policy has to be: JSON of a schema, or the call of a tool. Refused where sampling cannot enforce it. Pure. */
import { TroupeError } from '../../errors.ts';
import { isRecord } from '../../ingest/events/json.ts';
import { forcedTools } from '../../trainer/sample/infer-request.ts';
import { grammarOf } from '../../trainer/sample/json-schema.ts';
import { refuse } from './sampling.ts';
import type { Tool } from './tools.ts';

/** `tool`: the name of the tool to call, or null for any of them. */
export type Constraint = { readonly schema: unknown } | { readonly tool: string | null };

/**
 * The format of a response. Its schema stands in the field `json_schema`, or in the format itself. Null for text.
 * @throws TroupeError `usage` naming the field, or the keyword of the schema that cannot be enforced.
 */
export function readFormat(field: string, format: unknown): Constraint | null {
  if (format == null || (isRecord(format) && format.type === 'text')) return null;
  if (isRecord(format) && format.type === 'json_object') return { schema: { type: 'object' } };
  if (!isRecord(format) || format.type !== 'json_schema')
    throw refuse(field, '{"type":"text"}, {"type":"json_object"} or {"type":"json_schema",…}', format);
  const isNested = isRecord(format.json_schema);
  const { schema } = (isNested ? format.json_schema : format) as { schema?: unknown };
  check(`${field}${isNested ? '.json_schema' : ''}.schema`, schema);
  return { schema };
}

/**
 * The call that a client forces, in the words of any interface; null where the model decides.
 * @throws TroupeError `usage` for a choice of another kind, a tool that is not offered, and arguments that cannot be enforced.
 */
export function readForced(field: string, choice: unknown, tools: readonly Tool[] | null): Constraint | null {
  const type = isRecord(choice) ? choice.type : choice;
  if (type == null || type === 'auto' || type === 'none') return null;
  const named = isRecord(choice) && isRecord(choice.function) ? choice.function.name : isRecord(choice) && choice.name;
  const isAny = type === 'required' || type === 'any';
  if (!isAny && !((type === 'function' || type === 'tool') && typeof named === 'string'))
    throw refuse(field, '"auto", "none", "required" or one tool', choice);
  const name = isAny ? null : (named as string);
  const forced = forcedTools(tools ?? [], name === null ? 'required' : { name });
  if (forced.length === 0) throw refuse(field, 'a tool of the request', choice);
  for (const { field: place, parameters } of forced) check(place, parameters);
  return { tool: name };
}

/** Of the format and the forced call of a request the one that is there. @throws TroupeError `usage` if both are, or a format beside tools. */
export function oneConstraint(
  format: Constraint | null,
  { forced, tools }: { readonly forced: Constraint | null; readonly tools: readonly Tool[] | null },
  field: string,
): Constraint | null {
  if (format !== null && tools !== null)
    throw refuse(field, '{"type":"text"} beside tools', format, 'A response is either JSON or may call tools.');
  return format ?? forced;
}

function check(field: string, schema: unknown): void {
  try {
    grammarOf(field, schema);
  } catch (error) {
    if (error instanceof TroupeError) throw new TroupeError('usage', error.message, error.detail);
    throw error;
  }
}
