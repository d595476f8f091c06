/**
 * The judge that always runs: whatever group completes or changes is judged by the methods of the configuration. Several processes
 * divide the groups: each takes a share that nobody else is judging.
 */
import type { EventLog } from '../../../ingest/log/log.ts';
import { onNotify } from '../../db/notifications.ts';
import type { Db } from '../../db/pool.ts';
import { scalarOf, sql } from '../../db/query.ts';
import { PROJECTED_CHANNEL } from '../../projecting/projector.ts';
import { judge, type MethodRequest, unjudged } from './judge.ts';
import { ALL_SHARES } from './lock.ts';
import { CLOSE_AFTER } from './unjudged.ts';

export type StandingOptions = {
  readonly methods: readonly MethodRequest[];
  readonly signal: AbortSignal;
  readonly now: () => Date;
  /** Seconds without an event after which a group is no longer waited for. */
  readonly closeAfter?: number;
  /** Called with errors; the work is retried at the next notification. */
  readonly onError: (error: unknown) => void;
  /** Called after episodes were judged. */
  readonly onJudged?: (episodes: readonly string[], seconds: number) => void;
};

/** Groups come in bursts; judging a few hundred at once costs little more than one. */
const GATHER_MS = 250;
/** A group that nobody adds to any more completes without a notification. */
const LOOK_MS = 10_000;

/** Judges until stopped. */
export const runJudge = (db: Db, log: EventLog, options: StandingOptions): Promise<void> =>
  onNotify(db, PROJECTED_CHANNEL, { signal: options.signal, gatherMs: GATHER_MS, pollMs: LOOK_MS }, async () => {
    try {
      await judgeCompleted(db, log, options);
    } catch (error) {
      options.onError(error);
    }
    return false;
  });

async function judgeCompleted(
  db: Db,
  log: EventLog,
  { methods, signal, now, closeAfter = CLOSE_AFTER, onJudged = () => {} }: StandingOptions,
): Promise<void> {
  if ((await unjudged(db, methods, { now: now(), closeAfter, limit: 1 })).length === 0) return;
  // Each process begins elsewhere, so that they seldom ask for the same share.
  const first = process.pid % ALL_SHARES.length;
  for (const share of [...ALL_SHARES.slice(first), ...ALL_SHARES.slice(0, first)]) {
    if (signal.aborted) return;
    await db.transaction(async (claim) => {
      const taken = await scalarOf(
        claim,
        sql<boolean>`pg_try_advisory_xact_lock(hashtext('troupe standing judge'), ${share})`,
      );
      if (!taken) return;
      const episodes = await unjudged(db, methods, { now: now(), closeAfter, shares: [share] });
      if (episodes.length === 0) return;
      const began = performance.now();
      await judge(db, log, { methods, episodes, now });
      onJudged(episodes, (performance.now() - began) / 1000);
    });
  }
}
