import { namedTexts } from '../../ingest/log/split.ts';
import { textOf, unmapped } from './projection.ts';
import { group, groupOfEach, table } from './table.ts';

export const agents = table('agents', 'Members of the team in an episode.', {
  keys: { episode_id: 'text', agent_id: 'text' },
  groups: [
    group('agent.defined', {
      columns: {
        name: 'text',
        role: 'text',
        parent_agent_id: 'text',
        depth: 'integer',
        model: 'text',
        policy: 'text',
        system_instructions: ['text', ({ system_instructions }) => textOf(system_instructions), namedTexts],
        tools: 'json',
        params: 'json',
        unmapped: ['json', unmapped],
      },
    }),
    // Members that act without having been defined still appear.
    groupOfEach(
      ['generation.requested', 'generation.completed', 'tool.called', 'control.transferred'],
      ({ data }) => {
        const agent_id = 'to_agent' in data ? data.to_agent : (data as { readonly agent_id?: string | null }).agent_id;
        return agent_id ? [{ episode_id: data.episode_id, agent_id }] : [];
      },
      { version: null, columns: {} },
    ),
  ],
});
