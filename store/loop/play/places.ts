/** Where replays go on: the places that a request names, with the tasks that the team is given again. */
import { got, TroupeError } from '../../../errors.ts';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { writtenArguments } from '../../../ingest/events/spelling.ts';
import type { Session } from '../../db/pool.ts';
import { firstOf, query, rowsOf, type SqlBool, sql } from '../../db/query.ts';
import { pinMethods } from '../../filter/filter-check.ts';
import { comparisonsOf, type Filter, lowerFilter, parseFilter } from '../../filter/select.ts';
import { shownJson } from '../../tables/long-texts.ts';
import {
  checkReplay,
  NO_AGENT,
  type ReplayAnswer,
  type ReplayPlace,
  type ReplayRequest,
  type SourceCall,
} from './replay.ts';
import { drawnBy, groupAt, type RolloutSpec, type RolloutTask } from './rollout.ts';
import { requireReplayable, sourceCalls } from './source.ts';
import { storedTask } from './stored-tasks.ts';

type ReadSession = Pick<Session, 'query'>;
type FoundPlace = Pick<ReplayPlace, 'episode_id' | 'call_id' | 'step_id' | 'agent'>;
/** Of a spec, what a replay finds when it is requested. */
export type FoundReplay = { readonly tasks: RolloutTask[]; readonly places: ReplayPlace[] } & Pick<RolloutSpec, 'team'>;

/** Places of one rollout. */
const MOST_PLACES = 10_000;

const refused = (message: string): TroupeError => new TroupeError('usage', message, { field: 'replay' });

/**
 * The places of a replay, with the tasks of their sources and the answers that it names.
 * @throws TroupeError `usage` where the request does not fit together, `not_found` where there is no such place, `input_refused` for an
 *   episode whose calls the record cannot answer, `recipe_invalid` for the filter
 */
export async function findReplay(db: ReadSession, asked: ReplayRequest): Promise<FoundReplay> {
  checkReplay(asked);
  const found = await placesAsked(db, asked);
  if (found.length === 0)
    throw new TroupeError(
      'not_found',
      `No sampled step fits ${got(asked.where ?? asked.episode_id)}; \`troupe sql "select episode_id, step_id, role from traj.steps"\` lists them.`,
      { field: 'replay' },
    );
  if (found.length > MOST_PLACES)
    throw new TroupeError('too_large', `${found.length} places are more than ${MOST_PLACES}; choose fewer.`, {
      field: 'replay',
    });
  const tasks: RolloutTask[] = [];
  const places: ReplayPlace[] = [];
  const teams = new Map<string, NonNullable<RolloutSpec['team']> | undefined>();
  for (const [episode, own] of groupBy(found, ({ episode_id }) => episode_id)) {
    const { task, seed, params, team } = await playedAs(db, episode);
    const known = tasks.findIndex(({ task_id }) => task_id === task.task_id);
    const place = known < 0 ? tasks.push(task) - 1 : known;
    teams.set(team?.team_id ?? '', team);
    await requireReplayable(db, episode, reached(await sourceCalls(db, episode), own, asked));
    places.push(
      ...own.map((one) => ({
        ...one,
        task: place,
        ...(seed === undefined ? {} : { seed }),
        ...(params === undefined ? {} : { params }),
      })),
    );
  }
  if (teams.size > 1)
    throw refused('The episodes were played by several versions of a team; replay those of one version at a time.');
  const [team] = teams.values();
  const answers = await answersAsked(db, asked, places);
  return {
    tasks,
    places: answers === null ? places : places.map((place) => ({ ...place, answers: answers(place) })),
    ...(team === undefined ? {} : { team }),
  };
}

/** In the order of the episodes and, in each, of its calls. */
async function placesAsked(db: ReadSession, { episode_id, from, where }: ReplayRequest): Promise<FoundPlace[]> {
  const own: Filter[] = episode_id === undefined ? [] : [{ field: 'episode_id', op: '=', value: episode_id }];
  const filter: Filter = { and: [...own, ...(where === undefined ? [] : [await readWhere(db, where)])] };
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes as e')
      .innerJoin('facts.calls as c', 'c.episode_id', 'e.episode_id')
      .innerJoin('facts.steps as s', (on) =>
        on.onRef('s.episode_id', '=', 'c.episode_id').onRef('s.call_id', '=', 'c.call_id'),
      )
      .leftJoin('facts.agents as a', (on) =>
        on
          .onRef('a.episode_id', '=', 'c.episode_id')
          .on(sql<SqlBool>`a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id)`),
      )
      .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
      .select(['e.episode_id', 'c.call_id'])
      .select([
        sql<string>`(array_agg(c.call_id || '/' || s.candidate order by s.chosen is true desc, s.candidate))[1]`.as(
          'step_id',
        ),
        sql<string | null>`min(coalesce(c.requested_agent_id, c.completed_agent_id))`.as('agent'),
        sql<boolean>`bool_or(c.copied)`.as('copied'),
        sql<string[]>`array_agg(c.call_id || '/' || s.candidate)`.as('steps'),
      ])
      .where(lowerFilter(filter))
      .where('c.error', 'is', null)
      .groupBy(['e.episode_id', 'c.call_id'])
      .orderBy(sql`e.episode_id collate "C"`)
      .orderBy(sql`min(coalesce(c.requested_at, c.completed_at))`)
      .orderBy('c.call_id'),
  );
  const place = ({ copied: _, steps: __, ...found }: (typeof rows)[number]): FoundPlace => found;
  if (from === 'end')
    return [...new Set(rows.map((row) => row.episode_id))].map((episode_id) => ({
      episode_id,
      call_id: null,
      step_id: null,
      agent: null,
    }));
  if (from === undefined || from === 'each') return rows.filter(({ copied }) => copied !== true).map(place);
  const named = rows.find(({ call_id, steps }) => call_id === from || steps.includes(from));
  return named === undefined ? [] : [{ ...place(named), step_id: named.call_id === from ? named.step_id : from }];
}

