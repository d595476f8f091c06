/** Episodes opened and closed, their members, and what they belong to: tasks and teams. */
import type { EventData } from '../../ingest/events/events.ts';
import { NO_TOKEN_IDS } from '../../ingest/formats/kit/run.ts';
import { named } from './long-texts.ts';
import { json, type Projection, type Target, textOf, unmapped } from './projection.ts';

export const TASKS: Target = {
  name: 'tasks',
  table: 'tasks',
  keys: { task_id: 'text' },
  columns: {
    query: 'text',
    content: 'json',
    ground_truth: 'json',
    reference: 'json',
    tests: 'json',
    constraints: 'json',
    origin: 'text',
    split: 'text',
    difficulty: 'text',
    domain: 'text',
    tags: 'jsonb',
    unmapped: 'json',
  },
  version: 'version',
};

export const TEAMS: Target = {
  name: 'teams',
  table: 'teams',
  keys: { team_id: 'text' },
  columns: {
    name: 'text',
    team_version: 'text',
    agents: 'json',
    edges: 'json',
    content_hash: 'text',
    tags: 'jsonb',
    unmapped: 'json',
  },
  version: 'version',
};

export const EPISODES_STARTED: Target = {
  name: 'episodes_started',
  table: 'episodes',
  keys: { episode_id: 'text' },
  columns: {
    attempt: 'integer',
    started_group_id: 'text',
    group_size: 'integer',
    session_id: 'text',
    team_id: 'text',
    env_id: 'text',
    parent_episode_id: 'text',
    policies: 'jsonb',
    budgets: 'json',
    tags: 'jsonb',
    flags: 'jsonb',
    unmapped: 'json',
    raw_artifact_id: 'text',
    started_at: 'timestamptz',
  },
  version: 'started_version',
};

/** The task of an episode, apart from the rest: one that was named beats one made of its text, whichever comes last. */
export const EPISODE_TASKS: Target = {
  name: 'episode_tasks',
  table: 'episodes',
  keys: { episode_id: 'text' },
  columns: { started_task_id: 'text' },
  version: 'task_version',
};

export const EPISODES_FINISHED: Target = {
  name: 'episodes_finished',
  table: 'episodes',
  keys: { episode_id: 'text' },
  columns: {
    outcome: 'text',
    answer: 'text',
    final: 'json',
    stop_reason: 'text',
    exit_status: 'text',
    totals: 'json',
    finished_at: 'timestamptz',
  },
  version: 'finished_version',
};

export const AGENTS: Target = {
  name: 'agents',
  table: 'agents',
  keys: { episode_id: 'text', agent_id: 'text' },
  columns: {
    name: 'text',
    role: 'text',
    parent_agent_id: 'text',
    depth: 'integer',
    model: 'text',
    policy: 'text',
    system_instructions: 'text',
    tools: 'json',
    params: 'json',
    unmapped: 'json',
  },
  version: 'version',
};

export const taskDefined: Projection<'task.defined'> = ({ data, version }) => [
  [
    TASKS,
    [
      {
        task_id: data.task_id,
        query: textOf(data.query),
        content: Array.isArray(data.query) ? data.query : null,
        ground_truth: json(data.ground_truth),
        reference: json(data.reference),
        tests: json(data.tests),
        constraints: json(data.constraints),
        origin: data.source ?? null,
        split: data.split ?? null,
        difficulty: data.difficulty ?? null,
        domain: data.domain ?? null,
        tags: json(data.tags),
        unmapped: unmapped(data.unmapped),
        version,
      },
    ],
  ],
];

export const teamDefined: Projection<'team.defined'> = ({ data, version }) => [
  [
    TEAMS,
    [
      {
        team_id: data.team_id,
        name: data.name ?? null,
        team_version: data.team_version ?? null,
        agents: json(data.agents),
        edges: json(data.edges),
        content_hash: data.content_hash ?? null,
        tags: json(data.tags),
        unmapped: unmapped(data.unmapped),
        version,
      },
    ],
  ],
];

/** Rows of `openai-chat` hold text alone; their events, whose ids and bodies stand in homes, do not say so. */
const flagsOf = ({ flags, native }: EventData<'episode.started'>): EventData<'episode.started'>['flags'] =>
  native?.form === 'chat-row' && !flags?.includes(NO_TOKEN_IDS) ? [...(flags ?? []), NO_TOKEN_IDS] : flags;

export const episodeStarted: Projection<'episode.started'> = ({ data, time, version }) => [
  [
    EPISODES_STARTED,
    [
      {
        episode_id: data.episode_id,
        attempt: data.attempt ?? null,
        started_group_id: data.group_id ?? null,
        group_size: data.group_size ?? null,
        session_id: data.session_id ?? null,
        team_id: data.team_id ?? null,
        env_id: data.env_id ?? null,
        parent_episode_id: data.parent_episode_id ?? null,
        policies: json(data.policies),
        budgets: json(data.budgets),
        tags: json(data.tags),
        flags: json(flagsOf(data)),
        unmapped: unmapped(data.unmapped),
        raw_artifact_id: (data.raw?.artifact_id as string | undefined) ?? null,
        started_at: time,
        started_version: version,
      },
    ],
  ],
  [
    EPISODE_TASKS,
    [
      {
        episode_id: data.episode_id,
        started_task_id: data.task_id ?? null,
        task_version: `${rankOfTask(data.task_id)} ${version}`,
      },
    ],
  ],
];

/** None, made of a text (`text/` and 32 hex digits, as importers make it), named. */
const rankOfTask = (id: string | null | undefined): 0 | 1 | 2 =>
  id == null ? 0 : /^text\/[0-9a-f]{32}$/.test(id) ? 1 : 2;

export const episodeFinished: Projection<'episode.finished'> = ({ data, time, version }) => [
  [
    EPISODES_FINISHED,
    [
      {
        episode_id: data.episode_id,
        outcome: data.outcome,
        answer: data.answer ?? textOf(data.final),
        final: json(data.final),
        stop_reason: data.stop_reason ?? null,
        exit_status: data.exit_status ?? null,
        totals: json(data.totals),
        finished_at: time,
        finished_version: version,
      },
    ],
  ],
];

export const agentDefined: Projection<'agent.defined'> = ({ data, key, version }) => {
  const system = named(key, textOf(data.system_instructions));
  return [
    [
      AGENTS,
      [
        {
          episode_id: data.episode_id,
          agent_id: data.agent_id,
          name: data.name ?? null,
          role: data.role ?? null,
          parent_agent_id: data.parent_agent_id ?? null,
          depth: data.depth ?? null,
          model: data.model ?? null,
          policy: data.policy ?? null,
          system_instructions: system.value,
          tools: json(data.tools),
          params: json(data.params),
          unmapped: unmapped(data.unmapped),
          version,
        },
      ],
    ],
    ...system.bodies,
  ];
};
