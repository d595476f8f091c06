/** Why a model stopped, by the names that APIs and programs give it. Half an answer is known by it alone. */
import { isRecord } from '../../events/json.ts';
import { finishReason } from './span-attributes.ts';

/**
 * The reason that the first of these says: the choice or the message of an answer, then what stands around it. A response of the Responses
 * API says it only where it is not whole.
 */
export function finishReasonIn(...answers: readonly unknown[]): string | undefined {
  for (const answer of answers) {
    if (!isRecord(answer)) continue;
    const { finish_reason, stop_reason, finishReason: camel, stopReason, done_reason, status } = answer;
    const named = [finish_reason, stop_reason, camel, stopReason, done_reason].find(
      (one) => typeof one === 'string' && one !== '',
    );
    if (named !== undefined) return finishReason(named);
    const { reason } = isRecord(answer.incomplete_details) ? answer.incomplete_details : {};
    if (status === 'incomplete') return finishReason(reason) ?? status;
    if (status === 'failed' || status === 'cancelled') return status;
  }
  return undefined;
}
