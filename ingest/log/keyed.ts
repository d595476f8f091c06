/**
 * Settings for transactions whose statements are always the same and read by key: planning them again costs more than running them,
 * and statistics of a young table must not talk a plan into reading
 * all of it. Only statements with a name are planned once. Where a list of keys meets a table, `offset 0` has each key looked for by
 * itself: without it a plan made for a few rows hashes the whole table, and is kept while the table grows. A bound of the position stands
 * outside of it, or the plan of a partition that was empty walks along the positions instead.
 */
export const KEYED =
  'set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off; set local enable_nestloop = on; set local jit = off';
