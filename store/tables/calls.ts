/** Model calls and their candidates: a call with n choices is n steps. What a call read is a chain of bodies, which it names. */
import { GATEWAY } from '../../ingest/events/gateway-events.ts';
import { contextNamed, contextOf } from '../../ingest/log/split.ts';
import { BODIES, withFilesNamed } from './long-texts.ts';
import { json, type Projection, partsOf, type Rows, type Target, textOf, unmapped } from './projection.ts';

export const CALLS_REQUESTED: Target = {
  name: 'calls_requested',
  table: 'calls',
  keys: { episode_id: 'text', call_id: 'text' },
  columns: {
    requested_agent_id: 'text',
    requested_role: 'text',
    requested_turn: 'integer',
    task_id: 'text',
    group_id: 'text',
    model: 'text',
    params: 'json',
    context: 'uuid',
    tools: 'json',
    parent_call_id: 'text',
    copied: 'boolean',
    requested_seq: 'bigint',
    requested_unmapped: 'json',
    requested_at: 'timestamptz',
  },
  version: 'requested_version',
};

export const CALLS_COMPLETED: Target = {
  name: 'calls_completed',
  table: 'calls',
  keys: { episode_id: 'text', call_id: 'text' },
  columns: {
    completed_agent_id: 'text',
    completed_role: 'text',
    completed_turn: 'integer',
    response_id: 'text',
    response_model: 'text',
    policy: 'text',
    checkpoint_id: 'text',
    model_version: 'text',
    prompt_token_ids: 'integer[]',
    input_tokens: 'bigint',
    output_tokens: 'bigint',
    usage: 'json',
    latency_ms: 'double precision',
    cached: 'boolean',
    seed: 'bigint',
    temperature: 'double precision',
    error: 'json',
    completed_seq: 'bigint',
    completed_flags: 'json',
    completed_unmapped: 'json',
    completed_at: 'timestamptz',
  },
  version: 'completed_version',
};

export const STEPS: Target = {
  name: 'steps',
  table: 'steps',
  keys: { episode_id: 'text', call_id: 'text', candidate: 'integer' },
  columns: {
    text: 'text',
    content: 'json',
    finish_reason: 'text',
    token_ids: 'integer[]',
    logprobs: 'real[]',
    loss_mask: 'smallint[]',
    chosen: 'boolean',
    parent_step_id: 'text',
  },
  version: 'version',
};

/** Members that act without having been defined still appear. */
export const AGENT_STUBS: Target = {
  name: 'agent_stubs',
  table: 'agents',
  keys: { episode_id: 'text', agent_id: 'text' },
  columns: {},
  version: null,
};

export const agentStub = (episodeId: string, agentId: string | null | undefined): Rows =>
  agentId ? [[AGENT_STUBS, [{ episode_id: episodeId, agent_id: agentId }]]] : [];

export const generationRequested: Projection<'generation.requested'> = ({ data, key, source, time, version }) => {
  const named = contextNamed(data.input);
  const context = named === null && data.input ? contextOf(key, data.input) : null;
  const rest = withFilesNamed(key, unmapped(data.unmapped));
  return [
    [
      CALLS_REQUESTED,
      [
        {
          episode_id: data.episode_id,
          call_id: data.call_id,
          requested_agent_id: data.agent_id ?? null,
          requested_role: data.role ?? null,
          requested_turn: data.turn ?? null,
          task_id: data.task_id ?? fromHeader(source, data.unmapped?.task_id),
          group_id: data.group_id ?? fromHeader(source, data.unmapped?.group_id),
          model: data.model ?? null,
          params: json(data.params),
          context: named ?? context?.hash ?? null,
          tools: json(data.tools),
          parent_call_id: data.parent_call_id ?? null,
          copied: data.copied ?? null,
          requested_seq: data.seq ?? null,
          requested_unmapped: rest.value,
          requested_at: time,
          requested_version: version,
        },
      ],
    ],
    [BODIES, context?.bodies ?? []],
    ...rest.bodies,
    ...agentStub(data.episode_id, data.agent_id),
  ];
};

/** The gateway of early 0.1.0 recorded the headers Troupe-Task and Troupe-Group as fields without a column. */
const fromHeader = (source: string, value: unknown): string | null =>
  source === GATEWAY && typeof value === 'string' ? value : null;

export const generationCompleted: Projection<'generation.completed'> = ({ data, key, time, version }) => {
  const rest = withFilesNamed(key, unmapped(data.unmapped));
  const contents = data.choices.map((choice) => withFilesNamed(key, partsOf(choice.content)));
  return [
    [
      CALLS_COMPLETED,
      [
        {
          episode_id: data.episode_id,
          call_id: data.call_id,
          completed_agent_id: data.agent_id ?? null,
          completed_role: data.role ?? null,
          completed_turn: data.turn ?? null,
          response_id: data.response_id ?? null,
          response_model: data.response_model ?? null,
          policy: data.policy ?? null,
          checkpoint_id: data.checkpoint_id ?? null,
          model_version: data.model_version ?? null,
          prompt_token_ids: data.prompt_token_ids ?? null,
          input_tokens: tokens(data.usage, 'input_tokens', 'prompt_tokens'),
          output_tokens: tokens(data.usage, 'output_tokens', 'completion_tokens'),
          usage: json(data.usage),
          latency_ms: data.latency_ms ?? null,
          cached: data.cached ?? null,
          seed: data.seed ?? null,
          temperature: data.temperature ?? null,
          error: json(data.error),
          completed_seq: data.seq ?? null,
          completed_flags: json(data.flags),
          completed_unmapped: rest.value,
          completed_at: time,
          completed_version: version,
        },
      ],
    ],
    [
      STEPS,
      data.choices.map((choice, i) => ({
        episode_id: data.episode_id,
        call_id: data.call_id,
        candidate: choice.index,
        text: textOf(choice.content),
        content: contents[i]!.value,
        finish_reason: choice.finish_reason ?? null,
        token_ids: choice.token_ids ?? null,
        logprobs: choice.logprobs?.map(asReal) ?? null,
        loss_mask: choice.loss_mask ?? null,
        chosen: choice.chosen ?? null,
        parent_step_id: choice.parent_step_id ?? null,
        version,
      })),
    ],
    ...rest.bodies,
    ...contents.flatMap(({ bodies }) => bodies),
    ...agentStub(data.episode_id, data.agent_id),
  ];
};

/** The column holds 32-bit floats and refuses what is too small for one. */
const asReal = (value: number): number => (Math.abs(value) < 1.2e-38 ? 0 : value);

function tokens(usage: Record<string, unknown> | null | undefined, ...names: readonly string[]): number | null {
  for (const name of names) {
    const value = usage?.[name];
    if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
  }
  return null;
}
