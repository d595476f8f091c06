/** A database with its log, artifacts and archives in a folder, and what prunes and restores them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Event } from '../../../ingest/events/events.ts';
import { fileArtifacts } from '../../../ingest/log/artifacts.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { judgeAgain } from '../../../store/evaluate/judging/judge.ts';
import { inFolders as places } from '../../../store/keep/places.ts';
import { type PruneOptions, prune } from '../../../store/keep/prune.ts';
import { restore } from '../../../store/keep/restore.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase } from '../../support/database.ts';
import { at, event } from './events.ts';

/** The builders of events say that everything happened in the first minutes of the day before. */
const BOUND = new Date('2026-09-11T00:00:00Z');
export const now = () => new Date('2026-11-21T12:00:00Z');

/** One method of each kind: rewards, credit that reads them, credit of a group, a filter, a score. */
export const METHODS = [
  { method: 'cosigned_rewards' },
  { method: 'floored_advantage', reads: 'cosigned_rewards' },
  { method: 'grpo_advantage' },
  { method: 'well_formed_filter' },
  { method: 'agreement_score' },
];

export async function aProject() {
  const { db, close } = await freshDatabase({ max: 8 });
  const log = postgresLog(db);
  const folder = mkdtempSync(join(tmpdir(), 'troupe-prune-'));
  const to = join(folder, 'archives');
  const artifacts = fileArtifacts(join(folder, 'artifacts'));
  const options: PruneOptions = {
    ...{ before: BOUND, now: now(), closeAfter: 1800, to, places, codeVersion: '0', judge: judgeAgain },
    bodies: { get: (name) => artifacts.get(name).catch(() => null), remove: artifacts.remove },
  };
  return {
    ...{ db, log, folder, to, places, artifacts, options },
    record: async (events: readonly Event[]) => {
      await log.append(events);
      await projectAll(db);
    },
    prune: (more: Partial<PruneOptions> = {}) => prune(db, { ...options, ...more }),
    restore: (path = to) => restore(db, path, { places, judge: judgeAgain, putBodies: artifacts.put }),
    episodes: async () =>
      (await db.query<{ id: string }>('select episode_id as id from traj.episodes order by 1')).rows.map(
        ({ id }) => id,
      ),
    /** Every row of the log, arrival included. */
    rows: async () =>
      (await db.query('select e.*::text as row from troupe.events e order by partition, position')).rows,
    close: async () => {
      await close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export type Project = Awaited<ReturnType<typeof aProject>>;

/** A word in an episode that was closed: it is open again. */
export const reopened = (id: string): Event =>
  event('message.sent', { episode_id: id, message_id: 'now', content: 'x' }, { id: `${id}-now`, time: at(500) });

export const lateWord = (id: string): Event =>
  event('message.sent', { episode_id: id, message_id: 'late', content: 'late' }, { id: `${id}-late` });
