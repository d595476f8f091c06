/**
 * Ids of groups and of their episodes. They are made of what they name, so a rollout that goes on after its worker died names the same
 * episodes.
 */
import { hashId } from '../../../ingest/events/json.ts';
import { type SqlBool, sql } from '../../db/query.ts';

/**
 * What stands before the first slash in the ids of a rollout's episodes: its own id. That of one that is part of another job has slashes and
 * names run, round and stage; an episode's id stands in some fifty rows, so there it is a hash of 60 bits, after a character with which no
 * id begins that somebody gives.
 */
const beginningOf = (rollout: string): string =>
  rollout.includes('/') ? `_${BigInt(`0x${hashId(rollout).slice(0, 15)}`).toString(36)}` : rollout;

/** Ids of episodes of rollouts that are parts of other jobs, beside others that look like them: as they are now, and as they were. */
export const MAY_BE_PART = /^(?:_[0-9a-z]+\/\d|.+\/(?:rollout|gate\/(?:incumbent|candidate))\/.)/s;

/** What the samples of the task of this number are compared in. @param place of a replay: the number of its group */
export function groupId(rollout: string, taskId: string, task: number, place?: number): string {
  const group = `${beginningOf(rollout)}/${rollout.includes('/') ? task : taskId}`;
  return place === undefined ? group : `${group}/from/${place}`;
}

/** Ids of episodes of a replay, beside others that look like them. */
export const MAY_REPLAY = /\/from\/\d+\/\d+(?:\/a\d+)?$/;

/** Attempts after the first end with `/a1`, `/a2` …, so that no two ids are equal whatever the tasks are called. */
export const episodeId = (group: string, sample: number, attempt: number): string =>
  `${group}/${sample}${attempt === 0 ? '' : `/a${attempt}`}`;

/** Whether the id in this column goes on after this one and a slash. Ids are compared byte by byte, and `0` follows `/`. */
export const below = (column: string, id: string) =>
  sql<SqlBool>`(${sql.ref(column)} >= ${`${id}/`} and ${sql.ref(column)} < ${`${id}0`})`;

/** In older homes the ids of a rollout that is part of another job begin with its whole id. */
const beginningsOf = (rollout: string): string[] => [...new Set([rollout, beginningOf(rollout)])];

/** Whether the episode or attempt in this column is of one of these rollouts. */
export const playedIn = (column: string, ...rollouts: readonly string[]) =>
  sql<SqlBool>`(${sql.join([sql`false`, ...rollouts.flatMap(beginningsOf).map((id) => below(column, id))], sql` or `)})`;

/** Whether an episode is of this rollout. */
export const isPlayedIn = (episode: string, rollout: string): boolean =>
  beginningsOf(rollout).some((id) => episode.startsWith(`${id}/`));
