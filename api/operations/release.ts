/** Releasing checkpoints. */
import { Type } from 'typebox';
import { reason } from './fields.ts';
import { operation, written } from './operation.ts';

export const release = operation({
  name: 'release',
  notes:
    'Processes that serve the policies switch within a second; `troupe rollback` restores the previous release. With `upstream:MODEL` the model that the route of the policy falls back to answers again.',
  examples: [
    { policies: { solver: 'ab12cd34ef56ab78' }, reason: 'better on held-out tasks' },
    { policies: { solver: 'upstream:hosted/gpt' } },
  ],
  input: {
    policies: written(
      Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 512, pattern: '^[^\\u0000]*$' }), {
        minProperties: 1,
        description: 'the checkpoint of each policy, such as team=ab12cd34ef56ab78, or team=upstream:MODEL',
      }),
      {
        position: true,
        value: 'policy=checkpoint',
        repeated: true,
        parse: (text) => {
          const [, policy, checkpoint] = /^([^=]+)=(.+)$/.exec(text) ?? [];
          if (policy === undefined) throw new Error('should be POLICY=CHECKPOINT, such as solver=ab12cd34ef56ab78');
          return { [policy]: checkpoint };
        },
      },
    ),
    reason: Type.Optional(reason),
  },
  output: Type.Object({ release_id: Type.String(), policies: Type.Record(Type.String(), Type.String()) }),
  scope: 'train',
  changes: true,
  run: async () => (await import('./release/run.ts')).release,
  text: async () => (await import('./release/text.ts')).released,
});
