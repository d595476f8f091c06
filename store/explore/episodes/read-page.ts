/** One episode, read page by page: what happened in order, and what was recorded and judged of it. */
import { createHash } from 'node:crypto';
import { got, TroupeError } from '../../../errors.ts';
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { Session } from '../../db/pool.ts';
import {
  anyOf,
  type Compilable,
  type Database,
  firstOf,
  type OrderByItemBuilder,
  query,
  rowsOf,
  type SelectQueryBuilder,
  sql,
  typed,
} from '../../db/query.ts';
import {
  callEntry,
  decisionEntry,
  type EpisodeEntry,
  messageEntry,
  type PromptMessage,
  promptMessage,
  type RecordRow,
  toolEntry,
} from './entries.ts';
import { type ExecutionMatrix, matricesOf } from './matrices.ts';
import type { OutlineItem } from './outline.ts';
import { readOutline } from './read-outline.ts';

export type PageOptions = {
  /** With the token ids, log-probabilities and loss masks of the steps. */
  readonly tokens?: boolean | undefined;
  /** The `next` of the page before. */
  readonly after?: string | undefined;
  /** Bytes of what happened after which a page ends; it holds one entry at least. */
  readonly bytes?: number | undefined;
};

/** The lists of what was recorded about the whole episode stand on its first page and are empty on the others. */
export type EpisodePage = {
  readonly episode: RecordRow;
  readonly task: RecordRow | null;
  readonly agents: readonly RecordRow[];
  readonly conversation: readonly EpisodeEntry[];
  /** Of the calls of this page, as are `credits`; `verdicts` and `rewards` of the first page hold those of the episode too. */
  readonly steps: readonly RecordRow[];
  readonly tool_calls: readonly RecordRow[];
  readonly feedback: readonly RecordRow[];
  readonly matrices: readonly ExecutionMatrix[];
  readonly verdicts: readonly RecordRow[];
  readonly scores: readonly RecordRow[];
  readonly rewards: readonly RecordRow[];
  readonly credits: readonly RecordRow[];
  readonly blames: readonly RecordRow[];
  /** Lists that were cut, at {@link MOST} rows or {@link PAGE_BYTES} bytes. */
  readonly truncated: readonly string[];
  /** Null on the last page. */
  readonly next: string | null;
};

export const PAGE_BYTES = 2 * 1024 * 1024;
/** Rows of one list. */
export const MOST = 10_000;

