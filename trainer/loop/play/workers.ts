/** The job of a rollout whose attempts workers lease over HTTP: it fails what was lost, plans what comes next, and ends at the deadline. */
import { TroupeError } from '../../../errors.ts';
import { onNotify } from '../../../store/db/notifications.ts';
import {
  ATTEMPTS_ENDED,
  addAttempts,
  attemptCounts,
  attemptsOf,
  failLost,
  failWaiting,
} from '../../../store/loop/play/attempts.ts';
import { failOverBudget } from '../../../store/loop/play/budget.ts';
import { groupsOf, type RolloutSpec } from '../../../store/loop/play/rollout.ts';
import type { Handler, JobContext } from '../../../store/queue/jobs/jobs.ts';
import { announce } from './episodes.ts';
import { deadlineOver, nextAttempts } from './plan.ts';
import { playOf } from './play.ts';
import type { WorkersRunner } from './runners.ts';

const LOOK_MS = 500;
const REPORT_MS = 2000;

/** Returns once no attempt waits or runs. @throws TroupeError `interrupted` when this process is asked to end; workers go on meanwhile */
export async function awaitWorkers(
  { db, log, now }: JobContext,
  {
    id,
    rollout,
    runner,
    lastsS,
    report,
    signal,
  }: {
    readonly id: string;
    readonly rollout: RolloutSpec;
    readonly runner: WorkersRunner;
    /** Seconds until the deadline of the rollout. */
    readonly lastsS: number;
    readonly report: Parameters<Handler>[1];
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const until = performance.now() + lastsS * 1000;
  let failed = -1;
  let reported = Number.NEGATIVE_INFINITY;
  let looks = 0;
  /** Whether nothing is left to wait for. */
  const look = async (): Promise<boolean> => {
    const at = now().toISOString();
    await failLost(db, id, { at });
    if (performance.now() >= until) {
      const error = deadlineOver(rollout);
      await failWaiting(db, id, { at, error });
      await failLost(db, id, { at, all: error });
      return true;
    }
    await failOverBudget(db, id, rollout, now());
    const seen = await attemptCounts(db, id);
    // Only a failure asks for another attempt.
    if (seen.failed !== failed) {
      const rows = await attemptsOf(db, id);
      await announce(
        log,
        rows.filter(({ outcome }) => outcome === 'failed').map((row) => playOf(rollout, row)),
      );
      await addAttempts(db, runner.name, nextAttempts(id, rollout, rows, runner.retries));
      failed = seen.failed;
    }
    const counts = await attemptCounts(db, id);
    if (counts.waiting + counts.running === 0 && counts.failed === failed) return true;
    if (performance.now() - reported > REPORT_MS) {
      reported = performance.now();
      await report(looks++, { ...counts, of: groupsOf(id, rollout).length * rollout.samples });
    }
    return false;
  };
  const over = new AbortController();
  const pollMs = () => Math.min(LOOK_MS, Math.max(0, until - performance.now()));
  await onNotify(db, ATTEMPTS_ENDED, { signal: AbortSignal.any([signal, over.signal]), pollMs }, async () => {
    if (await look()) over.abort();
    return false;
  });
  if (!over.signal.aborted)
    throw new TroupeError('interrupted', 'The process was stopped; whoever takes the rollout goes on where it was.');
}
