/**
 * Long texts that the tables share with the log: a row holds the name of a body, as the event does. Which columns do is here, with the
 * SQL that reads one; whoever reads such a column of `facts` reads it by that, and the views of schema traj do the same.
 */
import { namedFiles, namedTexts } from '../../ingest/log/split.ts';
import type { Rows, Target } from './projection.ts';

/** What no event of the log has: contexts and texts of events derived from spans, or that were amended. */
export const BODIES: Target = {
  name: 'bodies',
  table: 'troupe.bodies',
  keys: { key: 'text', hash: 'uuid' },
  columns: { previous: 'uuid', body: 'text' },
  version: null,
};

/** The columns of `facts` that hold names, and whether as text or inside of JSON. Their rows have an `episode_id`. */
export const NAMED: Readonly<Record<string, Readonly<Record<string, 'text' | 'json'>>>> = {
  agents: { system_instructions: 'text' },
  calls: { requested_unmapped: 'json', completed_unmapped: 'json' },
  steps: { content: 'json' },
  messages: { text: 'text', content: 'json', unmapped: 'json' },
  tool_calls: { output: 'json', called_unmapped: 'json', returned_unmapped: 'json' },
  observations: { content: 'json', state: 'json', unmapped: 'json' },
};

/** What a row holds of this value of an event with this key, and the bodies that it names. */
export function named<Value>(key: string, value: Value): { readonly value: Value; readonly bodies: Rows } {
  const { value: short, bodies } = namedTexts(key, value);
  return { value: short as Value, bodies: [[BODIES, bodies]] };
}

/** The same, of which only images and files are named. */
export function withFilesNamed<Value>(key: string, value: Value): { readonly value: Value; readonly bodies: Rows } {
  const { value: short, bodies } = namedFiles(key, value);
  return { value: short as Value, bodies: bodies.length === 0 ? [] : [[BODIES, bodies]] };
}

/** A text column of `NAMED` as SQL, whole; `of` is the alias of its table. */
export const shownText = (of: string, column: string): string =>
  `case when starts_with(${of}.${column}, E'\\uFFFE#') then troupe.text_shown('e/' || ${of}.episode_id, ${of}.${column}) else ${of}.${column} end`;

/** A JSON column of `NAMED` as SQL, whole. */
export const shownJson = (of: string, column: string): string =>
  `case when position(E'"\\uFFFE#' in ${of}.${column}::text) > 0 then troupe.json_shown('e/' || ${of}.episode_id, ${of}.${column}) else ${of}.${column} end`;
