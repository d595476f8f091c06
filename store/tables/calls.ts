import { GATEWAY } from '../../ingest/events/gateway-events.ts';
import { contextNamed, contextOf, namedFiles } from '../../ingest/log/split.ts';
import { unmapped } from './projection.ts';
import { group, table } from './table.ts';

/** The name of the last message that the call read: the messages are a chain of bodies. */
function contextStored(key: string, input: readonly unknown[] | string | null) {
  const named = contextNamed(input);
  if (named !== null || input === null) return { value: named, bodies: [] };
  const { hash, bodies } = contextOf(key, input as readonly unknown[]);
  return { value: hash, bodies };
}

/** The gateway of early 0.1.0 recorded the headers Troupe-Task and Troupe-Group as fields without a column. */
const fromHeader = (source: string, value: unknown): string | null =>
  source === GATEWAY && typeof value === 'string' ? value : null;

function tokens(usage: Record<string, unknown> | null | undefined, ...names: readonly string[]): number | null {
  for (const name of names) {
    const value = usage?.[name];
    if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
  }
  return null;
}

export const calls = table('calls', 'Model calls: a call with n choices has n steps.', {
  keys: { episode_id: 'text', call_id: 'text' },
  groups: [
    group('generation.requested', {
      version: 'requested_version',
      columns: {
        requested_agent_id: ['text', 'agent_id'],
        requested_role: ['text', 'role'],
        requested_turn: ['integer', 'turn'],
        task_id: ['text', (data, { source }) => data.task_id ?? fromHeader(source, data.unmapped?.task_id)],
        group_id: ['text', (data, { source }) => data.group_id ?? fromHeader(source, data.unmapped?.group_id)],
        model: 'text',
        params: 'json',
        context: ['uuid', 'input', contextStored],
        tools: 'json',
        parent_call_id: 'text',
        copied: 'boolean',
        requested_seq: ['bigint', 'seq'],
        requested_unmapped: ['json', unmapped, namedFiles],
        requested_at: ['timestamptz', 'event.time'],
      },
    }),
    group('generation.completed', {
      version: 'completed_version',
      columns: {
        completed_agent_id: ['text', 'agent_id'],
        completed_role: ['text', 'role'],
        completed_turn: ['integer', 'turn'],
        response_id: 'text',
        response_model: 'text',
        policy: 'text',
        checkpoint_id: 'text',
        model_version: 'text',
        prompt_token_ids: 'integer[]',
        input_tokens: ['bigint', ({ usage }) => tokens(usage, 'input_tokens', 'prompt_tokens')],
        output_tokens: ['bigint', ({ usage }) => tokens(usage, 'output_tokens', 'completion_tokens')],
        usage: 'json',
        latency_ms: 'double precision',
        cached: 'boolean',
        seed: 'bigint',
        temperature: 'double precision',
        error: 'json',
        completed_seq: ['bigint', 'seq'],
        completed_flags: ['json', 'flags'],
        completed_unmapped: ['json', unmapped, namedFiles],
        completed_at: ['timestamptz', 'event.time'],
      },
    }),
  ],
});
