/** The pages of reference that are made from the code: events, errors, methods, SQL. Each is a pure function of what it describes. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { judgeReads, judgeReadsText, parametersOf } from '../api/operations/method/words.ts';
import { ERRORS, type ErrorCode, EXIT, type RefusalCode } from '../errors.ts';
import {
  Choice,
  Content,
  type EventName,
  keyOf,
  Matrix,
  Message,
  Part,
  Target,
  typeOf,
  VOCABULARY,
} from '../ingest/events/events.ts';
import { newestVersion } from '../ingest/events/upcast/catalogue.ts';
import type { ImportReport } from '../ingest/files/import.ts';
import { FORMATS } from '../ingest/formats/catalogue.ts';
import { VIEW_SCHEMAS } from '../migrations/views.ts';
import type { Session } from '../store/db/pool.ts';
import { NAMED_FEEDBACK } from '../store/evaluate/judging/named-feedback.ts';
import { METHODS } from '../store/evaluate/methods/find.ts';
import type { Method, MethodKind } from '../store/evaluate/methods/method.ts';
import { LOSS_METHODS } from '../trainer/model/losses/catalogue.ts';
import { viewTimes } from './view-times.ts';

const NOTE = '<!-- Made from the code by `npm run docs`. Change the code, not this page. -->';

export const page = (...parts: readonly string[]): string => `${[NOTE, ...parts].join('\n\n')}\n`;
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
/** Columns as wide as their widest cell, which is how the formatter of this repository writes a table. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map(cell));
  const widths = head.map((_, i) => Math.max(3, ...cells.map((row) => [...row[i]!].length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((text, i) => text + ' '.repeat(widths[i]! - [...text].length)).join(' | ')} |`;
  return [line(cells[0]!), line(widths.map((width) => '-'.repeat(width))), ...cells.slice(1).map(line)].join('\n');
}

/** The little of JSON Schema that the vocabulary uses. */
type Schema = {
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
};

const SHAPES: readonly (readonly [string, Schema, string])[] = [
  ['content', Content as Schema, 'The content of a message: plain text, or a list of parts.'],
  [
    'part',
    Part as Schema,
    'One piece of a message, by `type`: `text` with `content`, or with `text` as OpenAI writes it; `reasoning` with `content`; `tool_call` with `id`, `name` and `arguments`; `tool_call_response` with `id` and `response`; images and files as above. Open: any other type, and any other field, is kept.',
  ],
  ['message', Message as Schema, 'One message of a context, as it was sent.'],
  ['choice', Choice as Schema, 'One candidate output of a model call: it becomes one step.'],
  ['target', Target as Schema, 'Where feedback or an artifact points.'],
  ['matrix', Matrix as unknown as Schema, 'Programs against tests, as far as they were run.'],
];

/** A type in words. Named shapes go by their name. */
function typeName(schema: Schema, inside?: string): string {
  const text = JSON.stringify(schema);
  const shape = SHAPES.find(([name, known]) => name !== inside && JSON.stringify(known) === text);
  if (shape) return shape[0];
  if (schema.anyOf) {
    const kinds = schema.anyOf.filter((kind) => kind.type !== 'null').map((kind) => typeName(kind));
    return [...new Set(kinds)].join(' or ');
  }
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(' ');
  if (schema.const !== undefined) return `\`${schema.const}\``;
  if (schema.patternProperties) return 'object';
  if (schema.type === 'array') return schema.items ? `list of ${typeName(schema.items)}` : 'list';
  if (schema.type === 'string') return 'text';
  return schema.type ?? 'any JSON';
}

/** The description stands on the field, or on the kind beside null. */
export const meaningOf = (schema: Schema): string =>
  schema.description ?? schema.anyOf?.find((kind) => kind.description)?.description ?? '';

function fieldsTable(schema: Schema, leftOut: ReadonlySet<string> = new Set()): string {
  const rows = Object.entries(schema.properties ?? {})
    .filter(([name]) => !leftOut.has(name))
    .map(([name, field]) => [
      `\`${name}\``,
      typeName(field),
      schema.required?.includes(name) ? 'yes' : '',
      meaningOf(field),
    ]);
  return table(['field', 'type', 'required', 'meaning'], rows);
}

