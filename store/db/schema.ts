/** The tables of the log and the views as types. Written by `npm run schema` from a migrated database: change `corrections.ts` instead. */
import type { Bytes, Int8, Json, Time, WithDefault } from './corrections.ts';

/** Schema troupe. */
export interface LogTables {
  api_keys: {
    lookup: string;
    name: string;
    sha256: Bytes;
    scopes: string[];
    created_at: WithDefault<Time>;
    expires_at: Time | null;
    revoked_at: Time | null;
  };
  archives: {
    archive_id: string;
    uri: string;
    draft: string | null;
    state: 'writing' | 'kept' | 'restored' | 'replaced';
    sha256: string | null;
    episodes: WithDefault<number>;
    events: WithDefault<Int8>;
    bytes: WithDefault<Int8>;
    written_at: Time;
  };
  blobs: {
    sha256: Bytes;
    bytes: Bytes;
  };
  bodies: {
    hash: string;
    previous: string | null;
    key: string;
    body: string;
    blob: Bytes | null;
    media_type: string | null;
  };
  dead_letters: {
    dead_letter_id: WithDefault<Int8>;
    endpoint: string;
    place: string | null;
    raw: Bytes;
    code: string;
    field: string;
    expected: string;
    got: string;
    digest: string;
    attempts: WithDefault<number>;
    first_at: WithDefault<Time>;
    last_at: WithDefault<Time>;
    replayed_at: Time | null;
  };
  erased: {
    key: string;
    erasure_id: string;
  };
  erasures: {
    erasure_id: string;
    kind: string;
    reason: string | null;
    events: number;
    episodes: number;
    erased_at: Time;
    used: WithDefault<Json>;
  };
  events: {
    key: string;
    source: string;
    id: string;
    name: string;
    time: Time | null;
    data: Json;
    digest: string;
    partition: number;
    position: Int8;
    recorded_at: Time;
    log: number;
    type_version: number;
  };
  ingest_counters: {
    endpoint: string;
    received: WithDefault<Int8>;
    acknowledged: WithDefault<Int8>;
    duplicates: WithDefault<Int8>;
    rejected: WithDefault<Int8>;
  };
  job_queue: {
    job_id: string;
    kind: string;
    spec: Json;
    state: WithDefault<'waiting' | 'running' | 'finished'>;
    worker: string | null;
    token: WithDefault<Int8>;
    attempts: WithDefault<number>;
    leased_until: Time | null;
    requested_at: WithDefault<Time>;
    outcome: 'done' | 'failed' | 'cancelled' | null;
    result: Json | null;
    error: Json | null;
    waits_for: string | null;
    started_at: Time | null;
    deadline_at: Time | null;
  };
  judged_revisions: {
    episode_id: string;
    judge_set: string;
    revision: Int8;
  };
  log_partitions: {
    partition: number;
    next_position: WithDefault<Int8>;
  };
  logs: {
    log: number;
    name: string;
    generation: WithDefault<number>;
    cluster_id: string | null;
    partitions: number;
    first_read: WithDefault<Time>;
    replaced_at: Time | null;
    label: WithDefault<string>;
  };
  migrations: {
    number: number;
    name: string;
    sha256: string;
    applied_at: WithDefault<Time>;
    works_with: number | null;
  };
  partition_leases: {
    partition: number;
    owner: string | null;
    leased_until: Time | null;
  };
  pending_changes: {
    what: Json;
  };
  positions: {
    projection: string;
    partition: number;
    position: WithDefault<Int8>;
    applied: WithDefault<Int8>;
    duplicates: WithDefault<Int8>;
    dead: WithDefault<Int8>;
    began: Int8 | null;
    last_offset: Int8 | null;
    last_digest: string | null;
    log: number;
  };
  processes: {
    process_id: string;
    role: string;
    policy: string | null;
    address: string | null;
    pid: number;
    started_at: WithDefault<Time>;
    heartbeat_at: WithDefault<Time>;
    models: Json | null;
  };
  pruned: {
    key: string;
    archive_id: string;
    group_id: string;
    events: number;
    first_at: Time | null;
    last_at: Time | null;
    revision: Int8 | null;
    judged: Json | null;
    erased: WithDefault<boolean>;
    pruned_at: Time;
    in_tables: WithDefault<boolean>;
  };
  pruned_positions: {
    partition: number;
    events: WithDefault<Int8>;
    log: number;
  };
  stored_events: {
    position: Int8;
    recorded_at: WithDefault<Time>;
    time: Time | null;
    partition: number;
    log: number;
    key: string;
    source: string;
    id: string;
    name: string;
    digest: Bytes;
    data: Json;
    type_version: WithDefault<number>;
  };
  unneeded_bodies: {
    sha256: string;
  };
}

