/** What happened between model calls: messages, tool calls and their results, decisions, hand-overs, observations. */
import { agentStub } from './calls.ts';
import { named, withFilesNamed } from './long-texts.ts';
import { json, type Projection, partsOf, type Target, textOf, unmapped } from './projection.ts';

export const MESSAGES: Target = {
  name: 'messages',
  table: 'messages',
  keys: { episode_id: 'text', message_id: 'text' },
  columns: {
    sender: 'text',
    receivers: 'json',
    role: 'text',
    text: 'text',
    content: 'json',
    channel: 'text',
    in_reply_to: 'text',
    call_id: 'text',
    turn: 'integer',
    seq: 'bigint',
    sent_at: 'timestamptz',
    flags: 'json',
    unmapped: 'json',
  },
  version: 'version',
};

export const TOOLS_CALLED: Target = {
  name: 'tools_called',
  table: 'tool_calls',
  keys: { episode_id: 'text', tool_call_id: 'text' },
  columns: {
    call_id: 'text',
    parent_tool_call_id: 'text',
    tool_index: 'integer',
    agent_id: 'text',
    name: 'text',
    type: 'text',
    arguments: 'json',
    arguments_raw: 'text',
    parse_error: 'text',
    turn: 'integer',
    seq: 'bigint',
    called_unmapped: 'json',
    called_at: 'timestamptz',
  },
  version: 'called_version',
};

export const TOOLS_RETURNED: Target = {
  name: 'tools_returned',
  table: 'tool_calls',
  keys: { episode_id: 'text', tool_call_id: 'text' },
  columns: {
    status: 'text',
    output: 'json',
    error: 'json',
    duration_ms: 'double precision',
    from_cache: 'boolean',
    truncated: 'boolean',
    returned_flags: 'json',
    returned_seq: 'bigint',
    returned_unmapped: 'json',
    returned_at: 'timestamptz',
  },
  version: 'returned_version',
};

const EVENT_KEYS = { episode_id: 'text', event_source: 'text', event_id: 'text' } as const;

export const DECISIONS: Target = {
  name: 'decisions',
  table: 'decisions',
  keys: EVENT_KEYS,
  columns: {
    author: 'text',
    kind: 'text',
    decision: 'json',
    turn: 'integer',
    seq: 'bigint',
    occurred_at: 'timestamptz',
    unmapped: 'json',
  },
  version: 'version',
};

export const OBSERVATIONS: Target = {
  name: 'observations',
  table: 'observations',
  keys: EVENT_KEYS,
  columns: {
    kind: 'text',
    content: 'json',
    state: 'json',
    call_id: 'text',
    turn: 'integer',
    seq: 'bigint',
    occurred_at: 'timestamptz',
    unmapped: 'json',
  },
  version: 'version',
};

export const messageSent: Projection<'message.sent'> = ({ data, key, time, version }) => {
  const text = named(key, textOf(data.content));
  const content = withFilesNamed(key, partsOf(data.content));
  const rest = withFilesNamed(key, unmapped(data.unmapped));
  return [
    [
      MESSAGES,
      [
        {
          episode_id: data.episode_id,
          message_id: data.message_id,
          sender: data.from ?? null,
          receivers: json(data.to),
          role: data.role ?? null,
          text: text.value,
          content: content.value,
          channel: data.channel ?? null,
          in_reply_to: data.in_reply_to ?? null,
          call_id: data.call_id ?? null,
          turn: data.turn ?? null,
          seq: data.seq ?? null,
          sent_at: time,
          flags: json(data.flags),
          unmapped: rest.value,
          version,
        },
      ],
    ],
    ...text.bodies,
    ...content.bodies,
    ...rest.bodies,
  ];
};

export const toolCalled: Projection<'tool.called'> = ({ data, key, time, version }) => {
  const rest = withFilesNamed(key, unmapped(data.unmapped));
  return [
    [
      TOOLS_CALLED,
      [
        {
          episode_id: data.episode_id,
          tool_call_id: data.tool_call_id,
          call_id: data.call_id ?? null,
          parent_tool_call_id: data.parent_tool_call_id ?? null,
          tool_index: data.index ?? null,
          agent_id: data.agent_id ?? null,
          name: data.name,
          type: data.type ?? null,
          arguments: json(data.arguments),
          arguments_raw: data.arguments_raw ?? null,
          parse_error: data.parse_error ?? null,
          turn: data.turn ?? null,
          seq: data.seq ?? null,
          called_unmapped: rest.value,
          called_at: time,
          called_version: version,
        },
      ],
    ],
    ...rest.bodies,
    ...agentStub(data.episode_id, data.agent_id),
  ];
};

export const toolReturned: Projection<'tool.returned'> = ({ data, key, time, version }) => {
  const output = named(key, json(data.output));
  const rest = withFilesNamed(key, unmapped(data.unmapped));
  return [
    [
      TOOLS_RETURNED,
      [
        {
          episode_id: data.episode_id,
          tool_call_id: data.tool_call_id,
          status: data.status,
          output: output.value,
          error: json(data.error),
          duration_ms: data.duration_ms ?? null,
          from_cache: data.from_cache ?? null,
          truncated: data.truncated ?? null,
          returned_flags: json(data.flags),
          returned_seq: data.seq ?? null,
          returned_unmapped: rest.value,
          returned_at: time,
          returned_version: version,
        },
      ],
    ],
    ...output.bodies,
    ...rest.bodies,
  ];
};

export const decisionMade: Projection<'decision.made'> = ({ data, source, id, time, version }) => [
  [
    DECISIONS,
    [
      {
        episode_id: data.episode_id,
        event_source: source,
        event_id: id,
        author: data.by ?? null,
        kind: data.kind,
        decision: json(data.decision),
        turn: data.turn ?? null,
        seq: data.seq ?? null,
        occurred_at: time,
        unmapped: unmapped(data.unmapped),
        version,
      },
    ],
  ],
];

/** A hand-over is a decision about who goes on. */
export const controlTransferred: Projection<'control.transferred'> = ({ data, source, id, time, version }) => [
  [
    DECISIONS,
    [
      {
        episode_id: data.episode_id,
        event_source: source,
        event_id: id,
        author: data.from_agent ?? null,
        kind: data.kind,
        decision: {
          to_agent: data.to_agent,
          ...(data.child_episode_id ? { child_episode_id: data.child_episode_id } : {}),
          ...(data.tool_call_id ? { tool_call_id: data.tool_call_id } : {}),
          ...(data.reason ? { reason: data.reason } : {}),
        },
        turn: data.turn ?? null,
        seq: data.seq ?? null,
        occurred_at: time,
        unmapped: unmapped(data.unmapped),
        version,
      },
    ],
  ],
  ...agentStub(data.episode_id, data.to_agent),
];

export const environmentObserved: Projection<'environment.observed'> = ({ data, key, source, id, time, version }) => {
  const content = withFilesNamed(key, json(data.content));
  const state = withFilesNamed(key, json(data.state));
  const rest = withFilesNamed(key, unmapped(data.unmapped));
  return [
    [
      OBSERVATIONS,
      [
        {
          episode_id: data.episode_id,
          event_source: source,
          event_id: id,
          kind: data.kind,
          content: content.value,
          state: state.value,
          call_id: data.call_id ?? null,
          turn: data.turn ?? null,
          seq: data.seq ?? null,
          occurred_at: time,
          unmapped: rest.value,
          version,
        },
      ],
    ],
    ...content.bodies,
    ...state.bodies,
    ...rest.bodies,
  ];
};
