/** What waits to be judged. */
import { Type } from 'typebox';
import { methods } from './judge/methods.ts';
import { operation } from './operation.ts';

export const unjudged = operation({
  name: 'unjudged',
  about: 'list the closed episodes of complete groups that changed since methods last judged them',
  examples: [{ methods: [{ method: 'grpo_advantage' }] }],
  input: { methods },
  output: Type.Object({ episodes: Type.Array(Type.String()) }),
  scope: 'read',
  changes: false,
  body: true,
  large: true,
  run: async () => (await import('./judge/run.ts')).waiting,
  text:
    async () =>
    ({ episodes }) =>
      episodes.join('\n'),
});
