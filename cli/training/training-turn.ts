/** Whose turn it is to train on this machine, as commands show it and workers keep to it. */

import type { Turn } from '../../store/queue/jobs/worker.ts';
import { homeAt } from '../../store/server/home.ts';
import { readEngines } from '../../trainer/engines/engines.ts';
import {
  firstElsewhere,
  holdersText,
  placeHolders,
  TRAINING_KINDS,
  trainingTurn,
} from '../../trainer/loop/jobs/training-place.ts';
import type { Context } from '../context.ts';
import type { OpenDatabase } from '../database.ts';
import { say } from '../output.ts';

/** The turn of the workers of this process. */
export const turnOf = ({ config, database, db, home }: Context): Turn => {
  const free = firstElsewhere(db, readEngines(config.engines));
  return trainingTurn({ count: config.trainings }, { project: database.project, home: home.root, say, free });
};

type WaitingJob = { readonly job_id: string | null; readonly kind: string | null; readonly state: string | null };

/** Whom a job of this project waits for because the machine trains already; null where it does not wait for that. */
export async function waitsForTraining({
  config,
  database,
}: OpenDatabase): Promise<(job: WaitingJob) => string | null> {
  const home = homeAt(config.home);
  const ahead = await placeHolders({ count: config.trainings });
  const isAhead = ({ job_id }: WaitingJob) =>
    ahead.some((one) => one?.job_id === job_id && one?.project === database.project && one?.home === home.root);
  return (job) =>
    ahead.length === config.trainings &&
    job.state === 'requested' &&
    TRAINING_KINDS.includes(job.kind ?? '') &&
    !isAhead(job)
      ? holdersText(ahead)
      : null;
}
