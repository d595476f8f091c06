/**
 * Facts name files of the home by the paths that they had when they were recorded, and facts never change. So the database knows where the
 * home is and where it was, and reads a path below a former folder as one below the folder of now.
 */
import type { Db, Session } from '../db/pool.ts';
import { countOf, query, scalarOf, sql } from '../db/query.ts';

export type Whereabouts = {
  /** Folders that the home had before. */
  readonly former: readonly string[];
  /** The folder that it has; null where that was never noted. */
  readonly root: string | null;
};

export const whereabouts = (session: Session): Promise<Whereabouts> =>
  scalarOf(session, sql<Whereabouts>`troupe.moved_home()`);

/** Notes the folder of the home, and that it was moved where another folder was noted before. */
export async function noteHome(db: Db, root: string): Promise<void> {
  if ((await whereabouts(db)).root === root) return;
  await db.transaction(async (tx) => {
    await scalarOf(tx, sql`pg_advisory_xact_lock(hashtext('troupe home'))::text`);
    const before = await whereabouts(tx);
    if (before.root !== root) await moveHome(tx, { former: [...before.former, before.root ?? root], root });
  });
}

/** Moves the home to `root`, which other folders had before. Archives and jobs, which are no facts, get the paths of now. */
export async function moveHome(tx: Session, { former, root }: Whereabouts & { readonly root: string }): Promise<void> {
  const others = [...new Set(former)].filter((folder) => folder !== root);
  const moved = JSON.stringify({ former: others, root }).replaceAll("'", "''");
  await tx.query(
    `create or replace function troupe.moved_home() returns json language sql immutable parallel safe
     begin atomic select '${moved}'::json; end`,
  );
  for (const folder of others) {
    const [from, to] = [`${folder}/`, `${root}/`];
    for (const column of ['uri', 'draft'] as const) {
      const path = sql.ref<string>(column);
      await countOf(
        tx,
        query
          .updateTable('troupe.archives')
          .set({ [column]: sql`${to}::text || substr(${path}, length(${from}::text) + 1)` })
          .where(sql<boolean>`starts_with(${path}, ${from})` as never),
      );
    }
    // A string of JSON that begins with the folder.
    const [quoted, replaced] = [from, to].map((path) => JSON.stringify(path).slice(0, -1));
    for (const column of ['spec', 'result'] as const) {
      const text = sql<string>`${sql.ref(column)}::text`;
      await countOf(
        tx,
        query
          .updateTable('troupe.job_queue')
          .set({ [column]: sql`replace(${text}, ${quoted}, ${replaced})::json` })
          .where(sql<boolean>`strpos(${text}, ${quoted}) > 0` as never),
      );
    }
  }
}
