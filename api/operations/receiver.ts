/** Receivers of the setting `notify`: who is notified of runs and schedules. */
import { Type } from 'typebox';
import { named, nullable } from './fields.ts';
import { listInput, listOf } from './lists.ts';
import { operation } from './operation.ts';

const does = () => import('./receiver/run.ts');
const prints = () => import('./receiver/text.ts');

export const list = operation({
  name: 'receiver.list',
  about: 'list who is notified of runs and schedules, and what did not arrive',
  examples: [{}],
  input: listInput(['name', 'sent', 'last_sent_at']),
  output: listOf(
    Type.Object({
      name: Type.String(),
      on: Type.Array(Type.String(), { description: 'what it is notified of' }),
      sent: Type.Integer(),
      last_sent_at: nullable(Type.String()),
      given_up: Type.Integer({ description: 'messages that were too old once they could be sent, or refused' }),
      failing: nullable(
        Type.Object({
          since: Type.String(),
          attempts: Type.Integer(),
          next_at: Type.String(),
          error: Type.String(),
        }),
      ),
    }),
  ),
  scope: 'read',
  changes: false,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});

export const test = operation({
  name: 'receiver.test',
  about: 'send one test message to a receiver',
  examples: [{ name: 'ops' }],
  input: { name: named('a receiver of the setting notify') },
  output: Type.Object({ name: Type.String(), sent: Type.Boolean() }),
  scope: 'train',
  changes: true,
  run: async () => (await does()).test,
  text: async () => (await prints()).tested,
});
