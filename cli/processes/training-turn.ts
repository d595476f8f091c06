/** Whose turn it is to train on this machine. */

import type { WorkerTurn } from '../../store/queue/jobs/worker.ts';
import { readEngines } from '../../trainer/engines/engines.ts';
import { firstElsewhere, trainingTurn } from '../../trainer/loop/jobs/training-place.ts';
import type { Context } from '../context.ts';
import { say } from '../output.ts';

/** The turn of the workers of this process. */
export const turnOf = ({ config, database, db, home }: Context): WorkerTurn => {
  const free = firstElsewhere(db, readEngines(config.engines));
  return trainingTurn({ count: config.trainings }, { project: database.project, home: home.root, say, free });
};
