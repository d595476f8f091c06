/** Events that Troupe appends about its own work: they pass the same checks as everybody's. */
import { type ErrorCode, TroupeError } from '../errors.ts';
import { decodeDraft } from './decode.ts';
import type { Draft, Event } from './events.ts';

/**
 * The event of a draft that Troupe made. `code` is `usage` where a user gave its values.
 * @throws TroupeError naming the field; with `internal` such a refusal is a defect of Troupe.
 */
export function ownEvent(draft: Draft, code: ErrorCode = 'internal'): Event {
  const { event, refusal } = decodeDraft(draft);
  if (event) return event;
  const { field, expected, got } = refusal;
  throw new TroupeError(
    code,
    `The event ${draft.name} cannot be recorded: ${field || 'it'} should be ${expected}, got ${got}.`,
    refusal,
  );
}