/** docs/events.md: every event with its key and fields. */
export function eventsPage(): string {
  const events = Object.entries(VOCABULARY) as unknown as [EventName, Schema][];
  const common = events.reduce<string[]>(
    (shared, [, schema]) => shared.filter((name) => name in (schema.properties ?? {})),
    Object.keys(events[0]![1].properties ?? {}),
  );
  return page(
    '# Events',
    'An event is a [CloudEvents 1.0](https://cloudevents.io) envelope (`specversion`, `id`, `source`, `type`, `time`) around the data described here. ' +
      '`time` is RFC 3339, or absent if unknown. An optional field may be null, which means unknown; null is never 0. ' +
      'Other fields are stored with the event. A type ends with its version; events of older versions are accepted and readable forever.',
    'The **key** is what the event is about: events of one key stay in order, and (key, source, id) is the identity of an event. ' +
      'Sent again with the same body, an event is a duplicate; with another body it is refused as `id_conflict`.',
    '## Fields every event may carry',
    fieldsTable({
      ...events[0]![1],
      properties: Object.fromEntries(common.map((name) => [name, events[0]![1].properties![name]!])),
    }),
    '## The events',
    ...events.flatMap(([name, schema]) => [
      `### ${name}`,
      `${schema.description ?? ''} Type \`${typeOf(name, newestVersion(name))}\`, key ${keyText(name, schema)}.`,
      fieldsTable(schema, new Set(common)),
    ]),
    '## Images and files',
    'Parts hold images and files as the interfaces write them: a data URL in `image_url`, `input_image` or `file_data`; base64 beside a media type in ' +
      '`input_audio`, `image`, `document`, `inline_data` or `blob`. Above 1024 bytes they are stored once in the project, whoever repeats them, and the event ' +
      'names them: its data, digest and identity are those of the whole event, and an export has it whole. The views of messages, steps, tool calls and ' +
      'observations show `{"artifact_id", "media_type", "size"}` in the place of the data URL or base64; the id is the SHA-256 of the bytes. ' +
      'Base64 that would not be encoded the same again (base64url, line breaks, invalid characters) stays in its part.',
    '`traj.artifacts` lists them by media type, and `traj.messages.artifacts` names those that a message shows:',
    '```sql',
    [
      'select a.media_type, a.size, m.episode_id, m.message_id',
      'from traj.artifacts a join traj.messages m on m.episode_id = a.episode_id and a.artifact_id = any(m.artifacts)',
      "where a.media_type like 'image/%';",
    ].join('\n'),
    '```',
    'Base64 that stays is listed there with the flag `unreadable_blob`. `GET /v1/artifacts/{artifact_id}` returns the bytes, and the page shows images.',
    '## Shapes inside events',
    ...SHAPES.flatMap(([name, schema, about]) => [
      `### ${name}`,
      about,
      schema.properties ? fieldsTable(schema) : `Either ${typeName(schema, name)}.`,
      ...(name === 'matrix' ? matrixMembers(schema) : []),
    ]),
  );
}

function matrixMembers(matrix: Schema): string[] {
  return ['programs', 'tests'].flatMap((side) => [
    `One of \`${side}\`:`,
    fieldsTable(matrix.properties![side]!.items!),
  ]);
}

/** The key as `keyOf` makes it, with field names in the place of values. */
function keyText(name: EventName, schema: Schema): string {
  if (name === 'feedback.recorded')
    return '`e/<target.episode_id>` where the target is in an episode, else `e/`, `t/`, `g/` or `c/` and `<target.id>` by the kind of target, `x/<target.id>` for a foreign one';
  if (name === 'record.amended') return '`<key>`: that of the event it corrects';
  const filled = (fields: readonly string[]) => Object.fromEntries(fields.map((field) => [field, `<${field}>`]));
  const least = keyOf(name, filled(schema.required ?? []));
  const most = keyOf(name, filled(Object.keys(schema.properties ?? {})));
  return least === most ? `\`${least}\`` : `\`${most}\`, or \`${least}\` where that is unknown`;
}

