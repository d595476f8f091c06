/**
 * What a rollout is asked for: tasks times samples by one runner. The samples of one task are a group.
 */
import { type Static, Type } from 'typebox';
import { got, TroupeError } from '../../../errors.ts';
import { hashId, isRecord, parseRecord } from '../../../ingest/events/json.ts';
import { needsEscape } from '../../../ingest/events/text.ts';
import { checkedSpec } from '../../queue/jobs/jobs.ts';
import { TeamVersionSpec } from '../team/version.ts';
import { Budget } from './budget-schema.ts';
import { groupId } from './ids.ts';
import { PlaceSpec, type ReplayPlace, ReplayRequest } from './replay.ts';
import { WeightsSpec } from './weights.ts';

const Task = Type.Object(
  { task_id: Type.String({ minLength: 1, maxLength: 512 }) },
  {
    additionalProperties: true,
    description: 'prompt or input is what is asked, answer the right answer; every field goes to the team',
  },
);
/** A task as it goes to the team. */
export type RolloutTask = Static<typeof Task>;

/** A filter over stored tasks, as text or tree. Its grammar is checked by `parseTaskFilter`, with better sentences. */
export const TasksWhere = Type.Union([Type.String({ minLength: 1 }), Type.Record(Type.String(), Type.Unknown())], {
  description: 'filter over stored tasks, such as "task.domain = airline and mean_reward < 0.8"',
});

/** A team and the version that it plays in. */
export const TeamAsked = Type.Object(
  {
    name: Type.String({ minLength: 1 }),
    definition: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'the version; the released one if left out' }),
    ),
  },
  { additionalProperties: false },
);

/** What anybody may ask for. */
export const AskedRollout = Type.Object(
  {
    runner: Type.String({ minLength: 1, description: 'name of a runner of the configuration' }),
    tasks: Type.Array(Task, { minItems: 1, description: 'what is to be solved' }),
    samples: Type.Integer({ minimum: 1, maximum: 10_000, description: 'episodes for each task: the size of a group' }),
    tags: Type.Optional(
      Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]), {
        description: 'tags of every episode',
      }),
    ),
    params: Type.Optional(
      Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]), {
        description: 'settings of the team in this rollout; tags of every episode too',
      }),
    ),
    policies: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'checkpoint of each policy, recorded with the episodes',
      }),
    ),
    seed: Type.Optional(Type.Integer({ minimum: 0, description: 'of which each sample gets one of its own' })),
    deadline_s: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        description: 'seconds from the request to the end, whatever is done by then',
      }),
    ),
    budget: Type.Optional(Budget),
    max_staleness: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'releases that the weights of an episode may be behind at the end; others are withheld',
      }),
    ),
    tasks_where: Type.Optional(TasksWhere),
    replay: Type.Optional(ReplayRequest),
  },
  { additionalProperties: false },
);
/** What a part of another job may ask for besides: weights that are not released, which only directories name. */
export const RolloutSpec = Type.Object(
  {
    ...AskedRollout.properties,
    weights: Type.Optional(Type.Record(Type.String(), WeightsSpec)),
    /** Of a replay, in the order of its groups: they are found when it is requested. */
    places: Type.Optional(Type.Array(PlaceSpec)),
    /** The version that the team plays in. */
    team: Type.Optional(TeamVersionSpec),
    /** The team plays once these policies can be answered with their weights. */
    awaits: Type.Optional(
      Type.Object({ policies: Type.Array(Type.String()), within_s: Type.Number({ exclusiveMinimum: 0 }) }),
    ),
  },
  { additionalProperties: false },
);
export type RolloutSpec = Static<typeof RolloutSpec>;
/** A rollout as it is requested: its tasks, a filter over the stored ones, or a replay, which has those of its sources; its team by name. */
export type RolloutRequest = Omit<RolloutSpec, 'tasks' | 'team' | 'places'> & {
  readonly tasks?: RolloutSpec['tasks'];
  readonly team?: Static<typeof TeamAsked>;
};

export const ROLLOUT = 'rollout';
/** A rollout's id stands before a slash in the ids of its episodes. That of one that is part of another job has slashes, and a hash stands there. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
/** Bytes of an id. */
const LONGEST_ID = 512;
/** Room for what follows the task in an episode's id: sample and attempt, and before them the place of a replay. */
const ID_TAIL = 20;
const PLACE_TAIL = 16;

