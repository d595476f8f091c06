/** What is noted of keys whose events lie in archives. */
import { query } from '../db/query.ts';

/** Keys of an archive that may come back: those of which nothing was erased since. */
export const restorable = (archiveId: string) =>
  query
    .selectFrom('troupe.pruned as p')
    .leftJoin('troupe.erased as e', 'e.key', 'p.key')
    .select(['p.key', 'p.in_tables'])
    .where('p.archive_id', '=', archiveId)
    .where((row) => row.or([row('p.erased', '=', true), row('e.key', 'is', null)]));

/**
 * A statement that makes the judge know again how far it had looked at episodes that come back into the tables of a schema: by the notes
 * `back`, which `ctes` defines.
 */
export const lookedAgain = (ctes: string, schema: string): string =>
  `with ${ctes},
     revised as (update ${schema}.episodes e set revision = b.revision from back b
                 where b.revision is not null and 'e/' || e.episode_id = b.key)
   insert into troupe.judged_revisions (episode_id, judge_set, revision)
   select substr(b.key, 3), j ->> 0, (j ->> 1)::bigint from back b cross join lateral json_array_elements(b.judged) j
   where b.judged is not null on conflict do nothing`;
