/** What a file that no format recognises lacks to be read: known records in a wrapping, or messages under another name. */

import { asText, isRecord } from '../events/json.ts';
import { recognise } from '../formats/catalogue.ts';
import { CHAT_ROLES } from '../formats/kit/chat-message.ts';
import type { Head } from '../formats/kit/format.ts';

/** Records of a list that are looked at. */
const LOOKED_AT = 64;

const isChat = (value: unknown): boolean =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.every((one) => isRecord(one) && CHAT_ROLES.has(asText(one.role)) && ('content' in one || 'tool_calls' in one));

/**
 * The near miss that these records are: the member that holds what could be read (empty for the record itself), and a sentence that says
 * what the file holds and how it would be read. Null where they are like nothing that is read.
 */
export function nearMiss({ records }: Head): { readonly field: string; readonly hint: string } | null {
  const [first] = records;
  if (!isRecord(first)) return null;
  for (const [field, value] of Object.entries(first)) {
    const name = JSON.stringify(field);
    if (isChat(value)) {
      const hint = `The member ${name} is a list of chat messages; under the name "messages" it is read as openai-chat.`;
      return { field, hint };
    }
    const within = Array.isArray(value)
      ? recognise({ records: value.slice(0, LOOKED_AT), shape: 'array' })
      : isRecord(value)
        ? recognise({ records: [value], shape: 'document' })
        : null;
    const what = Array.isArray(value) ? 'list' : 'object';
    if (within)
      return { field, hint: `The member ${name} is of the format ${within.name}; this ${what} alone is read.` };
  }
  return null;
}
