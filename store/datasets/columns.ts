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

/** One message (alias `m`) as JSON text: role and content, its name if it has one, then its other members by name. */
const MESSAGE = `'{"role":' || (m.message -> 'role')::text || ',"content":' || coalesce((m.message -> 'content')::text, 'null') ||
      case when m.message ->> 'name' is null then '' else ',"name":' || (m.message -> 'name')::text end || coalesce((
        select string_agg(',' || to_json(o.key)::text || ':' || o.value::text, '' order by o.key collate "C")
        from json_each(m.message) o where o.key not in ('role', 'content', 'name')), '') || '}'`;

/** The key of an episode's events, of the rows of a table. */
const keyOf = (alias: string) => `'e/' || ${alias}.episode_id`;

/** The input messages of a call (alias `c`) as JSON text; null where the call names none. */
export const PROMPT = `(select '[' || coalesce(string_agg(${MESSAGE}, ',' order by m.place), '') || ']'
      from troupe.messages_of(${keyOf('c')}, c.context) m having c.context is not null)`;

/** Tool definitions as JSON text: those of the call, else those of its agent. */
const TOOLS = 'coalesce(c.tools, a.tools)::text';

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
  { name: 'system', kind: 'text', sql: 'a.system_instructions' },
  { name: 'tools', kind: 'text', sql: TOOLS },
  { name: 'ground_truth', kind: 'text', sql: 't.ground_truth::text' },
  { name: 'reward', kind: 'float8', sql: 'reward' },
  { name: 'advantage', kind: 'float8', sql: 'advantage' },
  { name: 'reason', kind: 'text', sql: 'reason' },
];

/** The names of the messages that a call read, in their order. */
const INPUT = `(select coalesce(array_agg(m.hash order by m.place), '{}') from troupe.messages_of(${keyOf('c')}, c.context) m having c.context is not null)`;

/** The columns of a step inside the `steps` of an episode; its input names messages of the column `messages` by their hash. */
const STEP_JSON = `'{"step_id":' || to_json(${fieldSql('step_id')})::text || ',"call_id":' || to_json(s.call_id)::text ||
      ',"candidate":' || s.candidate || ',"agent":' || ${j(fieldSql('agent'))} || ',"role":' || ${j(fieldSql('role'))} ||
      ',"turn":' || ${j(fieldSql('turn'))} || ',"chosen":' || ${j('s.chosen')} || ',"checkpoint_id":' || ${j('c.checkpoint_id')} ||
      ',"input":' || ${j(INPUT)} || ',"system":' || ${j('a.system_instructions')} || ',"tools":' || coalesce(${TOOLS}, 'null') || ',"text":' || ${j('s.text')} || ',"content":' || coalesce(s.content::text, 'null') ||
      ',"prompt_token_ids":' || ${j('c.prompt_token_ids')} || ',"token_ids":' || ${j('s.token_ids')} ||
      ',"logprobs":' || ${j('s.logprobs')} || ',"loss_mask":' || ${j('s.loss_mask')} ||
      ',"reward":' || coalesce(to_json(@reward)::text, 'null') || ',"advantage":' || coalesce(to_json(@advantage)::text, 'null') ||
      ',"reason":' || coalesce(to_json(@reason)::text, 'null') || '}'`;

/** Each message that a call of the episode read, by its name. */
const MESSAGES = `(select '{' || coalesce(string_agg(to_json(m.hash)::text || ':' || ${MESSAGE}, ',' order by m.hash), '') || '}'
      from troupe.messages_read(${keyOf('e')}, array(select c.context from facts.calls c where c.episode_id = e.episode_id)) m)`;

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
  { name: 'ground_truth', kind: 'text', sql: 't.ground_truth::text' },
  { name: 'messages', kind: 'text', sql: MESSAGES },
  { name: 'steps', kind: 'text', sql: STEP_JSON },
];

export const COLUMNS: Readonly<Record<Unit, readonly Column[]>> = {
  step: STEP,
  group: [{ name: 'group_index', kind: 'int4', sql: 'group_index' }, ...STEP],
  episode: EPISODE,
};
