import { group, groupOfEach, table } from './table.ts';

export const jobs = table('jobs', 'Units of work in the queue, and how they ended.', {
  keys: { job_id: 'text' },
  groups: [
    group('job.requested', {
      version: 'requested_version',
      columns: {
        kind: 'text',
        spec: 'json',
        plan: 'text',
        parent_job_id: 'text',
        requested_at: ['timestamptz', 'event.time'],
      },
    }),
    group('job.started', {
      version: 'started_version',
      columns: { worker: 'text', token: 'bigint', started_at: ['timestamptz', 'event.time'] },
    }),
    // A job that is requested again has not ended any more.
    groupOfEach(
      ['job.finished', 'job.requested'],
      ({ data, time }) =>
        'outcome' in data
          ? [{ ...data, finished_at: time }]
          : 'again' in data && data.again
            ? [{ job_id: data.job_id }]
            : [],
      {
        version: 'finished_version',
        columns: { outcome: 'text', result: 'json', error: 'json', finished_at: 'timestamptz' },
      },
    ),
  ],
});

export const jobMetrics = table('job_metrics', 'Numbers that a job reported, by step.', {
  keys: { job_id: 'text', step: 'bigint', name: 'text' },
  groups: [
    groupOfEach(
      'job.progressed',
      ({ data: { job_id, step, metrics } }) =>
        Object.entries(metrics).flatMap(([name, value]) =>
          typeof value === 'number' ? [{ job_id, step, name, value }] : [],
        ),
      {
        columns: { value: 'double precision', occurred_at: ['timestamptz', 'event.time'] },
      },
    ),
  ],
});
