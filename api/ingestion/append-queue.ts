/** Groups the appends of all requests of one process; each caller gets the results of its own events. */
import { TroupeError } from '../../errors.ts';
import type { Event } from '../../ingest/events/events.ts';
import { fullLength, writtenAs } from '../../ingest/events/long-context.ts';
import type { AppendResult, EventLog } from '../../ingest/log/log.ts';
import { isFullDisk, isTransient } from '../../store/db/faults.ts';
import { groupCommit } from './group-commit.ts';

const MAX_GROUP_CHARACTERS = 16 * 1024 * 1024;
const MAX_WAITING_CHARACTERS = 256 * 1024 * 1024;
/** What an event costs besides its data. */
const ENVELOPE = 500;

export function createAppendQueue(log: Pick<EventLog, 'append'>) {
  const group = groupCommit(
    async (calls: readonly (readonly Event[])[]): Promise<(readonly AppendResult[])[]> => {
      const answers = await log.append(calls.flat());
      let from = 0;
      return calls.map((events) => {
        const own = answers.slice(from, from + events.length);
        from += events.length;
        return own;
      });
    },
    {
      weigh: (events) => events.reduce((sum, event) => sum + fullLength(writtenAs(event)) + ENVELOPE, 0),
      maxWeight: MAX_GROUP_CHARACTERS,
      maxWaiting: MAX_WAITING_CHARACTERS,
    },
  );
  return {
    /** Answers, in the order given, once the log has answered. Throws `unreachable`, `disk_full` or `busy` where the log cannot take them now. */
    append: async (events: readonly Event[]): Promise<readonly AppendResult[]> => {
      if (events.length === 0) return [];
      try {
        return await group.submit(events);
      } catch (error) {
        if (error instanceof TroupeError || !isTransient(error)) throw error;
        const [code, why] = isFullDisk(error)
          ? (['disk_full', 'The disk of the event log is full'] as const)
          : (['unreachable', 'The event log cannot be reached'] as const);
        throw new TroupeError(code, `${why}; nothing of this request was acknowledged. Send it again.`, {
          cause: error,
        });
      }
    },
    idle: group.idle,
  };
}