/** Undefined where there is no such episode. Throws `usage` for an `after` that no page of it gave. */
export async function readEpisodePage(
  db: Session,
  id: string,
  { tokens = false, after, bytes = PAGE_BYTES }: PageOptions = {},
): Promise<EpisodePage | undefined> {
  const episode = await firstOf(db, query.selectFrom('traj.episodes').selectAll().where('episode_id', '=', id));
  if (!episode) return undefined;
  const { things, truncated: cutKinds } = await readOutline(db, id, { tokens });
  const from = after === undefined ? 0 : placeAfter(things, after);
  const page = pageOf(things, from, bytes);
  const truncated = new Set(cutKinds);

  const read = async (name: string, list: OrderedRows): Promise<readonly RecordRow[]> => {
    const { rows, cut } = await readMost(db, list);
    if (cut) truncated.add(name);
    return rows;
  };
  const ids = (kind: OutlineItem['kind']) => page.filter((thing) => thing.kind === kind).map((thing) => thing.id);
  const callIds = ids('call');
  const first = after === undefined;
  const whole = (name: string, list: OrderedRows) => (first ? read(name, list) : Promise.resolve([]));

  /** The rows of a view about the episode, each whole: what is read of them is a `Row`. */
  const all = (view: OfEpisode) =>
    query
      .selectFrom(view as 'traj.rewards')
      .selectAll()
      .where('episode_id', '=', id) as SelectQueryBuilder<Database, 'traj.rewards', RecordRow>;
  /** Those of this page by their ids; of messages those that were sent, not those of a context. */
  const named = (view: OfEpisode, kind: Exclude<OutlineItem['kind'], 'call'>): Promise<readonly RecordRow[]> => {
    const those = all(view).where(sql.ref(`${kind}_id`), 'in', oneAtLeast(ids(kind)));
    return rowsOf(db, kind === 'message' ? those.where(sql.ref('kind'), '=', 'sent') : those);
  };

  const ofSteps = sql<boolean>`step_id in (select s.step_id from traj.steps s where s.episode_id = ${id} and s.call_id = any(${typed(callIds, 'text[]')}))`;
  const ofPage = first ? sql<boolean>`(step_id is null or ${ofSteps})` : ofSteps;

  const agents = await rowsOf(db, agentsOf(id).limit(MOST));
  const [task, calls, steps, toolCalls, messages, decisions, prompts] = await Promise.all([
    episode.task_id === null
      ? undefined
      : firstOf(db, query.selectFrom('traj.tasks').selectAll().where('task_id', '=', episode.task_id)),
    rowsOf(db, callsOf(id).where('c.call_id', 'in', oneAtLeast(callIds))),
    rowsOf(db, stepsOf(id, tokens).where('call_id', 'in', oneAtLeast(callIds))),
    named('traj.tool_calls', 'tool_call'),
    named('traj.messages', 'message'),
    named('traj.decisions', 'decision'),
    readPrompts(
      db,
      id,
      page.flatMap((thing) => thing.prompt),
    ),
  ]);
  const [feedback, cells, scores, blames, verdicts, rewards, credits] = await Promise.all([
    whole('feedback', { rows: all('traj.feedback'), order: ['at', 'feedback_id'] }),
    whole('matrices', { rows: all('traj.executions'), order: ['feedback_id', 'program', 'test'] }),
    whole('scores', {
      rows: query.selectFrom('traj.scores').selectAll().where('key', '=', `e/${id}`),
      order: ['method', 'method_key'],
    }),
    whole('blames', { rows: all('traj.blames'), order: ['method', 'method_key'] }),
    read('verdicts', { rows: all('traj.verdicts').where(ofPage), order: ['method', 'step_id', 'method_key'] }),
    read('rewards', { rows: all('traj.rewards').where(ofPage), order: ['method', 'step_id', 'method_key'] }),
    read('credits', { rows: all('traj.credits').where(ofSteps), order: ['method', 'step_id', 'method_key'] }),
  ]);

  const stepsByCall = groupBy(steps as readonly RecordRow[], (step) => step.call_id);
  const rows = {
    call: byId(calls, 'call_id'),
    message: byId(messages, 'message_id'),
    tool_call: byId(toolCalls, 'tool_call_id'),
    decision: byId(decisions, 'decision_id'),
  };
  const conversation = conversationOf(page, {
    rows,
    prompts,
    stepsByCall,
    judgements: { rewards, credits, verdicts },
    shown: new Set(things.slice(0, from).flatMap(textsOf)),
    names: new Map(agents.map((agent) => [agent.agent_id, agent.agent])),
  });
  const last = page.at(-1);
  return {
    episode,
    task: task ?? null,
    agents: first ? agents : [],
    conversation,
    steps: page.flatMap(({ kind, id }) => (kind === 'call' ? (stepsByCall.get(id) ?? []) : [])),
    tool_calls: page.flatMap(({ kind, id }) => (kind === 'tool_call' ? [rows.tool_call.get(id)!].filter(Boolean) : [])),
    feedback,
    matrices: matricesOf(cells),
    verdicts,
    scores,
    rewards,
    credits,
    blames,
    truncated: [...truncated],
    next: last === undefined || from + page.length === things.length ? null : cursorOf(last),
  };
}

