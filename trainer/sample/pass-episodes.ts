/** A forward pass over recorded episodes, part by part: what the commands print or record, and what a plan records before it judges. */

import { groupBy } from '../../ingest/events/group-by.ts';
import type { EventLog } from '../../ingest/log/log.ts';
import type { Db } from '../../store/db/pool.ts';
import { query, rowsOf } from '../../store/db/query.ts';
import { type Filter, lowerFilter } from '../../store/filter/select.ts';
import type { OpenModel } from '../model/model-directory.ts';
import {
  type Pass,
  type PassRow,
  type RefusedStep,
  readable,
  recordPass,
  runPass,
  tokenSteps,
  unrecorded,
} from './passes.ts';
import { Policy } from './policy.ts';

/** Episodes read at once. */
const EPISODES_AT_ONCE = 100;
/** Tokens from one append, and one report, to the next. */
const TOKENS_AT_ONCE = 16_384;

/** What a pass came to: rows that the model could read, of which some were recorded anew and some known, and steps that it refused. */
export type PassSummary = {
  readonly rows: number;
  readonly recorded: number;
  readonly known: number;
  readonly tokens: number;
  readonly refused: readonly RefusedStep[];
};

/**
 * Runs a pass over episodes. With a log the results are appended to it, and those that are there already are not computed again.
 * @throws TroupeError `model_unsupported`, `checkpoint_damaged`
 */
export async function passEpisodes(
  episodes: readonly string[],
  pass: Pass,
  {
    db,
    log,
    model,
    threads,
    now,
    onPart,
  }: {
    readonly db: Pick<Db, 'query'>;
    readonly log: Pick<EventLog, 'append'> | null;
    readonly model: OpenModel;
    readonly threads: number;
    readonly now: () => Date;
    readonly onPart: (part: {
      readonly rows: readonly PassRow[];
      readonly numbers: readonly (readonly number[])[];
      /** Episodes done, as a fraction where one is under way, and tokens so far. */
      readonly done: number;
      readonly tokens: number;
    }) => void | Promise<void>;
  },
): Promise<PassSummary> {
  const policy = await Policy.load(model.config, model.weights, { threads });
  const refused: RefusedStep[] = [];
  const counts = { rows: 0, recorded: 0, known: 0, tokens: 0 };
  try {
    for (let first = 0; first < episodes.length; first += EPISODES_AT_ONCE) {
      const part = episodes.slice(first, first + EPISODES_AT_ONCE);
      const steps = groupBy(await tokenSteps(db, part), ({ episode_id }) => episode_id);
      const asked = [...steps.values()].map((own) => pass.rows(own));
      const fit = readable(
        asked.flatMap(({ rows }) => rows),
        model.config,
      );
      refused.push(...asked.flatMap((one) => one.refused), ...fit.refused);
      const wanted = log === null ? fit.rows : await unrecorded(db, pass, fit.rows, model.id);
      counts.rows += fit.rows.length;
      counts.known += fit.rows.length - wanted.length;
      let done = 0;
      for (const rows of inParts(wanted)) {
        const numbers = await runPass(pass, rows, policy);
        counts.tokens += numbers.reduce((sum, row) => sum + row.length, 0);
        if (log !== null) {
          const origin = { checkpoint: model.id, time: now().toISOString() };
          const fresh = await recordPass(log, pass, rows, numbers, origin);
          counts.recorded += fresh;
          counts.known += rows.length - fresh;
        }
        done += rows.length;
        await onPart({ rows, numbers, done: first + (part.length * done) / wanted.length, tokens: counts.tokens });
      }
      await onPart({ rows: [], numbers: [], done: first + part.length, tokens: counts.tokens });
    }
  } finally {
    await policy.close();
  }
  return { ...counts, refused };
}

/** How many episodes meet a filter; null: all. */
export const countEpisodes =
  (db: Pick<Db, 'query'>) =>
  async (where: Filter | null): Promise<number> =>
    (await episodesWhere(db, where)).length;

/** Ids of the episodes that a filter takes, in order; of all where it is null. */
export async function episodesWhere(db: Pick<Db, 'query'>, where: Filter | null): Promise<string[]> {
  const all = query
    .selectFrom('facts.episodes as e')
    .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
    .select('e.episode_id')
    .orderBy('e.episode_id');
  const rows = await rowsOf(db, where === null ? all : all.where(lowerFilter(where)));
  return rows.map(({ episode_id }) => episode_id);
}

/** Why steps were refused, with how many. */
export const reasonsOf = (refused: readonly RefusedStep[]): Record<string, number> =>
  Object.fromEntries([...groupBy(refused, ({ reason }) => reason)].map(([reason, steps]) => [reason, steps.length]));

/** Rows of so many tokens together; at least one. */
function* inParts(rows: readonly PassRow[]): Generator<PassRow[]> {
  let part: PassRow[] = [];
  let tokens = 0;
  for (const row of rows) {
    const length = row.promptIds.length + row.tokenIds.length;
    if (part.length > 0 && tokens + length > TOKENS_AT_ONCE) {
      yield part;
      part = [];
      tokens = 0;
    }
    part.push(row);
    tokens += length;
  }
  if (part.length > 0) yield part;
}
