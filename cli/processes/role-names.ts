/** The roles of `troupe run`. */
export const ROLE_NAMES = ['ingest', 'project', 'judge', 'work', 'infer', 'serve'];
