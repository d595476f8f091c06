import { namedFiles, namedTexts } from '../../ingest/log/split.ts';
import { unmapped } from './projection.ts';
import { group, table } from './table.ts';

export const toolCalls = table('tool_calls', 'Tool calls and what came back.', {
  keys: { episode_id: 'text', tool_call_id: 'text' },
  groups: [
    group('tool.called', {
      version: 'called_version',
      columns: {
        call_id: 'text',
        parent_tool_call_id: 'text',
        tool_index: ['integer', 'index'],
        agent_id: 'text',
        name: 'text',
        type: 'text',
        arguments: 'json',
        arguments_raw: 'text',
        parse_error: 'text',
        turn: 'integer',
        seq: 'bigint',
        called_unmapped: ['json', unmapped, namedFiles],
        called_at: ['timestamptz', 'event.time'],
      },
    }),
    group('tool.returned', {
      version: 'returned_version',
      columns: {
        status: 'text',
        output: ['json', 'output', namedTexts],
        error: 'json',
        duration_ms: 'double precision',
        from_cache: 'boolean',
        truncated: 'boolean',
        returned_flags: ['json', 'flags'],
        returned_seq: ['bigint', 'seq'],
        returned_unmapped: ['json', unmapped, namedFiles],
        returned_at: ['timestamptz', 'event.time'],
      },
    }),
  ],
});
