/** The option of commands that choose whole episodes by a filter. */
import type { Db } from '../store/db/pool.ts';
import { firstOf } from '../store/db/query.ts';
import { episodesMeeting, readEpisodeFilter } from '../store/filter/episode-filter.ts';
import { filterText } from '../store/filter/filter-text.ts';
import type { Filter } from '../store/filter/select.ts';
import { say } from './output.ts';

/**
 * Reads the filter, and warns on standard error about values that nothing has, and about a filter that matches no episode.
 * @param option name of the option, for errors
 * @throws TroupeError as `readEpisodeFilter`
 */
export async function episodeFilter(db: Db, text: string, option: string): Promise<Filter> {
  const { written, filter, warnings } = await readEpisodeFilter(db, text, option);
  for (const warning of warnings) say(warning);
  const found = await firstOf(db, episodesMeeting(filter).limit(1));
  if (!found) say(`No episode meets ${option} ${filterText(written)}.`);
  return filter;
}