/** What happened on a page, in order. A part of a prompt that was shown before is left out. */
function conversationOf(
  page: readonly OutlineItem[],
  {
    rows,
    prompts,
    stepsByCall,
    judgements,
    shown,
    names,
  }: Pick<Parameters<typeof callEntry>[2], 'judgements'> & {
    readonly rows: Readonly<Record<OutlineItem['kind'], ReadonlyMap<string, RecordRow>>>;
    readonly prompts: ReadonlyMap<string, PromptMessage>;
    readonly stepsByCall: ReadonlyMap<unknown, readonly RecordRow[]>;
    readonly shown: Set<string>;
    readonly names: ReadonlyMap<unknown, string | null>;
  },
): EpisodeEntry[] {
  return page.flatMap((thing): EpisodeEntry[] => {
    const row = rows[thing.kind].get(thing.id);
    // Removed since the outline was read.
    if (!row) return [];
    const prompt = thing.prompt.flatMap((hash) => prompts.get(hash) ?? []).filter((message) => !has(shown, message));
    for (const text of textsOf(thing)) shown.add(text);
    if (thing.kind === 'call')
      return [
        callEntry(thing, row, {
          steps: stepsByCall.get(thing.id) ?? [],
          prompt,
          judgements,
        }),
      ];
    if (thing.kind === 'message') return [messageEntry(thing, row)];
    if (thing.kind === 'decision') return [decisionEntry(thing, row)];
    return [toolEntry(thing, row, names.get(String(row.agent_id)) ?? (row.agent_id as string | null))];
  });
}

/** The things from `from` on until the page is full, one at least where there is one. */
function pageOf(things: readonly OutlineItem[], from: number, bytes: number): readonly OutlineItem[] {
  let to = from;
  for (let sum = 0; to < things.length && sum < bytes && to - from < MOST; to++) sum += things[to]!.bytes;
  return things.slice(from, to);
}

const cursorOf = ({ kind, id }: OutlineItem): string => Buffer.from(JSON.stringify([kind, id])).toString('base64url');

function placeAfter(things: readonly OutlineItem[], after: string): number {
  const place = things.findIndex((thing) => cursorOf(thing) === after);
  if (place >= 0) return place + 1;
  const expected = 'the `next` of an earlier page of this episode';
  throw new TroupeError('usage', `The query parameter after should be ${expected}; it is ${got(after)}.`, {
    field: 'after',
    expected,
    got: got(after),
  });
}

const textsOf = ({ kind, texts }: OutlineItem): readonly string[] => texts.map((digest) => `${kind} ${digest}`);

/** True where the text was shown before: as a message between members, a candidate, or the result of a tool. */
function has(shown: ReadonlySet<string>, { role, text }: PromptMessage): boolean {
  if (text === null || text === '') return false;
  const digest = createHash('md5').update(text).digest('hex');
  const kinds = ['message', ...(role === 'assistant' ? ['call'] : role === 'tool' ? ['tool_call'] : [])];
  return kinds.some((kind) => shown.has(`${kind} ${digest}`));
}

/** An empty list cannot stand in SQL; nothing has this id. */
const oneAtLeast = (ids: readonly string[]): readonly string[] => (ids.length > 0 ? ids : ['']);

const byId = (rows: readonly RecordRow[], column: string): ReadonlyMap<string, RecordRow> =>
  new Map(rows.map((row) => [String(row[column]), row]));

async function readPrompts(
  db: Session,
  id: string,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, PromptMessage>> {
  if (hashes.length === 0) return new Map();
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.bodies as b')
      .select('b.hash')
      .select(sql<unknown>`troupe.with_artifacts(b.key, b.body)::json`.as('message'))
      .where(sql<string>`b.key || b.hash::text`, '=', anyOf(hashes.map((hash) => `e/${id}${hash}`))),
  );
  return new Map(rows.map(({ hash, message }) => [hash, promptMessage(message)]));
}

/** Views with the id of their episode. */
type OfEpisode =
  `traj.${'tool_calls' | 'messages' | 'decisions' | 'feedback' | 'executions' | 'blames' | 'verdicts' | 'rewards' | 'credits'}`;

