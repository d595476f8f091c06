/**
 * The columns of a dataset for each unit, and the SQL that gives them. Null stays null: an unknown reward is not 0, an unknown mask
 * is no mask. Text is as the tables hold it (text that PostgreSQL cannot hold keeps the documented escape).
 */
import { fieldSql } from '../select.ts';

export type Unit = 'step' | 'episode' | 'group';

/** What COPY sends and what Arrow gets: `mask` is smallint[] on the wire and list<int8> in the file. */
export type ColumnKind =
  | 'text'
  | 'int4'
  | 'int8'
  | 'float4'
  | 'float8'
  | 'bool'
  | 'timestamptz'
  | 'int4[]'
  | 'int2[]'
  | 'float4[]'
  | 'mask'
  | 'bytes';

export type Column = { readonly name: string; readonly kind: ColumnKind; readonly sql: string };

/** JSON text of an expression, or the JSON null. */
const j = (sql: string) => `coalesce(to_json(${sql})::text, 'null')`;

/**
 * One message body (alias `b`) as JSON text, as it was sent: a plain content is a string, parts are a list, and members without a
 * column of their own stand in `content` beside `parts`.
 */
const MESSAGE = `'{"role":' || to_json(b.role)::text || ',"content":' ||
      case when json_typeof(b.content) = 'array' then b.content::text
           when json_typeof(b.content) = 'object' and json_typeof(b.content -> 'parts') = 'array' then (b.content -> 'parts')::text
           else ${j('b.text')} end ||
      case when b.name is null then '' else ',"name":' || to_json(b.name)::text end ||
      case when json_typeof(b.content) = 'object' then coalesce((
        select string_agg(',' || to_json(m.key)::text || ':' || m.value::text, '' order by m.key collate "C")
        from json_each(b.content) m where m.key <> 'parts'), '') else '' end || '}'`;

/**
 * The input messages of a call (alias `c`) as JSON text; null where the call names none, or one of them is not in the tables.
 * `bodies` gives `hash` and `message` of those that it may name.
 */
const promptFrom = (bodies: string) =>
  `(select case when count(m.message) = cardinality(c.input) then '[' || coalesce(string_agg(m.message, ',' order by i.place), '') || ']' end
      from unnest(c.input) with ordinality as i (hash, place) left join ${bodies} where c.input is not null)`;

/** Each body is looked up by its key. */
export const PROMPT = promptFrom(
  `lateral (select ${MESSAGE} as message from facts.message_bodies b where b.episode_id = c.episode_id and b.hash = i.hash offset 0) m on true`,
);

/** The bodies of an episode are read once, by `BODIES`, and shared by its calls. */
export const PROMPT_FROM_BODIES = promptFrom(
  'unnest(bodies.hashes, bodies.messages) as m (hash, message) on m.hash = i.hash',
);
export const BODIES = `(select array_agg(b.hash) as hashes, array_agg(${MESSAGE}) as messages
      from facts.message_bodies b where b.episode_id = e.episode_id offset 0)`;

const STEP: readonly Column[] = [
  { name: 'task_id', kind: 'text', sql: 'e.task_id' },
  { name: 'episode_id', kind: 'text', sql: 'e.episode_id' },
  { name: 'group_id', kind: 'text', sql: 'e.group_id' },
  { name: 'call_id', kind: 'text', sql: 's.call_id' },
  { name: 'candidate', kind: 'int4', sql: 's.candidate' },
  { name: 'step_id', kind: 'text', sql: fieldSql('step_id') },
  { name: 'agent', kind: 'text', sql: fieldSql('agent') },
  { name: 'role', kind: 'text', sql: fieldSql('role') },
  { name: 'turn', kind: 'int4', sql: fieldSql('turn') },
  { name: 'checkpoint_id', kind: 'text', sql: 'c.checkpoint_id' },
  { name: 'prompt_token_ids', kind: 'int4[]', sql: 'c.prompt_token_ids' },
  { name: 'token_ids', kind: 'int4[]', sql: 's.token_ids' },
  { name: 'logprobs', kind: 'float4[]', sql: 's.logprobs' },
  { name: 'loss_mask', kind: 'mask', sql: 's.loss_mask' },
  { name: 'text', kind: 'text', sql: 's.text' },
  { name: 'content', kind: 'text', sql: 's.content::text' },
  { name: 'prompt', kind: 'text', sql: 'c.prompt' },
  { name: 'reward', kind: 'float8', sql: 'reward' },
  { name: 'advantage', kind: 'float8', sql: 'advantage' },
  { name: 'reason', kind: 'text', sql: 'reason' },
];

/** What a step says inside the `steps` of an episode; its input names messages of the column `messages` by their hash. */
const STEP_JSON = `'{"step_id":' || to_json(${fieldSql('step_id')})::text || ',"call_id":' || to_json(s.call_id)::text ||
      ',"candidate":' || s.candidate || ',"agent":' || ${j(fieldSql('agent'))} || ',"role":' || ${j(fieldSql('role'))} ||
      ',"turn":' || ${j(fieldSql('turn'))} || ',"chosen":' || ${j('s.chosen')} || ',"checkpoint_id":' || ${j('c.checkpoint_id')} ||
      ',"input":' || ${j('c.input')} || ',"text":' || ${j('s.text')} || ',"content":' || coalesce(s.content::text, 'null') ||
      ',"prompt_token_ids":' || ${j('c.prompt_token_ids')} || ',"token_ids":' || ${j('s.token_ids')} ||
      ',"logprobs":' || ${j('s.logprobs')} || ',"loss_mask":' || ${j('s.loss_mask')} ||
      ',"reward":' || coalesce(to_json(@reward)::text, 'null') || ',"advantage":' || coalesce(to_json(@advantage)::text, 'null') ||
      ',"reason":' || coalesce(to_json(@reason)::text, 'null') || '}'`;

const MESSAGES = `(select '{' || coalesce(string_agg(to_json(b.hash)::text || ':' || ${MESSAGE}, ',' order by b.hash), '') || '}'
      from facts.message_bodies b where b.episode_id = e.episode_id)`;

const EPISODE: readonly Column[] = [
  { name: 'task_id', kind: 'text', sql: 'e.task_id' },
  { name: 'episode_id', kind: 'text', sql: 'e.episode_id' },
  { name: 'group_id', kind: 'text', sql: 'e.group_id' },
  { name: 'team_id', kind: 'text', sql: 'e.team_id' },
  { name: 'attempt', kind: 'int4', sql: 'e.attempt' },
  { name: 'outcome', kind: 'text', sql: 'e.outcome' },
  { name: 'answer', kind: 'text', sql: 'e.answer' },
  { name: 'reward', kind: 'float8', sql: 'e.reward' },
  { name: 'started_at', kind: 'timestamptz', sql: 'e.started_at' },
  { name: 'finished_at', kind: 'timestamptz', sql: 'e.finished_at' },
  { name: 'messages', kind: 'text', sql: MESSAGES },
  { name: 'steps', kind: 'text', sql: STEP_JSON },
];

export const COLUMNS: Readonly<Record<Unit, readonly Column[]>> = {
  step: STEP,
  group: [{ name: 'group_index', kind: 'int4', sql: 'group_index' }, ...STEP],
  episode: EPISODE,
};
