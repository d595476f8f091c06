/** Events that Troupe appends about its own work: they pass the same checks as everybody's. */
import { type ErrorCode, TroupeError } from '../../errors.ts';
import { decodeDraft } from '../events/decode.ts';
import type { Draft, Event } from '../events/events.ts';
import { type EventLog, type PrunedKey, prunedRefusal } from './log.ts';

/** Events of one append: a transaction of the log stays short. */
const BATCH = 1_000;

/**
 * Appends drafts that Troupe made and returns how many are new: of an id that the log holds, the first event stays. `code` is `usage`
 * where a user gave the values.
 * @throws TroupeError naming the field, before anything is appended; with `internal` such a refusal is a defect of Troupe. `conflict` where
 * one is about what lies in an archive: the tables may show it, and nothing can be added to it.
 */
export async function appendOwn(
  log: Pick<EventLog, 'append'>,
  drafts: readonly Draft[],
  code: ErrorCode = 'internal',
): Promise<number> {
  const events = drafts.map((draft) => ownEvent(draft, code));
  let accepted = 0;
  for (let from = 0; from < events.length; from += BATCH) {
    const answers = await log.append(events.slice(from, from + BATCH));
    for (const answer of answers) {
      if (answer === 'accepted') accepted++;
      else if (typeof answer === 'object') throw archived(answer);
    }
  }
  return accepted;
}

function archived(where: PrunedKey): TroupeError {
  const { expected, got } = prunedRefusal(where);
  return new TroupeError('conflict', `What was to be recorded should be ${expected}; it is ${got}.`);
}

function ownEvent(draft: Draft, code: ErrorCode): Event {
  const { event, refusal } = decodeDraft(draft);
  if (event) return event;
  const { field, expected, got } = refusal;
  throw new TroupeError(
    code,
    `The event ${draft.name} cannot be recorded: ${field || 'it'} should be ${expected}, got ${got}.`,
    refusal,
  );
}
