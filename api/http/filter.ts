/** The query parameter `filter` of lists: the grammar of recipes over the fields of the list, with a time limit of its own. */
import { Type } from 'typebox';
import { TroupeError } from '../../errors.ts';
import type { Db, Session } from '../../store/db/pool.ts';

export const FILTER = Type.Optional(
  Type.String({ maxLength: 8192, description: 'a filter in one line, such as: reward >= 0.5 and tags.phase = rl' }),
);

/** Milliseconds that a statement of a filtered list may take. */
const LIMIT_MS = 20_000;

/** Reads in one transaction. @throws TroupeError `sql_timeout` where a statement runs past the limit */
export async function readFiltered<T>(db: Db, read: (tx: Session) => Promise<T>): Promise<T> {
  try {
    return await db.transaction(read, { readOnly: true, settings: `set local statement_timeout = ${LIMIT_MS}` });
  } catch (error) {
    if ((error as { code?: string }).code !== '57014') throw error;
    throw new TroupeError('sql_timeout', `The filtered list was not read within ${LIMIT_MS / 1000} s.`, {
      field: 'filter',
      hint: 'choose fewer rows, such as by task_id, team_id or a time',
      cause: error,
    });
  }
}

/** What the filter is read into. @throws TroupeError `usage` with the reason why it cannot be */
export async function asParameter<T>(read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof TroupeError)) throw error;
    throw new TroupeError('usage', error.message, { ...error.detail, field: 'filter' });
  }
}
