/** The event that records a checkpoint trained by a job. */
import { appendOwn } from '../../../ingest/log/own-event.ts';
import type { Job, JobContext } from '../../../store/queue/jobs/jobs.ts';
import type { SavedCheckpoint } from '../../model/checkpoints/checkpoint.ts';
import type { CheckpointMeta } from '../../model/checkpoints/checkpoint-format.ts';

export type TrainedCheckpoint = Pick<CheckpointMeta, 'adapter'> & {
  readonly job: Job;
  readonly saved: SavedCheckpoint;
  /** Id of the weights it was trained from. */
  readonly parent: string;
  readonly policy: string;
  readonly datasetId: string;
  readonly keep: boolean;
  /** Optimizer steps so far. */
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly codeVersion: string;
};

/** Appends `checkpoint.saved`. */
export async function announceCheckpoint(
  { log, now }: JobContext,
  { job, saved, parent, policy, datasetId, keep, step, metrics, codeVersion, adapter }: TrainedCheckpoint,
): Promise<void> {
  await appendOwn(log, [
    {
      name: 'checkpoint.saved',
      source: '/trainer',
      id: `${job.job_id}/${saved.id}`,
      time: now().toISOString(),
      data: {
        checkpoint_id: saved.id,
        parent_id: parent === saved.id ? null : parent,
        policy,
        uri: saved.dir,
        sha256: saved.sha256,
        step,
        dataset_ids: [datasetId],
        job_id: job.job_id,
        kept: keep,
        ...(adapter === undefined ? {} : { config: { adapter } }),
        metrics,
        code_version: codeVersion,
      },
    },
  ]);
}
