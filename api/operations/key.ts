/** API keys: made, shown once, listed, revoked. */
import { Type } from 'typebox';
import { SCOPES } from '../../store/keys/api-key.ts';
import { lifetimeOf } from './durations.ts';
import { named, nullable } from './fields.ts';
import { listInput, listOf } from './lists.ts';
import { defaulted, language, operation, written } from './operation.ts';

const does = () => import('./key/run.ts');
const prints = () => import('./key/text.ts');

export const create = operation({
  name: 'key.create',
  about: 'create a key; it is shown only once',
  notes:
    'ingest: events and the gateway · read: lists, episodes, the page · admin: everything. Until the first key is created, only this machine may connect, and it needs no key.',
  examples: [
    { name: 'agents', scopes: ['ingest'] },
    { name: 'dashboard', scopes: ['read', 'sql'], expires: '4w' },
  ],
  input: {
    scopes: written(
      Type.Array(Type.Enum([...SCOPES]), {
        ...{ minItems: 1, uniqueItems: true },
        description: `permissions, separated by commas: ${SCOPES.join(', ')}`,
      }),
      {
        value: 'list',
        parse: (text) => [...new Set(text.split(',').map((scope) => scope.trim()))].filter((scope) => scope !== ''),
      },
    ),
    name: Type.String({
      maxLength: 200,
      pattern: '^\\s*[^\\s\\u0000]([^\\u0000]*)$',
      description: 'purpose of the key',
    }),
    expires: defaulted(
      language(Type.String({ description: 'lifetime: 90d, 12h, 4w, 1y, or never' }), lifetimeOf),
      '90d',
    ),
  },
  output: Type.Object({
    key: Type.String({ description: 'the key; nothing shows it again' }),
    lookup: Type.String({ description: 'the part that lists show' }),
    name: Type.String(),
    scopes: Type.Array(Type.String()),
    expires_at: nullable(Type.String()),
  }),
  scope: 'admin',
  changes: true,
  run: async () => (await does()).create,
  text: async () => (await prints()).created,
});

export const list = operation({
  name: 'key.list',
  about: 'list the keys, without their secrets',
  examples: [{}],
  input: listInput(['-created_at', 'name', 'lookup']),
  output: listOf(
    Type.Object({
      lookup: Type.String(),
      name: Type.String(),
      scopes: Type.Array(Type.String()),
      created_at: Type.String(),
      expires_at: nullable(Type.String()),
      revoked_at: nullable(Type.String()),
      state: Type.Enum(['live', 'expired', 'revoked']),
    }),
  ),
  scope: 'admin',
  changes: false,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});

export const revoke = operation({
  name: 'key.revoke',
  about: 'revoke a key: every process refuses it within 30 seconds',
  examples: [{ key: '04kXZqQ2mB7' }, { key: 'dashboard' }],
  input: { key: named('the part that `key list` shows, or its name') },
  output: Type.Object({ lookup: Type.String(), name: Type.String(), state: Type.String() }),
  scope: 'admin',
  changes: true,
  run: async () => (await does()).revoke,
  text: async () => (await prints()).revoked,
});
