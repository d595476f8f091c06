import { namedFiles } from '../../ingest/log/split.ts';
import { partsOf, textOf } from './projection.ts';
import { groupOfEach, table } from './table.ts';

/** The column holds 32-bit floats and refuses what is too small for one. */
const asReal = (value: number): number => (Math.abs(value) < 1.2e-38 ? 0 : value);

export const steps = table('steps', 'Candidate outputs of model calls.', {
  keys: { episode_id: 'text', call_id: 'text', candidate: ['integer', 'index'] },
  groups: [
    groupOfEach(
      'generation.completed',
      ({ data: { episode_id, call_id, choices } }) => choices.map((choice) => ({ ...choice, episode_id, call_id })),
      {
        columns: {
          text: ['text', ({ content }) => textOf(content)],
          content: ['json', ({ content }) => partsOf(content), namedFiles],
          finish_reason: 'text',
          token_ids: 'integer[]',
          logprobs: ['real[]', ({ logprobs }) => logprobs?.map(asReal)],
          loss_mask: 'smallint[]',
          chosen: 'boolean',
          parent_step_id: 'text',
        },
      },
    ),
  ],
});
