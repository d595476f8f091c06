/**
 * The columns of a dataset for each unit, and the SQL that gives them. Null stays null: an unknown reward is not 0, an unknown mask
 * is no mask. Text is as the tables hold it (text that PostgreSQL cannot hold keeps the documented escape).
 */

import { fieldSql } from '../filter/filter-fields.ts';
import { shownJson, shownText } from '../tables/long-texts.ts';

/** The parts of a dataset. */
export type SplitName = 'train' | 'held_out' | 'validation' | 'test';

export type Unit = 'step' | 'episode' | 'group' | 'pair' | 'triplet' | 'branch';

/** Units whose rows are whole episodes. */
export const isWhole = (unit: Unit): boolean => unit === 'episode' || unit === 'triplet';

/** Units whose rows have several steps, so that columns of a single step do not describe the row. */
export const hasSteps = (unit: Unit): boolean => isWhole(unit) || unit === 'branch';

/**
 * What COPY sends and what Arrow gets: `mask` is smallint[] on the wire and list<int8> in the file. The last five are JSON text on the wire
 * and lists of structs in the file, see `nested-columns.ts`.
 */
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
  | 'bytes'
  | 'messages'
  | 'named_messages'
  | 'tools'
  | 'steps'
  | 'answers'
  | 'text[]'
  | 'float8[]'
  | 'bool[]';

export type DatasetColumn = { readonly name: string; readonly kind: ColumnKind; readonly sql: string };

/** JSON text of an expression, or the JSON null. */
const j = (sql: string) => `coalesce(to_json(${sql})::text, 'null')`;

/** One message (alias `m`) as JSON text: role and content, its name if it has one, then its other members by name. */
const MESSAGE = `'{"role":' || (m.message -> 'role')::text || ',"content":' || coalesce((m.message -> 'content')::text, 'null') ||
      case when m.message ->> 'name' is null then '' else ',"name":' || (m.message -> 'name')::text end || coalesce((
        select string_agg(',' || to_json(o.key)::text || ':' || o.value::text, '' order by o.key collate "C")
        from json_each(m.message) o where o.key not in ('role', 'content', 'name')), '') || '}'`;

/** The key of an episode's events, of the rows of a table. */
const keyOf = (alias: string) => `'e/' || ${alias}.episode_id`;

/** The system prompt of the agent of a call (alias `a`). */
const SYSTEM = shownText('a', 'system_instructions');

/** What an answer (alias `s`) says in parts. */
const SAID_IN_PARTS = shownJson('s', 'content');

/**
 * The input messages of a call (alias `c`) as JSON text; null where the call names none. Making it costs more than all else about a row:
 * it belongs among what is selected, so that rows that a condition leaves out do without.
 */
export const PROMPT = `(select '[' || coalesce(string_agg(${MESSAGE}, ',' order by m.place), '') || ']'
      from troupe.messages_of(${keyOf('c')}, c.context) m having c.context is not null)`;

/** Tool definitions as JSON text: those of the call, else those of its agent. */
const TOOLS = 'coalesce(c.tools, a.tools)::text';