/** Schema traj. */
export interface Views {
  agents: {
    episode_id: string | null;
    agent_id: string | null;
    agent: string | null;
    role: string | null;
    parent_agent_id: string | null;
    depth: number | null;
    model: string | null;
    policy: string | null;
    system_instructions: string | null;
    tools: Json | null;
    params: Json | null;
    unmapped: Json | null;
    role_source: string | null;
  };
  blames: {
    episode_id: string | null;
    method: string | null;
    version: number | null;
    params: Json | null;
    agent_id: string | null;
    step_id: string | null;
    entry: number | null;
    value: number | null;
    reason: string | null;
    method_key: string | null;
    rank: number | null;
    detail: Json | null;
  };
  checkpoints: {
    checkpoint_id: string | null;
    parent_id: string | null;
    policy: string | null;
    uri: string | null;
    sha256: string | null;
    step: Int8 | null;
    dataset_ids: Json | null;
    job_id: string | null;
    kept: boolean | null;
    config: Json | null;
    metrics: Json | null;
    code_version: string | null;
    saved_at: Time | null;
    served_by: Json | null;
  };
  credits: {
    episode_id: string | null;
    step_id: string | null;
    method: string | null;
    version: number | null;
    params: Json | null;
    value: number | null;
    reason: string | null;
    method_key: string | null;
    detail: Json | null;
  };
  dataset_rows: {
    dataset_id: string | null;
    split: string | null;
    row: number | null;
    episode_id: string | null;
    call_id: string | null;
    candidate: number | null;
    step_id: string | null;
  };
  datasets: {
    dataset_id: string | null;
    name: string | null;
    sha256: string | null;
    uri: string | null;
    manifest: Json | null;
    frozen_at: Time | null;
  };
  dead_letters: {
    dead_letter_id: Int8 | null;
    endpoint: string | null;
    place: string | null;
    code: string | null;
    field: string | null;
    expected: string | null;
    got: string | null;
    bytes: number | null;
    attempts: number | null;
    first_at: Time | null;
    last_at: Time | null;
    replayed_at: Time | null;
  };
  decisions: {
    episode_id: string | null;
    decision_id: string | null;
    by: string | null;
    kind: string | null;
    decision: Json | null;
    turn: number | null;
    seq: Int8 | null;
    at: Time | null;
  };
  episodes: {
    episode_id: string | null;
    task_id: string | null;
    attempt: number | null;
    group_id: string | null;
    group_size: number | null;
    session_id: string | null;
    team_id: string | null;
    env_id: string | null;
    parent_episode_id: string | null;
    outcome: string | null;
    reward: number | null;
    answer: string | null;
    closed: boolean | null;
    agents: number | null;
    calls: number | null;
    steps: number | null;
    tool_calls: number | null;
    messages: number | null;
    feedback: number | null;
    input_tokens: Int8 | null;
    output_tokens: Int8 | null;
    started_at: Time | null;
    finished_at: Time | null;
    last_at: Time | null;
    stop_reason: string | null;
    exit_status: string | null;
    policies: Json | null;
    tags: Json | null;
    flags: Json | null;
    totals: Json | null;
    unmapped: Json | null;
    raw_artifact_id: string | null;
  };
  executions: {
    episode_id: string | null;
    feedback_id: string | null;
    name: string | null;
    program: number | null;
    program_step_id: string | null;
    program_name: string | null;
    program_valid: boolean | null;
    reference: boolean | null;
    test: number | null;
    test_step_id: string | null;
    test_name: string | null;
    test_valid: boolean | null;
    ground_truth: boolean | null;
    public: boolean | null;
    pass: boolean | null;
  };
  feedback: {
    episode_id: string | null;
    feedback_id: string | null;
    key: string | null;
    target_kind: string | null;
    target_id: string | null;
    other_id: string | null;
    entry: number | null;
    kind: string | null;
    name: string | null;
    value: number | null;
    value_json: Json | null;
    label: string | null;
    taxonomy: Json | null;
    by: string | null;
    annotator: string | null;
    explanation: string | null;
    confidence: number | null;
    flags: Json | null;
    at: Time | null;
    has_matrix: boolean | null;
    pending: boolean | null;
    no_such_step: boolean | null;
  };
  jobs: {
    job_id: string | null;
    kind: string | null;
    plan: string | null;
    parent_job_id: string | null;
    outcome: string | null;
    state: string | null;
    spec: Json | null;
    result: Json | null;
    error: Json | null;
    worker: string | null;
    requested_at: Time | null;
    started_at: Time | null;
    finished_at: Time | null;
  };
  lineage: {
    checkpoint_id: string | null;
    relation: string | null;
    dataset_id: string | null;
    episode_id: string | null;
    step_id: string | null;
    other_checkpoint_id: string | null;
  };
  messages: {
    episode_id: string | null;
    message_id: string | null;
    kind: string | null;
    call_id: string | null;
    place: number | null;
    sender: string | null;
    role: string | null;
    text: string | null;
    content: Json | null;
    channel: string | null;
    turn: number | null;
    seq: Int8 | null;
    at: Time | null;
    artifacts: string[] | null;
  };
  pruned: {
    episode_id: string | null;
    key: string | null;
    group_id: string | null;
    events: number | null;
    first_at: Time | null;
    last_at: Time | null;
    archive_id: string | null;
    uri: string | null;
    sha256: string | null;
    pruned_at: Time | null;
    in_tables: boolean | null;
  };
  releases: {
    release_id: string | null;
    policy: string | null;
    checkpoint_id: string | null;
    reason: string | null;
    by: string | null;
    metrics: Json | null;
    released_at: Time | null;
    team: string | null;
    team_id: string | null;
  };
  rewards: {
    episode_id: string | null;
    step_id: string | null;
    method: string | null;
    version: number | null;
    params: Json | null;
    value: number | null;
    reason: string | null;
    method_key: string | null;
    detail: Json | null;
  };
  scores: {
    key: string | null;
    episode_id: string | null;
    group_id: string | null;
    method: string | null;
    version: number | null;
    params: Json | null;
    value: number | null;
    reason: string | null;
    detail: Json | null;
    method_key: string | null;
  };
  steps: {
    episode_id: string | null;
    step_id: string | null;
    call_id: string | null;
    candidate: number | null;
    agent_id: string | null;
    agent: string | null;
    role: string | null;
    turn: number | null;
    seq: Int8 | null;
    task_id: string | null;
    group_id: string | null;
    team_id: string | null;
    text: string | null;
    content: Json | null;
    finish_reason: string | null;
    token_ids: number[] | null;
    logprobs: number[] | null;
    loss_mask: number[] | null;
    chosen: boolean | null;
    parent_step_id: string | null;
    prompt_token_ids: number[] | null;
    model: string | null;
    response_model: string | null;
    policy: string | null;
    checkpoint_id: string | null;
    model_version: string | null;
    temperature: number | null;
    seed: Int8 | null;
    input_tokens: Int8 | null;
    output_tokens: Int8 | null;
    latency_ms: number | null;
    error: Json | null;
    requested_at: Time | null;
    completed_at: Time | null;
    role_source: string | null;
    trainable: boolean | null;
    untrainable: string | null;
    cost_usd: number | null;
  };
  tasks: {
    task_id: string | null;
    query: string | null;
    content: Json | null;
    ground_truth: Json | null;
    reference: Json | null;
    tests: Json | null;
    origin: string | null;
    split: string | null;
    difficulty: string | null;
    domain: string | null;
    tags: Json | null;
    unmapped: Json | null;
  };
  tool_calls: {
    episode_id: string | null;
    tool_call_id: string | null;
    call_id: string | null;
    index: number | null;
    agent_id: string | null;
    name: string | null;
    type: string | null;
    arguments: Json | null;
    arguments_raw: string | null;
    parse_error: string | null;
    status: string | null;
    output: Json | null;
    error: Json | null;
    duration_ms: number | null;
    from_cache: boolean | null;
    truncated: boolean | null;
    turn: number | null;
    seq: Int8 | null;
    called_at: Time | null;
    returned_at: Time | null;
    flags: Json | null;
    parent_tool_call_id: string | null;
  };
  verdicts: {
    episode_id: string | null;
    step_id: string | null;
    method: string | null;
    version: number | null;
    params: Json | null;
    keep: boolean | null;
    reason: string | null;
    detail: Json | null;
    method_key: string | null;
  };
}

/** Schema report. */
export interface Reports {
  corrections: {
    episode_id: string | null;
    task_id: string | null;
    team_id: string | null;
    basis: string | null;
    name: string | null;
    step_id: string | null;
    agent_id: string | null;
    agent: string | null;
    role: string | null;
    compared_with: string | null;
    before_step_id: string | null;
    was_right: boolean | null;
    is_right: boolean | null;
    change: string | null;
    after_agent_id: string | null;
    after_agent: string | null;
    after_role: string | null;
    solved: boolean | null;
  };
  outcomes: {
    episode_id: string | null;
    task_id: string | null;
    group_id: string | null;
    team_id: string | null;
    team: string | null;
    outcome: string | null;
    reward: number | null;
    solved: boolean | null;
    solved_by: string | null;
    members: number | null;
    calls: number | null;
    steps: number | null;
    tool_calls: number | null;
    input_tokens: Int8 | null;
    output_tokens: Int8 | null;
    tokens: Int8 | null;
    closed: boolean | null;
    split: string | null;
    policy: string | null;
    checkpoint_id: string | null;
    weights: string | null;
    rollout: string | null;
    cost_usd: number | null;
  };
}
