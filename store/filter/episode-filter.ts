/** A filter over whole episodes as options and query parameters take it: the grammar of recipes, or the same as a JSON tree. */
import { got, TroupeError } from '../../errors.ts';
import type { Session } from '../db/pool.ts';
import { query } from '../db/query.ts';
import { pinMethods, unknownValues } from './filter-check.ts';
import { type Filter, looksAt, lowerFilter, parseFilter } from './select.ts';

export type EpisodeFilter = {
  readonly written: Filter;
  /** The same with the key of each method it names. */
  readonly filter: Filter;
  /** One sentence for each value that nothing has. */
  readonly warnings: readonly string[];
};

/**
 * Reads the filter and checks it against the tables.
 * @param at name of the option or parameter, for errors
 * @throws TroupeError `usage` where it looks at single steps or is no JSON, `recipe_invalid` with the place of what is wrong,
 *   `not_found` where nothing was judged by a method it names
 */
export async function readEpisodeFilter(tx: Pick<Session, 'query'>, text: string, at: string): Promise<EpisodeFilter> {
  const written = readFilter(text, at);
  if (looksAt(written, 'step'))
    throw new TroupeError('usage', `${at} chooses whole episodes; a field of single steps cannot be used here.`, {
      field: at,
      expected: 'fields of episodes, tasks and groups',
      got: got(text),
      hint: 'count(steps where role = coder) > 0 finds the episodes with such a step',
    });
  const filter = await pinMethods(tx, written);
  return { written, filter, warnings: await unknownValues(tx, filter) };
}

/** The ids of the episodes that meet a filter whose methods are pinned, as a query. */
export const episodesMeeting = (filter: Filter) =>
  query
    .selectFrom('facts.episodes as e')
    .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
    .select('e.episode_id')
    .where(lowerFilter(filter));

/** A filter in either form. @throws TroupeError `usage` where it begins like JSON and is none, `recipe_invalid` */
export function readFilter(text: string, at: string): Filter {
  if (!text.trimStart().startsWith('{')) return parseFilter(text, at);
  let tree: unknown;
  try {
    tree = JSON.parse(text);
  } catch (cause) {
    const message = `${at} begins like JSON, but is none: ${got(text)}: ${(cause as Error).message}.`;
    throw new TroupeError('usage', message, { cause });
  }
  return parseFilter(tree, at);
}