const MEANING: Readonly<Record<ErrorCode, string>> = {
  usage: 'An option, field or parameter is missing or wrong.',
  config_invalid: 'A setting has an invalid value; the message names the setting and its origin.',
  not_found: 'Nothing has that name or id.',
  conflict: 'It contradicts existing data: another body under the same id, a changed migration, a second rebuild.',
  input_refused:
    'Some records were refused; each refusal has `field`, `expected` and `got`. The valid records were stored.',
  context_length_exceeded:
    "The prompt has more tokens than the context of the policy's model. Clients recognise this code and message, and shorten the conversation.",
  too_large: 'The body or record exceeds the size limit.',
  unsupported_media: 'The content type or encoding is not supported.',
  unauthorized: 'The API key is missing, unknown, revoked, expired or malformed.',
  scope_missing: 'The API key lacks the scope that the message names.',
  forbidden_origin: 'The request has a foreign Host or Origin header.',
  unreachable: 'A database or a sampling process does not answer.',
  upstream_failed:
    'A configured model server or receiver of notifications could not be reached, or its address is not allowed.',
  upstream_timeout: 'A configured model server did not answer in time.',
  busy: 'In use, or too many requests are waiting; try again.',
  disk_full:
    'The disk of PostgreSQL or of the home is full. Nothing was half written; Troupe retries and continues once there is space.',
  home_unwritable: 'The home folder is not writable; the message gives the reason.',
  port_taken: 'Another program listens on the port.',
  schema_newer: 'A newer Troupe made the database.',
  schema_missing: 'The database lacks migrations, and this command may not apply them.',
  platform_unsupported: 'Troupe has no binaries for this system.',
  sql_refused: 'The query is not a single read-only statement (SELECT, VALUES or WITH).',
  sql_failed: 'PostgreSQL refused the query; the message is from PostgreSQL.',
  sql_timeout: 'The query exceeded its time limit.',
  method_unknown: 'No method has that name; the message suggests the nearest ones.',
  method_input: 'The input or a parameter of a method is invalid.',
  recipe_invalid: 'A field of the recipe is invalid.',
  dataset_empty: 'The recipe finds no rows, and empty datasets were not allowed.',
  plan_invalid: 'A field of the plan is invalid.',
  plan_blocked: 'The run was not started because `troupe plan check` finds the problem that the message names.',
  dataset_damaged: 'A file of a dataset has changed since it was written.',
  model_unsupported: 'The family or a part of the model is not supported.',
  checkpoint_damaged: 'A checkpoint is incomplete, or a file has changed since it was written.',
  training_failed: 'Training cannot continue: unusable rows, or a loss that is not finite.',
  log_truncated: 'Retention removed records of the topic before they were read; the message says how many.',
  log_replaced:
    'Another topic or broker answers under the name of the log. Nothing is written to it or read from it. Correct the settings, or run `troupe log adopt`.',
  log_repartitioned:
    'The partitions of a topic have changed since it was first read, so the order for a key would be lost.',
  fenced: 'Another worker has taken over the job.',
  diverged: 'A team that replays an episode made a different call than the recorded one.',
  interrupted: 'A signal or a person stopped it.',
  internal: 'A bug in Troupe.',
};

const REFUSED: Readonly<Record<RefusalCode, string>> = {
  bad_json: 'not JSON',
  bad_shape: 'not the object or list that was expected',
  bad_type: 'a missing field, or a field of the wrong type',
  bad_identifier: 'an id, name or key that is empty, too long, or contains U+0000 or a lone surrogate',
  bad_number: 'a number that a 64-bit float cannot hold, or that is out of bounds',
  bad_time: 'a time that is not RFC 3339',
  too_deep: 'nested too deeply',
  too_large: 'larger than one record may be',
  unknown_event: 'an event type that is not in the vocabulary',
  unknown_version: 'an event type in a version that only a newer Troupe knows; in the topic of Kafka it waits for one',
  unknown_format: 'a format that no importer recognises',
  id_conflict: 'the same id with another body; the first is kept',
  bad_reference: 'a reference to something that does not exist',
  erased: 'about erased data; nothing of it is stored',
  pruned: 'about pruned data; restore its archive, then replay the dead letter',
};

/** docs/errors.md: every code with its status, exit code and meaning. */
export function errorsPage(): string {
  return page(
    '# Errors',
    'Over HTTP an error is `application/problem+json` with its `code`. The command line prints one line (with `--json` one JSON document) and exits with the exit code.',
    '## Codes',
    table(
      ['code', 'HTTP status', 'exit code', 'retry can help', 'meaning'],
      Object.entries(ERRORS).map(([code, { status, exit, retriable }]) => [
        `\`${code}\``,
        String(status),
        String(exit),
        retriable ? 'yes' : '',
        MEANING[code as ErrorCode],
      ]),
    ),
    '## Exit codes',
    table(
      ['exit code', 'name'],
      Object.entries(EXIT).map(([name, code]) => [String(code), name]),
    ),
    '## Refused records',
    'An invalid record is refused alone: the records beside it are stored, its raw bytes become a dead letter, and the refusal names the `field`, and what was `expected` and `got`.',
    table(
      ['code', 'the record has or is'],
      Object.entries(REFUSED).map(([code, meaning]) => [`\`${code}\``, meaning]),
    ),
  );
}

