/** Files of recorded work. */
import { existsSync } from 'node:fs';
import { Type } from 'typebox';
import { EXIT, TroupeError } from '../../errors.ts';
import { FORMATS } from '../../ingest/formats/catalogue.ts';
import { nullable } from './fields.ts';
import { defaulted, local, operation, written } from './operation.ts';

const text = Type.String();
const count = Type.Integer();
const Refused = { field: text, code: text, expected: text, got: text };

const imported = operation({
  name: 'import',
  notes:
    'Importing the same again adds nothing. Episodes that came from files alone are closed at the end. The command ends with 3 where something was refused; the rest is kept. Over HTTP the content of one file is the body, and an answer comes when all of it is imported.',
  examples: [{ paths: ['results.json'] }, { paths: ['logs/'], format: 'openai-chat', dry_run: true }],
  input: {
    paths: Type.Optional(
      local(Type.Array(Type.String({ minLength: 1 }), { minItems: 1, description: 'files or folders' }), 'content', {
        position: true,
        value: 'path',
        // Before a project is opened for it.
        parse: (path) => {
          if (existsSync(path)) return path;
          throw new TroupeError('not_found', `There is no file or folder ${path}.`, { got: path });
        },
      }),
    ),
    format: Type.Optional(
      written(
        Type.String({
          ...{ minLength: 1, maxLength: 512 },
          description: `format of the input (default: detected), or the file of your own, such as ./my-format.ts: ${FORMATS.map(({ name }) => name).join(', ')}`,
        }),
        { value: 'name', ownFormat: true },
      ),
    ),
    dry_run: defaulted(
      Type.Boolean({
        description: 'print what would be imported and where each field goes, and change nothing',
      }),
      false,
    ),
  },
  output: Type.Object({
    format: nullable(Type.String({ description: 'the one format, or mixed; null where no file was read' })),
    files: count,
    skipped_files: Type.Array(Type.Object({ file: text, reason: text })),
    events: Type.Object({ received: count, accepted: count, duplicates: count, rejected: count }),
    ...{ episodes: count, tasks: count, agents: count, calls: count, steps: count, tool_calls: count, feedback: count },
    errors: Type.Array(Type.Object({ file: text, line: nullable(count), ...Refused })),
    errors_omitted: Type.Optional(count),
    unread_lines: Type.Optional(Type.Array(Type.Object({ format: text, type: text, lines: count }))),
    mapping: Type.Optional(
      Type.Array(Type.Object({ format: text, native: text, ours: text }), {
        description: 'of a dry run, where each native field goes',
      }),
    ),
    unmapped: Type.Optional(Type.Array(Type.Object({ format: text, field: text, events: count }))),
    stays_open: Type.Array(
      Type.Object({ episode_id: text, field: text, expected: text, got: text }, { additionalProperties: true }),
      { description: 'episodes whose last event gives no valid end' },
    ),
  }),
  scope: 'ingest',
  changes: true,
  long: 'Importing',
  run: async () => (await import('./import/run.ts')).imported,
  text: async () => (await import('./import/text.ts')).text,
  exit: ({ events, errors }) => (events.rejected > 0 || errors.length > 0 ? EXIT.refused : EXIT.done),
});

export { imported as import };
