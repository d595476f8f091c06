/** Troupe's own facts: jobs, judgings, datasets, checkpoints, releases. They close the circle of lineage. */
import { artifactRow } from './feedback.ts';
import { json, type Projection, type Row, type Target } from './projection.ts';

export const JOBS_REQUESTED: Target = {
  name: 'jobs_requested',
  table: 'jobs',
  keys: { job_id: 'text' },
  columns: { kind: 'text', spec: 'json', plan: 'text', parent_job_id: 'text', requested_at: 'timestamptz' },
  version: 'requested_version',
};

export const JOBS_STARTED: Target = {
  name: 'jobs_started',
  table: 'jobs',
  keys: { job_id: 'text' },
  columns: { worker: 'text', token: 'bigint', started_at: 'timestamptz' },
  version: 'started_version',
};

export const JOBS_FINISHED: Target = {
  name: 'jobs_finished',
  table: 'jobs',
  keys: { job_id: 'text' },
  columns: { outcome: 'text', result: 'json', error: 'json', finished_at: 'timestamptz' },
  version: 'finished_version',
};

export const JOB_METRICS: Target = {
  name: 'job_metrics',
  table: 'job_metrics',
  keys: { job_id: 'text', step: 'bigint', name: 'text' },
  columns: { value: 'double precision', occurred_at: 'timestamptz' },
  version: 'version',
};

export const JUDGINGS: Target = {
  name: 'judgings',
  table: 'judgings',
  keys: { judge_id: 'text' },
  columns: { methods: 'json', episodes: 'json', judged_at: 'timestamptz' },
  version: 'version',
};

export const CHECKPOINTS: Target = {
  name: 'checkpoints',
  table: 'checkpoints',
  keys: { checkpoint_id: 'text' },
  columns: {
    parent_id: 'text',
    policy: 'text',
    uri: 'text',
    sha256: 'text',
    step: 'bigint',
    dataset_ids: 'json',
    job_id: 'text',
    kept: 'boolean',
    config: 'json',
    metrics: 'json',
    code_version: 'text',
    saved_at: 'timestamptz',
  },
  version: 'version',
};

export const RELEASES: Target = {
  name: 'releases',
  table: 'releases',
  keys: { release_id: 'text' },
  columns: {
    policies: 'json',
    teams: 'json',
    reason: 'text',
    author: 'text',
    metrics: 'json',
    released_at: 'timestamptz',
  },
  version: 'version',
};

export const DATASETS: Target = {
  name: 'datasets',
  table: 'datasets',
  keys: { dataset_id: 'text' },
  columns: { name: 'text', sha256: 'text', uri: 'text', manifest: 'json', frozen_at: 'timestamptz' },
  version: 'version',
};

/** Candidates of one call in rows that follow each other; `row` is the first of them. */
export const DATASET_ROWS: Target = {
  name: 'dataset_rows',
  table: 'dataset_rows',
  keys: { dataset_id: 'text', split: 'text', row: 'integer' },
  columns: { episode_id: 'text', call_id: 'text', candidates: 'integer[]' },
  version: null,
};

export const jobRequested: Projection<'job.requested'> = ({ data, time, version }) => [
  // A job that goes on has not ended any more.
  ...(data.again
    ? ([
        [
          JOBS_FINISHED,
          [
            {
              job_id: data.job_id,
              outcome: null,
              result: null,
              error: null,
              finished_at: null,
              finished_version: version,
            },
          ],
        ],
      ] as const)
    : []),
  [
    JOBS_REQUESTED,
    [
      {
        job_id: data.job_id,
        kind: data.kind,
        spec: json(data.spec),
        plan: data.plan ?? null,
        parent_job_id: data.parent_job_id ?? null,
        requested_at: time,
        requested_version: version,
      },
    ],
  ],
];

export const jobStarted: Projection<'job.started'> = ({ data, time, version }) => [
  [
    JOBS_STARTED,
    [
      {
        job_id: data.job_id,
        worker: data.worker ?? null,
        token: data.token ?? null,
        started_at: time,
        started_version: version,
      },
    ],
  ],
];

export const jobProgressed: Projection<'job.progressed'> = ({ data, time, version }) => [
  [
    JOB_METRICS,
    Object.entries(data.metrics)
      .filter(([, value]) => typeof value === 'number')
      .map(([name, value]) => ({ job_id: data.job_id, step: data.step, name, value, occurred_at: time, version })),
  ],
];

export const jobFinished: Projection<'job.finished'> = ({ data, time, version }) => [
  [
    JOBS_FINISHED,
    [
      {
        job_id: data.job_id,
        outcome: data.outcome,
        result: json(data.result),
        error: json(data.error),
        finished_at: time,
        finished_version: version,
      },
    ],
  ],
];

export const judgeCompleted: Projection<'judge.completed'> = ({ data, time, version }) => [
  [JUDGINGS, [{ judge_id: data.judge_id, methods: data.methods, episodes: data.episodes, judged_at: time, version }]],
];

export const checkpointSaved: Projection<'checkpoint.saved'> = ({ data, time, version }) => [
  [
    CHECKPOINTS,
    [
      {
        checkpoint_id: data.checkpoint_id,
        parent_id: data.parent_id ?? null,
        policy: data.policy ?? null,
        uri: data.uri ?? null,
        sha256: data.sha256 ?? null,
        step: data.step ?? null,
        dataset_ids: json(data.dataset_ids),
        job_id: data.job_id ?? null,
        kept: data.kept ?? null,
        config: json(data.config),
        metrics: json(data.metrics),
        code_version: data.code_version ?? null,
        saved_at: time,
        version,
      },
    ],
  ],
];

export const policyReleased: Projection<'policy.released'> = ({ data, time, version }) => [
  [
    RELEASES,
    [
      {
        release_id: data.release_id,
        policies: data.policies,
        teams: json(data.teams),
        reason: data.reason ?? null,
        author: data.by ?? null,
        metrics: json(data.metrics),
        released_at: time,
        version,
      },
    ],
  ],
];

/** A dataset's rows by split, each entry the candidates of one call: `[episode_id, call_id, [candidate, …]]`, in row order. */
type CompactRows = Readonly<
  Record<string, readonly (readonly [string, string | null, readonly (number | null)[], row?: number])[]>
>;

export const artifactAttached: Projection<'artifact.attached'> = (event) => {
  const artifact = artifactRow(event);
  if (event.data.role !== 'dataset') return artifact;
  const { data, time, version } = event;
  const rows: Row[] = [];
  for (const [split, calls] of Object.entries((data.rows ?? {}) as CompactRows)) {
    let row = 0;
    for (const [episode_id, call_id, candidates, own] of calls) {
      row = own ?? row;
      rows.push({ dataset_id: data.artifact_id, split, row, episode_id, call_id, candidates });
      row += candidates.length;
    }
  }
  return [
    ...artifact,
    [
      DATASETS,
      [
        {
          dataset_id: data.artifact_id,
          name: data.name ?? null,
          sha256: data.sha256 ?? null,
          uri: data.uri ?? null,
          manifest: json(data.manifest),
          frozen_at: time,
          version,
        },
      ],
    ],
    [DATASET_ROWS, rows],
  ];
};
