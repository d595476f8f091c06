/** A filter over whole episodes as an option takes it: the grammar of recipes, or the same as a JSON tree. */
import { got, TroupeError } from '../errors.ts';
import type { Db } from '../store/db/pool.ts';
import { firstOf, query, sql } from '../store/db/query.ts';
import { pinMethods, unknownValues } from '../store/filter-check.ts';
import { filterText } from '../store/filter-text.ts';
import { type Filter, looksAt, lowerFilter, parseFilter } from '../store/select.ts';
import { say } from './output.ts';

/**
 * Reads the filter, and warns on standard error about values that nothing has, and about a filter that matches no episode.
 * @param option name of the option, for errors
 * @throws TroupeError `usage` where it looks at single steps or is no JSON, `recipe_invalid` with the place of what is wrong
 */
export async function episodeFilter(db: Db, text: string, option: string): Promise<Filter> {
  const written = readFilter(text, option);
  if (looksAt(written, 'step'))
    throw new TroupeError('usage', `${option} chooses whole episodes; a field of single steps cannot be used here.`);
  const filter = await pinMethods(db, written);
  for (const warning of await unknownValues(db, filter)) say(warning);
  const found = await firstOf(
    db,
    query
      .selectFrom('facts.episodes as e')
      .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
      .select(sql`1`.as('one'))
      .where(lowerFilter(filter))
      .limit(1),
  );
  if (!found) say(`No episode meets ${option} ${filterText(written)}.`);
  return filter;
}

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