const KINDS: Readonly<Record<MethodKind, string>> = {
  filter: 'Filters: keep or drop, and why',
  score: 'Scores: a number about a trajectory, a group or a text',
  reward: 'Rewards: a number for each candidate',
  credit: 'Credit: a number for each step',
  process: 'Process: what each step or member was worth on the way',
  blame: 'Blame: which agent and step caused a failure, and how accurate the attributions are',
  loss: 'Losses: what training minimises, on plain numbers; their graphs stand beside them',
};

const METHODS_FOLDER = 'store/evaluate/methods';
const METHOD_FILES = new Map(
  readdirSync(join(import.meta.dirname, '..', METHODS_FOLDER)).flatMap((file) => {
    const text = readFileSync(join(import.meta.dirname, '..', METHODS_FOLDER, file), 'utf8');
    return [...text.matchAll(/ = method\(\{\n {2}name: '(\w+)'/g)].map(([, name]) => [name!, file] as const);
  }),
);

/** A loss stands in the file of its graph, which may serve more than one name. */
const LOSS_FILES: Readonly<Record<string, string>> = { agg_loss: 'aggregation', kl_estimators: 'kl' };

/** The file of a method, from the root of the repository. */
export const methodFile = ({ kind, name }: Pick<Method, 'kind' | 'name'>): string => {
  if (kind !== 'loss') return `${METHODS_FOLDER}/${METHOD_FILES.get(name)}`;
  return `trainer/model/losses/${LOSS_FILES[name] ?? name.replaceAll('_', '-').replace(/-loss$/, '')}.ts`;
};

const ALL: readonly Method[] = [...METHODS, ...LOSS_METHODS];

/** docs/methods.md: the catalogue. */
export function methodsPage(): string {
  const kinds = Object.entries(KINDS) as [MethodKind, string][];
  return page(
    '# Methods',
    `${ALL.length} methods, each a pure function; those of a paper are in one file. \`troupe method show NAME\` prints one with the JSON Schema of its input, ` +
      '`troupe method run NAME < input.json` runs it; `troupe method run-lines` runs one a line. **For** says for which teams it is. **Judge reads** says what the judge reads of what is stored before it runs the method; a method without it takes its data from a file only. A method with the parameter `reads` can take, in a judging, the rewards of the reward method of that name in place of the recorded ones. ' +
      '**Source** says how far it was checked against: the code, the text, or a secondary account.',
    ...kinds.flatMap(([kind, title]) => [
      `## ${title}`,
      table(
        ['method', 'result', 'for', 'judge reads', 'parameters', 'source'],
        ALL.filter((method) => method.kind === kind).map((method) => [
          `[\`${method.name}\`](../${methodFile(method)})`,
          method.summary,
          method.teams ?? 'any team',
          judgeReadsText(judgeReads(method)),
          parametersText(parametersOf(method)),
          method.source,
        ]),
      ),
    ]),
    '## What to record for them',
    'Most of what methods need comes with the conversation: rewards, groups, agents, turns, candidates, answers, tool calls, execution matrices. What has no column is feedback of these names (`feedback.recorded`, `name`, on a `target` of this kind). ' +
      'The latest value counts. Where none is recorded, the judge returns a reason instead of a number. Methods that read `reward` of steps and agents read it by another name with the parameter `reward_name`; `troupe judge` and `troupe plan check` name rewards of steps and agents that nothing reads.',
    table(
      ['name', 'target', 'value', 'what it means', 'read by'],
      NAMED_FEEDBACK.map(({ name, target, value, meaning, readers }) => [
        `\`${name}\``,
        target,
        value,
        meaning,
        readers.map((reader) => `\`${reader}\``).join(', '),
      ]),
    ),
  );
}

const parametersText = (params: unknown): string =>
  Object.entries((params ?? {}) as Record<string, unknown>)
    .map(([name, value]) => `\`${name}\` ${JSON.stringify(value)}`)
    .join(', ');

/** docs/sql.md, the facts, and docs/reports.md, the answers: the views of a migrated database, with what the database says about them. */
export async function viewPages(db: Session): Promise<{ readonly sql: string; readonly reports: string }> {
  const { rows: schemas } = await db.query<{ schema: string; about: string }>(
    `select s as schema, obj_description(s::regnamespace, 'pg_namespace') as about from unnest($1::text[]) as s`,
    [VIEW_SCHEMAS],
  );
  const { rows } = await db.query<{
    schema: string;
    view: string;
    about: string;
    column: string;
    type: string;
    note: string | null;
  }>(
    `select c.relnamespace::regnamespace::text as schema, c.relname as view, obj_description(c.oid, 'pg_class') as about,
            a.attname as column, format_type(a.atttypid, a.atttypmod) as type, col_description(c.oid, a.attnum) as note
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
     where c.relnamespace::regnamespace::text = any ($1) and c.relkind = 'v' order by c.oid, a.attnum`,
    [VIEW_SCHEMAS],
  );
  const aboutOf = (name: string): string => schemas.find(({ schema }) => schema === name)!.about;
  const sectionsOf = (name: string): string[] => {
    const columns = rows.filter(({ schema }) => schema === name);
    return [...new Set(columns.map(({ view }) => view))].flatMap((view) => {
      const own = columns.filter((column) => column.view === view);
      const cells = own.map(({ column, type, note }) => [`\`${column}\``, type, note ?? '']);
      return [`## ${name}.${view}`, own[0]!.about, table(['column', 'type', 'note'], cells)];
    });
  };
  return {
    sql: page(
      '# SQL: the facts',
      aboutOf('traj'),
      'The views of schema `traj` show what was recorded and judged; those of schema `report` answer questions about it: [reports](reports.md). [How to ask](queries.md) shows how to query both, and [analysis](analysis.md) has queries to start from. Columns are only ever added; a changed meaning would be a schema `traj2` beside this one.',
      ...sectionsOf('traj'),
    ),
    reports: page(
      '# SQL: the reports',
      aboutOf('report'),
      'The facts behind them are the views of schema `traj`: [SQL](sql.md). [Analysis](analysis.md) shows how to ask each report, and where its answer misleads.',
      ...sectionsOf('report'),
      '## How long a view takes',
      viewTimes.about,
      table(
        ['view', 'rows', 'whole, ms', 'rows of one episode', 'one episode, ms'],
        viewTimes.views.map(({ view, rows, whole_ms, one_episode_rows, one_episode_ms }) =>
          [`\`${view}\``, rows, whole_ms, one_episode_rows ?? '', one_episode_ms ?? ''].map(String),
        ),
      ),
      ...viewTimes.plans,
    ),
  };
}

/** Where a format's fields go, as a dry run of its samples found it: fields that go to the same places share a row. */
export function fieldsOfFormat(name: string, mapping: NonNullable<ImportReport['mapping']>): string {
  const byTarget = new Map<string, string[]>();
  for (const { native, ours } of mapping) byTarget.set(ours, [...(byTarget.get(ours) ?? []), native]);
  const names = (fields: readonly string[]): string => fields.map((field) => `\`${field}\``).join(', ');
  const kept = byTarget.get('') ?? [];
  byTarget.delete('');
  return [
    `## ${name}`,
    FORMATS.find((format) => format.name === name)!.summary,
    [...byTarget].map(([ours, natives]) => `- ${names(natives)}: ${names(ours.split(', '))}`).join('\n'),
    ...(kept.length === 0 ? [] : [`In the kept record alone, or read for what it decides: ${names(kept)}`]),
  ].join('\n\n');
}

/** The page of all formats' fields, from the mapping of each. */
export const fieldsPage = (mappings: ReadonlyMap<string, NonNullable<ImportReport['mapping']>>): string =>
  page(
    '# Where the fields of each format go',
    'What a dry run (`troupe import --dry-run`) finds for the recorded samples of each format: every field of a record is changed, and where the change shows in the events is where the field goes. `[]` are the items of a list. Fields in `unmapped` have no place of their own. The formats themselves are on [their page](formats.md).',
    ...[...mappings].map(([name, mapping]) => fieldsOfFormat(name, mapping)),
  );
