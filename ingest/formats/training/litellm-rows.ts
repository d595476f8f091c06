/**
 * Rows of LiteLLM's table of spend, `LiteLLM_SpendLogs` (BerriAI/litellm, litellm/proxy/schema.prisma): what was asked and answered, which
 * a proxy keeps where it stores prompts, beside the counts, times and session of the call.
 */
import { given, isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { timeOfMixed } from '../kit/run-times.ts';
import { jsonOrText } from '../kit/span-attributes.ts';

export type SpendRow = {
  /** The row as a log of the call: its answer has the id and the usage that the row holds. */
  readonly log: JsonObject;
  readonly sessionId: string | undefined;
  readonly askedAt: string | null;
  readonly completedAt: string | null;
};

/** Null for what is no such row. Its times are in UTC. */
export function spendRow(native: JsonObject): SpendRow | null {
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
    log: { ...native, messages: jsonOrText(native.messages), response: answered },
    sessionId: isIdentifier(session) ? session : undefined,
    askedAt: timeOfMixed(startTime),
    completedAt: timeOfMixed(endTime),
  };
}