type OrderedRows = { readonly rows: Compilable<RecordRow>; readonly order: readonly string[] };

/** Rows in order until there are {@link MOST} of them or they have {@link PAGE_BYTES} bytes. */
async function readMost(
  db: Session,
  { rows, order }: OrderedRows,
): Promise<{ rows: readonly RecordRow[]; cut: boolean }> {
  const places = sql.join(order.map((column) => sql`${sql.ref(column)} asc nulls first`));
  const most = sql<RecordRow>`(select * from (${rows as never}) l order by ${places} limit ${sql.lit(MOST + 1)})`;
  const read = await rowsOf(
    db,
    query
      .selectFrom(
        query
          .selectFrom(most.as('p'))
          .selectAll('p')
          .select(sql<number>`row_number() over (order by ${places})`.as('list_place'))
          .select(sql<number>`count(*) over ()`.as('list_rows'))
          .select(sql<number>`sum(octet_length(p::text)) over (order by ${places})`.as('list_bytes'))
          .as('q'),
      )
      .selectAll('q')
      .where(sql<boolean>`list_place <= ${sql.lit(MOST)} and (list_place = 1 or list_bytes <= ${sql.lit(PAGE_BYTES)})`)
      .orderBy('list_place'),
  );
  const all = Number(read[0]?.list_rows ?? 0);
  return {
    rows: read.map(({ list_place, list_rows, list_bytes, ...row }) => row as RecordRow),
    cut: read.length < all,
  };
}

const nullsLast = (order: OrderByItemBuilder) => order.asc().nullsLast();

const agentsOf = (id: string) =>
  query.selectFrom('traj.agents').selectAll().where('episode_id', '=', id).orderBy('agent_id');

/** Agent and role as `traj.steps` has them, also of a call that nothing answered. */
const callsOf = (id: string) =>
  query
    .selectFrom('facts.calls as c')
    .leftJoin('facts.agents as a', (on) =>
      on
        .onRef('a.episode_id', '=', 'c.episode_id')
        .on('a.agent_id', '=', sql<string>`coalesce(c.completed_agent_id, c.requested_agent_id)`),
    )
    .select(['c.call_id', 'c.model', 'c.response_model', 'c.policy', 'c.checkpoint_id', 'c.temperature'])
    .select(['c.input_tokens', 'c.output_tokens', 'c.latency_ms', 'c.error'])
    .select([
      sql<string | null>`coalesce(a.name, c.completed_agent_id, c.requested_agent_id)`.as('agent'),
      sql<string | null>`coalesce(c.completed_role, c.requested_role, a.role)`.as('role'),
      sql<number | null>`coalesce(c.completed_turn, c.requested_turn)`.as('turn'),
    ])
    .where('c.episode_id', '=', id);

/** Token ids are most of the bytes, so they come only when asked for; how many there are comes always. */
const stepsOf = (id: string, tokens: boolean) =>
  query
    .selectFrom('traj.steps')
    .select(['step_id', 'call_id', 'candidate', 'agent_id', 'agent', 'role', 'turn', 'seq', 'text', 'content'])
    .select(['finish_reason', 'chosen', 'parent_step_id', 'model', 'response_model', 'policy', 'checkpoint_id'])
    .select(['model_version', 'temperature', 'seed', 'input_tokens', 'output_tokens', 'latency_ms', 'error'])
    .select(['requested_at', 'completed_at', sql<number | null>`cardinality(token_ids)`.as('tokens'), 'untrainable'])
    .$if(tokens, (steps) => steps.select(['token_ids', 'logprobs', 'loss_mask', 'prompt_token_ids']))
    .where('episode_id', '=', id)
    .orderBy('seq', nullsLast)
    .orderBy('requested_at', nullsLast)
    .orderBy('call_id')
    .orderBy('candidate');