async function readWhere(db: ReadSession, where: NonNullable<ReplayRequest['where']>): Promise<Filter> {
  const filter = parseFilter(where, 'replay.where');
  if (comparisonsOf(filter).some(({ field }) => field === 'advantage'))
    throw refused('advantage is that of the credit method of a recipe; name the method: credit(METHOD).');
  return pinMethods(db, filter);
}

/** The calls that are answered from the record at one of these places; a fault or a skipped step needs the one at the place as well. */
function reached(
  calls: readonly SourceCall[],
  places: readonly FoundPlace[],
  asked: ReplayRequest,
): readonly SourceCall[] {
  if (places.some(({ call_id }) => call_id === null)) return calls;
  const last = Math.max(...places.map((place) => calls.findIndex(({ call_id }) => call_id === place.call_id)));
  return calls.slice(0, last + (asked.skip === true || asked.fault !== undefined ? 1 : 0));
}

type PlayedAs = Pick<ReplayPlace, 'seed' | 'params'> & {
  readonly task: RolloutTask;
  readonly team?: RolloutSpec['team'];
};

/** What the team was given when it played an episode: by its rollout where it is known, else as far as its task is stored. */
async function playedAs(db: ReadSession, episode: string): Promise<PlayedAs> {
  const row = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue as attempt')
      .innerJoin('troupe.job_queue as whole', (on) => on.on(sql<SqlBool>`whole.job_id = attempt.spec ->> 'rollout'`))
      .select(['whole.job_id as rollout', 'attempt.spec as spec', 'whole.spec as whole'])
      .where('attempt.job_id', '=', episode)
      .where('attempt.kind', 'like', 'attempt/%')
      .where('whole.kind', '=', 'rollout'),
  );
  if (row !== undefined) {
    const { task: i, sample } = row.spec as { task: number; sample: number };
    const whole = row.whole as RolloutSpec;
    const group = groupAt(whole, row.rollout, i);
    return { task: group.task, ...drawnBy(whole, group, sample), team: whole.team };
  }
  const known = await firstOf(
    db,
    query.selectFrom('facts.episodes').select('task_id').where('episode_id', '=', episode),
  );
  const task = known?.task_id ? await storedTask(db, known.task_id) : null;
  if (task !== null) return { task };
  throw new TroupeError(
    'input_refused',
    `The episode ${episode} cannot be replayed: ${known?.task_id ? `its task ${known.task_id} is not stored` : 'it names no task'}, so there is nothing to give to the team.`,
    { field: 'replay' },
  );
}

/** At each place the answers that are put there, by agent; null where none are. A candidate of the source is replaced by its content. */
async function answersAsked(
  db: ReadSession,
  { answer, answers }: ReplayRequest,
  places: readonly ReplayPlace[],
): Promise<((place: ReplayPlace) => NonNullable<ReplayPlace['answers']>) | null> {
  if (answer === undefined && answers === undefined) return null;
  const sources = [...new Set(places.map(({ episode_id }) => episode_id))];
  const words = async (one: ReplayAnswer): Promise<ReplayAnswer> => {
    if (typeof one === 'string' || !('step_id' in one)) return one;
    if (sources.length > 1) throw refused('A step_id as the answer is one of the source, so name one episode_id.');
    const step = await firstOf(
      db,
      query
        .selectFrom('facts.steps as s')
        .select(['text', sql<unknown>`${sql.raw(shownJson('s', 'content'))}`.as('content')])
        .where('episode_id', '=', sources[0]!)
        .where(sql<SqlBool>`call_id || '/' || candidate = ${one.step_id}`),
    );
    if (step !== undefined) return stepWords(step.text, step.content);
    throw new TroupeError('not_found', `The episode ${sources[0]} has no step ${got(one.step_id)}.`, {
      field: 'replay.answer',
    });
  };
  const atPlace = answer === undefined ? undefined : await words(answer);
  const byAgent: Record<string, ReplayAnswer> = {};
  for (const [agent, one] of Object.entries(answers ?? {})) byAgent[agent] = await words(one);
  return ({ agent }) => ({ ...byAgent, ...(atPlace === undefined ? {} : { [agent ?? NO_AGENT]: atPlace }) });
}

/** A stored step as an answer: its text, and its tool calls as the chat interface writes them. */
function stepWords(text: string | null, content: unknown): ReplayAnswer {
  const parts = Array.isArray(content) ? (content as Record<string, unknown>[]) : [];
  const calls = parts.filter(({ type }) => type === 'tool_call');
  if (calls.length === 0) return text ?? '';
  return {
    content: text,
    tool_calls: calls.map(({ name, arguments: asked, arguments_raw: raw }) => ({
      type: 'function',
      function: {
        name: String(name),
        arguments: typeof raw === 'string' ? raw : typeof asked === 'string' ? asked : writtenArguments(asked ?? {}),
      },
    })),
  };
}
