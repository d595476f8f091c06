/** The record of an episode as the source of a replay: its calls in their order, and why some of them cannot be answered from it. */
import { TroupeError } from '../../../errors.ts';
import { GATEWAY, idsOfCall } from '../../../ingest/events/gateway-events.ts';
import { canonicalJson, isRecord, type JsonObject, sha256 } from '../../../ingest/events/json.ts';
import { mapStrings, unescapeText } from '../../../ingest/events/text.ts';
import { IDENTITY, identityOf } from '../../../ingest/log/postgres.ts';
import { EMPTY_CONTEXT } from '../../../ingest/log/split.ts';
import type { Session } from '../../db/pool.ts';
import { query, rowsOf, sql } from '../../db/query.ts';
import { ERASED } from '../../keep/erase-text.ts';
import type { SourceCall } from './replay.ts';

/** What makes two requests equal: the messages, in their stored form, and the tools; a prompt of token ids is its ids. */
export const requestKey = (asked: {
  readonly context: string | null;
  readonly promptIds: readonly number[] | null;
  readonly tools: unknown;
}): string => {
  const { context, promptIds, tools } = asked;
  const prompt = context === null || context === EMPTY_CONTEXT ? `ids ${JSON.stringify(promptIds)}` : context;
  return `${prompt} ${tools == null ? '' : sha256(canonicalJson(tools))}`;
};

type ReadSession = Pick<Session, 'query'>;

/**
 * The calls of an episode that were answered, in the order in which they were asked for. One that failed is left out: the team did not go on
 * from it.
 */
export async function sourceCalls(db: ReadSession, episode: string): Promise<SourceCall[]> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.calls as c')
      .select(['c.call_id', 'c.context', 'c.tools', 'c.prompt_token_ids'])
      .select([
        sql<string | null>`coalesce(c.requested_agent_id, c.completed_agent_id)`.as('agent'),
        sql<number>`extract(epoch from coalesce(c.requested_at, c.completed_at))::float8`.as('requested'),
        sql<number>`extract(epoch from coalesce(c.completed_at, c.requested_at))::float8`.as('completed'),
        sql<string | null>`c.requested_unmapped #>> '{replay,of,episode_id}'`.as('origin'),
        sql<
          number | null
        >`(select s.candidate from facts.steps s where s.episode_id = c.episode_id and s.call_id = c.call_id order by s.chosen is true desc, s.candidate limit 1)`.as(
          'candidate',
        ),
      ])
      .where('c.episode_id', '=', episode)
      .where('c.error', 'is', null)
      .where('c.completed_version', 'is not', null)
      .orderBy('requested')
      .orderBy('completed')
      .orderBy('c.call_id'),
  );
  return rows.map(({ call_id, agent, context, tools, prompt_token_ids, requested, completed, origin, candidate }) => ({
    call_id,
    agent,
    requested,
    completed,
    origin: origin ?? episode,
    step_id: `${call_id}/${candidate ?? 0}`,
    request: requestKey({ context, promptIds: prompt_token_ids, tools }),
  }));
}

/** A call as the gateway recorded it: the data of its two events. */
export type RecordedSource = { readonly requested: JsonObject; readonly completed: JsonObject };

/** The records of these calls by their ids; those that the log does not hold are missing. */
export async function recordedCalls(
  db: ReadSession,
  episode: string,
  calls: readonly string[],
): Promise<ReadonlyMap<string, RecordedSource>> {
  if (calls.length === 0) return new Map();
  const identities = calls.flatMap((call) =>
    idsOfCall(call).map((id) => identityOf({ key: `e/${episode}`, source: GATEWAY, id })),
  );
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.events')
      .select(['name', sql<JsonObject>`data`.as('data')])
      .where(sql.raw<string>(IDENTITY), 'in', identities),
  );
  const found = new Map<string, Partial<Record<'requested' | 'completed', JsonObject>>>();
  for (const { name, data } of rows) {
    const plain = mapStrings(data, unescapeText) as JsonObject;
    const part = name === 'generation.requested' ? 'requested' : 'completed';
    found.set(String(plain.call_id), { ...found.get(String(plain.call_id)), [part]: plain });
  }
  return new Map(
    [...found].flatMap(([call, { requested, completed }]) =>
      requested && completed ? [[call, { requested, completed }] as const] : [],
    ),
  );
}

/** Why a call cannot be answered from its record; null where it can. Pure. */
export function whyUnreadable(record: RecordedSource | undefined): string | null {
  if (record === undefined) return 'the gateway did not record it, or its events were archived or removed';
  const { requested, completed } = record;
  const choices = Array.isArray(completed.choices) ? completed.choices.filter(isRecord) : [];
  if (isRecord(completed.redactions) && Object.keys(completed.redactions).length > 0)
    return 'a secret was taken out of its answer';
  const texts = [requested.model, ...choices.flatMap(({ content }) => [content])];
  if (texts.includes(ERASED) || requested.input === ERASED) return 'its text was erased';
  const flags = Array.isArray(completed.flags) ? completed.flags : [];
  if (flags.includes('cut_answer') || flags.includes('unread_answer')) return 'its answer was recorded in part';
  if (isUpstream(record) && !isRecord(completed.raw)) return 'its raw record was not stored';
  return null;
}

/** Whether a model server answered it, and no policy of this project. Pure. */
export const isUpstream = ({ completed }: Pick<RecordedSource, 'completed'>): boolean =>
  isRecord(completed.unmapped) && typeof completed.unmapped.upstream === 'string';

/** @throws TroupeError `input_refused` naming the first call before the place that the record cannot answer */
export async function requireReplayable(
  db: ReadSession,
  episode: string,
  calls: readonly Pick<SourceCall, 'call_id'>[],
): Promise<void> {
  const ids = calls.map(({ call_id }) => call_id);
  const records = await recordedCalls(db, episode, ids);
  for (const id of ids) {
    const why = whyUnreadable(records.get(id));
    if (why !== null)
      throw new TroupeError(
        'input_refused',
        `The episode ${episode} cannot be replayed: call ${id} cannot be answered from the record, since ${why}.`,
        { field: 'replay' },
      );
  }
}
