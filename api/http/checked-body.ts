/** A JSON body, and one by the TypeBox schema that also documents it. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Static, TObject } from 'typebox';
import { read } from '../../document.ts';
import { parseBody } from '../../ingest/events/parse-body.ts';
import { keepSpelling, quoteLongIntegers } from '../../ingest/events/spelling.ts';
import { utf8 } from '../../ingest/events/text.ts';
import { BODY_LIMIT, inflate, mediaType } from './body.ts';
import { BodyRefused } from './problem.ts';

export const JSON_TYPE = ['application/json'] as const;

/** The parts of a request that are read. */
type BodyRequest = { readonly headers: IncomingHttpHeaders; readonly body?: unknown };

/** A body as JSON, and its inflated bytes. */
export type JsonBody = { readonly value: unknown; readonly bytes: Uint8Array };

/**
 * With `longIntegers`, an integer beyond 2^53 is its decimal text, and spelled as the number that it was: arguments of tool calls may hold it.
 * @throws TroupeError `unsupported_media` for what is not JSON by its Content-Type, `too_large`; BodyRefused for what is no JSON
 */
export async function readJson(
  { headers, body }: BodyRequest,
  limit = BODY_LIMIT,
  { longIntegers = false }: { readonly longIntegers?: boolean } = {},
): Promise<JsonBody> {
  mediaType(headers, JSON_TYPE);
  const bytes = await inflate((body as Buffer | undefined) ?? Buffer.alloc(0), headers, limit);
  const text = utf8(bytes);
  if (text === null) throw new BodyRefused({ code: 'bad_json', field: '', expected: 'UTF-8', got: 'other bytes' });
  let parsed = parseBody(text);
  if (longIntegers && 'refusal' in parsed && parsed.refusal.code === 'bad_number')
    parsed = parseBody(quoteLongIntegers(text));
  if ('refusal' in parsed) throw new BodyRefused(parsed.refusal);
  keepSpelling(parsed.value, text);
  return { value: parsed.value, bytes };
}

/** @throws as `readJson`; TroupeError `usage` naming the field that does not fit */
export async function bodyOf<T extends TObject>(
  request: BodyRequest,
  schema: T,
  limit = BODY_LIMIT,
): Promise<Static<T>> {
  const { value } = await readJson(request, limit);
  return read(schema, value, { called: 'it', before: 'The body does not fit: ' });
}