const STEP: readonly DatasetColumn[] = [
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
  { name: 'cut', kind: 'bool', sql: fieldSql('cut') },
  { name: 'text', kind: 'text', sql: 's.text' },
  { name: 'content', kind: 'text', sql: `(${SAID_IN_PARTS})::text` },
  { name: 'prompt', kind: 'messages', sql: PROMPT },
  { name: 'system', kind: 'text', sql: SYSTEM },
  { name: 'tools', kind: 'tools', sql: TOOLS },
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
      ',"input":' || ${j(INPUT)} || ',"system":' || ${j(SYSTEM)} || ',"tools":' || coalesce(${TOOLS}, 'null') || ',"text":' || ${j('s.text')} || ',"content":' || coalesce((${SAID_IN_PARTS})::text, 'null') ||
      ',"prompt_token_ids":' || ${j('c.prompt_token_ids')} || ',"token_ids":' || ${j('s.token_ids')} ||
      ',"logprobs":' || ${j('s.logprobs')} || ',"loss_mask":' || ${j('s.loss_mask')} || ',"cut":' || ${fieldSql('cut')} ||
      ',"reward":' || coalesce(to_json(@reward)::text, 'null') || ',"advantage":' || coalesce(to_json(@advantage)::text, 'null') ||
      ',"reason":' || coalesce(to_json(@reason)::text, 'null') || '}'`;

/** Each message that a call of the episode read, by its name. */
const MESSAGES = `(select '{' || coalesce(string_agg(to_json(m.hash)::text || ':' || ${MESSAGE}, ',' order by m.hash), '') || '}'
      from troupe.messages_read(${keyOf('e')}, array(select c.context from facts.calls c where c.episode_id = e.episode_id)) m)`;

const EPISODE: readonly DatasetColumn[] = [
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
  { name: 'messages', kind: 'named_messages', sql: MESSAGES },
  { name: 'steps', kind: 'steps', sql: STEP_JSON },
];

/** The answer of a step (alias `s`) as a list of one message, JSON text; null where only tokens are known. */
const ANSWER = (s: string) =>
  `case when json_typeof(${s}.content) = 'array' then '[{"role":"assistant","content":' || (${shownJson(s, 'content')})::text || '}]'
      when ${s}.text is not null then '[{"role":"assistant","content":' || to_json(${s}.text)::text || '}]' end`;

/**
 * Two answers to what one call (alias `c`) was asked. Aliases: `b` and `w` are the preferred and the rejected answer with its episode,
 * role and worth, `bs` and `ws` their steps, `p` the pair.
 */
const PAIR: readonly DatasetColumn[] = [
  { name: 'task_id', kind: 'text', sql: 'b.task_id' },
  { name: 'episode_id', kind: 'text', sql: 'b.episode_id' },
  { name: 'group_id', kind: 'text', sql: 'b.group_id' },
  { name: 'call_id', kind: 'text', sql: 'b.call_id' },
  { name: 'candidate', kind: 'int4', sql: 'b.candidate' },
  { name: 'step_id', kind: 'text', sql: "b.call_id || '/' || b.candidate" },
  { name: 'agent', kind: 'text', sql: 'b.agent' },
  { name: 'role', kind: 'text', sql: 'b.role' },
  { name: 'rejected_episode_id', kind: 'text', sql: 'w.episode_id' },
  { name: 'rejected_step_id', kind: 'text', sql: "w.call_id || '/' || w.candidate" },
  { name: 'prompt', kind: 'messages', sql: PROMPT },
  { name: 'prompt_token_ids', kind: 'int4[]', sql: 'c.prompt_token_ids' },
  { name: 'system', kind: 'text', sql: SYSTEM },
  { name: 'tools', kind: 'tools', sql: TOOLS },
  { name: 'chosen', kind: 'messages', sql: ANSWER('bs') },
  { name: 'rejected', kind: 'messages', sql: ANSWER('ws') },
  { name: 'chosen_token_ids', kind: 'int4[]', sql: 'bs.token_ids' },
  { name: 'chosen_loss_mask', kind: 'mask', sql: 'bs.loss_mask' },
  { name: 'rejected_token_ids', kind: 'int4[]', sql: 'ws.token_ids' },
  { name: 'rejected_loss_mask', kind: 'mask', sql: 'ws.loss_mask' },
  { name: 'chosen_cut', kind: 'bool', sql: 'b.cut' },
  { name: 'rejected_cut', kind: 'bool', sql: 'w.cut' },
  { name: 'ground_truth', kind: 'text', sql: 't.ground_truth::text' },
  { name: 'chosen_value', kind: 'float8', sql: 'p.chosen_value' },
  { name: 'rejected_value', kind: 'float8', sql: 'p.rejected_value' },
  { name: 'margin', kind: 'float8', sql: 'p.chosen_value - p.rejected_value' },
];

/** The answer in which a model wrote the team: the step that a file of role `code` belongs to. */
const WRITTEN = `(select y.text from facts.artifacts f join facts.steps y on y.episode_id = f.episode_id and y.call_id || '/' || y.candidate = f.target ->> 'id'
      where f.key = ${keyOf('e')} and f.role = 'code' and f.target ->> 'kind' = 'step' and y.episode_id = e.episode_id order by f.artifact_id limit 1)`;

/** The team as it was defined; else its members in this episode. JSON text without what is unknown; null where neither is known. */
const TEAM = `coalesce(
      (select json_strip_nulls(json_build_object('name', m.name, 'version', m.team_version, 'agents', m.agents, 'edges', m.edges))::text
        from facts.teams m where m.team_id = e.team_id and (m.agents is not null or m.edges is not null)),
      (select json_strip_nulls(json_build_object('agents', json_agg(json_build_object('agent_id', g.agent_id, 'name', g.name, 'role', g.role,
          'parent_agent_id', g.parent_agent_id, 'model', g.model, 'policy', g.policy, 'prompt', ${shownText('g', 'system_instructions')}, 'tools', g.tools) order by g.agent_id)))::text
        from facts.agents g where g.episode_id = e.episode_id having count(*) > 0))`;

const TRIPLET: readonly DatasetColumn[] = [
  ...EPISODE.filter(({ name }) => name !== 'messages' && name !== 'steps'),
  { name: 'query', kind: 'text', sql: '(select q.query from facts.tasks q where q.task_id = e.task_id)' },
  { name: 'written', kind: 'text', sql: WRITTEN },
  { name: 'team', kind: 'text', sql: TEAM },
];

/** All messages of a branch: the input of the call of its last answer, then that answer. */
const BRANCH_MESSAGES = `(select left(q.prompt, -1) || case q.prompt when '[]' then '' else ',' end || substr(${ANSWER('s')}, 2)
      from (select ${PROMPT} as prompt offset 0) q)`;

/** An answer that is learnt of a branch. `messages` stand before it, and `from` tokens. */
export const LEARNT = `'{"step_id":' || to_json(${fieldSql('step_id')})::text || ',"turn":' || ${j(fieldSql('turn'))} ||
      ',"checkpoint_id":' || ${j('c.checkpoint_id')} || ',"messages":' || ${j('picked.messages')} ||
      ',"cut":' || ${fieldSql('cut')} || ',"from":' || ${j('cardinality(c.prompt_token_ids)')} || ',"tokens":' || ${j('cardinality(s.token_ids)')} ||
      ',"reward":' || coalesce(to_json(@reward)::text, 'null') || ',"advantage":' || coalesce(to_json(@advantage)::text, 'null') ||
      ',"reason":' || coalesce(to_json(@reason)::text, 'null') || '}'`;

/** Of the last answer's row, and of `b`, in which the answers that are learnt stand together. */
const BRANCH: readonly DatasetColumn[] = [
  ...STEP.filter(({ name }) => ['task_id', 'episode_id', 'group_id', 'step_id', 'agent', 'role'].includes(name)),
  { name: 'messages', kind: 'messages', sql: BRANCH_MESSAGES },
  { name: 'answers', kind: 'answers', sql: 'b.answers' },
  { name: 'token_ids', kind: 'int4[]', sql: 'c.prompt_token_ids || s.token_ids' },
  { name: 'loss_mask', kind: 'mask', sql: 'b.loss_mask' },
  { name: 'logprobs', kind: 'float4[]', sql: 'b.logprobs' },
  ...STEP.filter(({ name }) => ['system', 'tools', 'ground_truth'].includes(name)),
];

export const COLUMNS: Readonly<Record<Unit, readonly DatasetColumn[]>> = {
  step: STEP,
  group: [{ name: 'group_index', kind: 'int4', sql: 'group_index' }, ...STEP],
  episode: EPISODE,
  pair: PAIR,
  triplet: TRIPLET,
  branch: BRANCH,
};
