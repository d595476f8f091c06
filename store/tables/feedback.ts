/** Feedback after the fact, and attachments. */
import { json, type Projection, type Target, unmapped } from './projection.ts';

export const FEEDBACK: Target = {
  name: 'feedback',
  table: 'feedback',
  keys: { key: 'text', feedback_id: 'text' },
  columns: {
    episode_id: 'text',
    target_kind: 'text',
    target_id: 'text',
    other_id: 'text',
    entry: 'integer',
    kind: 'text',
    name: 'text',
    value: 'double precision',
    value_json: 'json',
    label: 'text',
    matrix: 'json',
    taxonomy: 'json',
    author: 'text',
    annotator: 'text',
    explanation: 'text',
    confidence: 'double precision',
    flags: 'json',
    unmapped: 'json',
    occurred_at: 'timestamptz',
  },
  version: 'version',
};

export const ARTIFACTS: Target = {
  name: 'artifacts',
  table: 'artifacts',
  keys: { key: 'text', artifact_id: 'text' },
  columns: {
    episode_id: 'text',
    role: 'text',
    media_type: 'text',
    sha256: 'text',
    size: 'bigint',
    uri: 'text',
    name: 'text',
    target: 'json',
  },
  version: 'version',
};

export const feedbackRecorded: Projection<'feedback.recorded'> = ({ data, key, time, version }) => {
  const { target, value } = data;
  const ofEpisode = target.kind === 'episode' ? (target.episode_id ?? target.id ?? null) : (target.episode_id ?? null);
  return [
    [
      FEEDBACK,
      [
        {
          key,
          feedback_id: data.feedback_id,
          episode_id: target.kind === 'foreign' ? null : ofEpisode,
          target_kind: target.kind,
          target_id: target.id ?? ofEpisode,
          other_id: target.other_id ?? null,
          entry: target.entry ?? null,
          kind: data.kind,
          name: data.name,
          value: typeof value === 'number' ? value : typeof value === 'boolean' ? Number(value) : null,
          value_json: json(value),
          label: data.label ?? (typeof value === 'string' ? value : null),
          matrix: json(data.matrix),
          taxonomy: json(data.taxonomy),
          author: data.by ?? null,
          annotator: data.annotator ?? null,
          explanation: data.explanation ?? null,
          confidence: data.confidence ?? null,
          flags: json(data.flags),
          unmapped: unmapped(data.unmapped),
          occurred_at: time,
          version,
        },
      ],
    ],
  ];
};

export const artifactRow: Projection<'artifact.attached'> = ({ data, key, version }) => [
  [
    ARTIFACTS,
    [
      {
        key,
        artifact_id: data.artifact_id,
        episode_id: data.episode_id ?? null,
        role: data.role,
        media_type: data.media_type ?? null,
        sha256: data.sha256 ?? null,
        size: data.size ?? null,
        uri: data.uri ?? null,
        name: data.name ?? null,
        target: json(data.target),
        version,
      },
    ],
  ],
];
