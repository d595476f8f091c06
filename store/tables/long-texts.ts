/**
 * Long texts that the tables share with the log: a row holds the name of a body, as the event does. Which columns do is declared with
 * their table, and here is the SQL that reads one; whoever reads such a column of `facts` reads it by that, and the views of schema traj do the same.
 */
import type { Target } from './projection.ts';

/** What no event of the log has: contexts and texts of events derived from spans, or that were amended. */
export const BODIES: Target = {
  name: 'bodies',
  table: 'troupe.bodies',
  keys: { key: 'text', hash: 'uuid' },
  columns: { previous: 'uuid', body: 'text' },
  version: null,
};

/** A text column that holds names as SQL, whole; `of` is the alias of its table. */
export const shownText = (of: string, column: string): string =>
  `case when starts_with(${of}.${column}, E'\\uFFFE#') then troupe.text_shown('e/' || ${of}.episode_id, ${of}.${column}) else ${of}.${column} end`;

/** A JSON column that holds names as SQL, whole. */
export const shownJson = (of: string, column: string): string =>
  `case when position(E'"\\uFFFE#' in ${of}.${column}::text) > 0 then troupe.json_shown('e/' || ${of}.episode_id, ${of}.${column}) else ${of}.${column} end`;
