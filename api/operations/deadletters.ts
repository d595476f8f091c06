/** Dead letters: records that were rejected, with their bytes. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { nullable } from './fields.ts';
import { listInput, listOf } from './lists.ts';
import { defaulted, operation, position } from './operation.ts';

const does = () => import('./deadletters/run.ts');
const prints = () => import('./deadletters/text.ts');

const Letter = {
  dead_letter_id: Type.Integer(),
  endpoint: Type.String({ description: 'endpoint at which it came' }),
  place: nullable(Type.String({ description: 'file and line, item of a request, or position in the log' })),
  code: Type.String(),
  field: Type.String(),
  expected: Type.String(),
  got: Type.String(),
  bytes: Type.Integer(),
  attempts: Type.Integer(),
  first_at: Type.String(),
  last_at: Type.String(),
  replayed_at: nullable(Type.String()),
};
const code = Type.Optional(
  Type.String({ maxLength: 200, pattern: '^[^\\u0000]*$', description: 'only dead letters with this error code' }),
);
const id = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'number of a dead letter' });

export const list = operation({
  name: 'deadletters.list',
  about: 'list dead letters, newest first',
  examples: [{ limit: 5 }, { code: 'unknown_event' }],
  input: { ...listInput(['-dead_letter_id']), code },
  output: listOf(Type.Object(Letter)),
  scope: 'read',
  changes: false,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});

export const show = operation({
  name: 'deadletters.show',
  about: 'show one dead letter with its original bytes',
  examples: [{ id: 12 }],
  input: { id: position(id) },
  output: Type.Object({
    ...Letter,
    raw: nullable(Type.String({ description: 'its bytes as text; null where they are no UTF-8' })),
    raw_base64: nullable(Type.String({ description: 'its bytes, where they are no text' })),
  }),
  scope: 'read',
  changes: false,
  run: async () => (await does()).show,
  text: async () => (await prints()).shown,
});

export const replay = operation({
  name: 'deadletters.replay',
  about: 'ingest rejected records again, once the cause of the rejection is fixed',
  notes: 'A record that is accepted is marked replayed; if any is rejected again, the command exits with 3.',
  examples: [{ id: [12, 13] }, { all: true, code: 'unknown_event' }],
  input: {
    id: Type.Optional(position(Type.Array(id, { description: 'numbers of dead letters' }))),
    all: defaulted(Type.Boolean({ description: 'every dead letter that was not replayed yet' }), false),
    code,
  },
  output: Type.Object({
    tried: Type.Integer(),
    replayed: Type.Array(Type.Integer()),
    refused: Type.Array(Type.Object({ dead_letter_id: Type.Integer(), code: Type.String(), why: Type.String() }), {
      description: 'those that are still refused',
    }),
  }),
  scope: 'admin',
  changes: true,
  run: async () => (await does()).replay,
  text: async () => (await prints()).replayed,
  exit: ({ refused }) => (refused.length > 0 ? EXIT.refused : EXIT.done),
});
