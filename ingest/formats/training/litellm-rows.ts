/**
 * Rows of LiteLLM's table of spend, `LiteLLM_SpendLogs` (BerriAI/litellm, litellm/proxy/schema.prisma): what was asked and answered, which
 * a proxy keeps where it stores prompts, beside the counts, times and session of the call.
 */
import { given, isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { timeOfMixed } from '../kit/run.ts';
import { jsonOrText } from '../kit/span-attributes.ts';

/** The row as a log of the call, whose answer has the id and the usage that the row holds; null for what is no such row. Times are in UTC. */
export function spendRow(native: JsonObject) {
  const { call_type: type, startTime, endTime, request_id: id, session_id: session } = native;
  if (typeof type !== 'string' || startTime === undefined || !('spend' in native)) return null;
  const response = jsonOrText(native.response);
  const { prompt_tokens, completion_tokens, total_tokens, spend } = native;
  const usage = { prompt_tokens, completion_tokens, total_tokens, spend };
  const answered = isRecord(response)
    ? {
        ...given('id', isIdentifier(id) ? id : undefined),
        ...response,
        usage: isRecord(response.usage) ? { ...response.usage, spend } : usage,
      }
    : response;
  return {
    log: { ...native, messages: jsonOrText(native.messages), response: answered } as JsonObject,
    sessionId: isIdentifier(session) ? session : undefined,
    askedAt: timeOfMixed(startTime),
    completedAt: timeOfMixed(endTime),
  };
}