/** @throws TroupeError `usage` for an id that cannot stand in the ids of episodes */
export function checkedRolloutId(id: string): string {
  if (ID.test(id)) return id;
  throw new TroupeError(
    'usage',
    `The id of a rollout should have 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit, but it is ${got(id)}.`,
  );
}

/** The spec of a rollout job. @throws TroupeError `usage` naming the field or the task */
export function rolloutSpec(id: string, spec: unknown): RolloutSpec {
  const checked = checkedSpec(RolloutSpec, spec);
  const tail = ID_TAIL + (checked.places === undefined ? 0 : PLACE_TAIL);
  const seen = new Set<string>();
  for (const { task_id } of checked.tasks) {
    if (seen.has(task_id))
      throw new TroupeError('usage', `The task ${got(task_id)} stands twice; each task_id should stand once.`);
    seen.add(task_id);
    if (needsEscape(task_id))
      throw new TroupeError('usage', `The task_id ${got(task_id)} should have no U+0000 and no half of a character.`);
    if (Buffer.byteLength(groupId(id, task_id, 0)) + tail > LONGEST_ID)
      throw new TroupeError(
        'usage',
        `The task_id ${got(task_id)} is too long: with the rollout's id it should have at most ${LONGEST_ID - tail} bytes.`,
      );
  }
  return checked;
}

/** Tasks as JSON lines: one object a line, with a task_id; a line without gets one made of its content. @throws TroupeError `usage` */
export function readTasks(text: string, from: string): RolloutTask[] {
  const tasks: RolloutTask[] = [];
  const lines = new Map<string, number>();
  for (const [i, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const parsed = parseRecord(line);
    const value = 'refusal' in parsed ? undefined : parsed.value;
    const where = `Line ${i + 1} of ${from}`;
    if (!isRecord(value)) throw new TroupeError('usage', `${where} should be a JSON object, but it is ${got(line)}.`);
    const { task_id = `task-${hashId(value)}` } = value;
    if (typeof task_id !== 'string' || task_id === '' || Buffer.byteLength(task_id) > LONGEST_ID)
      throw new TroupeError(
        'usage',
        `${where}: task_id should be a text of 1 to 512 bytes, but it is ${got(task_id)}.`,
      );
    const first = lines.get(task_id);
    if (first !== undefined)
      throw new TroupeError(
        'usage',
        'task_id' in value
          ? `The task ${got(task_id)} stands twice in ${from}, in lines ${first} and ${i + 1}; each task_id should stand once.`
          : `${where} is the same task as line ${first}, and neither has a task_id: give each its own, or leave one out.`,
      );
    lines.set(task_id, i + 1);
    tasks.push({ ...value, task_id });
  }
  if (tasks.length === 0)
    throw new TroupeError('usage', `${from} holds no tasks; it should hold one JSON object a line.`);
  return tasks;
}

/** One group of a rollout: the samples of a task, or those of a place of a replay, which are compared with each other. */
export type Group = { readonly group_id: string; readonly task: RolloutTask; readonly place: ReplayPlace | null };

/** The group that attempts name by this number. */
export function groupAt({ tasks, places }: Pick<RolloutSpec, 'tasks' | 'places'>, rollout: string, i: number): Group {
  const place = places?.[i] ?? null;
  const task = tasks[place?.task ?? i]!;
  return { group_id: groupId(rollout, task.task_id, place?.task ?? i, place === null ? undefined : i), task, place };
}

/** The groups of a rollout, in the order of their numbers. */
export const groupsOf = (rollout: string, spec: Pick<RolloutSpec, 'tasks' | 'places'>): Group[] =>
  (spec.places ?? spec.tasks).map((_, i) => groupAt(spec, rollout, i));

/** A seed of 31 bits for one sample: the same for every attempt at it. */
export const seedOf = (seed: number, taskId: string, sample: number): number =>
  Number.parseInt(hashId(seed, taskId, sample).slice(0, 8), 16) >>> 1;

/** The sampling settings of an attempt, and the settings of its team: at a replay those of the source, so that the team does the same again. */
export const drawnBy = (
  { seed = 0, params = {} }: Pick<RolloutSpec, 'seed' | 'params'>,
  { task, place }: Group,
  sample: number,
): { readonly seed: number; readonly params: NonNullable<RolloutSpec['params']> } => ({
  seed: place?.seed ?? seedOf(seed, task.task_id, sample),
  params: { ...place?.params, ...params },
});
