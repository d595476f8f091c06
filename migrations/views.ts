/**
 * The views, a file each in `views/SCHEMA/NAME.sql`. An upgrade takes them down before its numbered files and makes them again after them, in
 * the order of `views/order.txt`, all in its one transaction. So a file says what its view is, and no file what it was.
 *
 * What other people granted on them stays, and so do the views that other people built on them.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TroupeError } from '../errors.ts';
import type { Session } from '../store/db/pool.ts';

/** The schemas that readers see: facts and judgements, and the reports made of them. */
export const VIEW_SCHEMAS = ['traj', 'report'] as const;

export type Views = { readonly sha256: string; readonly sql: string };

/** The views of a folder of migrations; null where it has none. @throws TroupeError `internal` where a file and a line of the order are not one for one */
export function readViews(folder: string): Views | null {
  if (!existsSync(folder)) return null;
  const order = readFileSync(join(folder, 'order.txt'), 'utf8').split(/\s+/).filter(Boolean);
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.sql'))
    .map((file) => file.slice(0, -4).replaceAll(/[\\/]/g, '.'));
  const odd = [...files.filter((name) => !order.includes(name)), ...order.filter((name) => !files.includes(name))][0];
  if (odd !== undefined || files.length !== order.length)
    throw new TroupeError(
      'internal',
      `${join(folder, 'order.txt')} does not name each file once: ${odd ?? 'a repeated name'}.`,
    );
  const sql = order
    .map((name) => readFileSync(join(folder, `${name.replace('.', '/')}.sql`), 'utf8').replaceAll('\r\n', '\n'))
    .join('\n');
  return { sha256: createHash('sha256').update(sql).digest('hex'), sql };
}

/** A view that was taken down: `again` are the statements that bring back what is not in our files. */
type DroppedView = { readonly name: string; readonly kind: 'v' | 'm'; readonly again: readonly string[] };

/** Takes down every view of ours and what was built on it. @returns what `makeViews` needs to bring it back */
export async function takeDownViews(tx: Session): Promise<readonly DroppedView[]> {
  const { rows } = await tx.query<DroppedView>(DOWN);
  for (const { name, kind } of rows.toReversed())
    await tx.query(`drop ${kind === 'm' ? 'materialized ' : ''}view ${name}`);
  return rows;
}

/** @throws TroupeError `conflict` naming a view of other people that the views of now cannot carry */
export async function makeViews(tx: Session, views: Views, down: readonly DroppedView[]): Promise<void> {
  await tx.query(views.sql);
  for (const { name, again } of down) {
    for (const statement of again)
      await tx.query(statement).catch((error: Error) => {
        throw new TroupeError(
          'conflict',
          `The view ${name} is not Troupe's and reads what is another way from now on: ${error.message}. Drop it, start again, and make it anew. Nothing was changed.`,
          { cause: error },
        );
      });
  }
}

/** In the order in which they were made, so that none stands before one that it reads. What was granted on a view that is no more goes with it. */
const DOWN = `
  with recursive ours as (
    select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'v' and (n.nspname in (${VIEW_SCHEMAS.map((schema) => `'${schema}'`).join(', ')}) or c.oid = to_regclass('troupe.events'))
  ),
  reading (oid) as (
    select oid from ours
    union
    select r.ev_class from reading
    join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = reading.oid and d.classid = 'pg_rewrite'::regclass
    join pg_rewrite r on r.oid = d.objid
  ),
  named as (
    select c.*, format('%I.%I', n.nspname, c.relname) as name, c.oid in (select oid from ours) as is_ours
    from reading join pg_class c using (oid) join pg_namespace n on n.oid = c.relnamespace
  ),
  statements (oid, place, statement) as (
    select oid, 1, format('create %s %s %s as %s %s', case relkind when 'm' then 'materialized view' else 'view' end, name,
        (select 'with (' || string_agg(o, ', ') || ')' from unnest(reloptions) o), rtrim(pg_get_viewdef(oid), ';'),
        case when relkind = 'm' and not relispopulated then 'with no data' end)
    from named where not is_ours
    union all
    select oid, 2, format('alter %s %s owner to %I', case relkind when 'm' then 'materialized view' else 'view' end, name, pg_get_userbyid(relowner))
    from named where not is_ours and pg_get_userbyid(relowner) <> current_user
    union all
    select c.oid, 3, pg_get_indexdef(i.indexrelid) from named c join pg_index i on i.indrelid = c.oid
    union all
    select oid, 4, format('comment on %s %s is %L', case relkind when 'm' then 'materialized view' else 'view' end, name, obj_description(oid, 'pg_class'))
    from named where not is_ours and obj_description(oid, 'pg_class') is not null
    union all
    select c.oid, 5, format('comment on column %s.%I is %L', c.name, a.attname, col_description(c.oid, a.attnum))
    from named c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 where not is_ours and col_description(c.oid, a.attnum) is not null
    union all
    select g.oid, 6, format(
        case when g.is_ours then 'do $do$ begin if to_regclass(%L) is not null then %s; end if; end $do$' else '%2$s' end, g.name,
        format('grant %s %s on %s to %s %s', g.privilege_type, '(' || quote_ident(g.attname) || ')', g.name,
          case g.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end, case when g.is_grantable then 'with grant option' end))
    from (
      select c.oid, c.name, c.is_ours, c.relowner, null::name as attname, x.* from named c cross join lateral aclexplode(c.relacl) x
      union all
      select c.oid, c.name, c.is_ours, c.relowner, a.attname, x.*
      from named c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 cross join lateral aclexplode(a.attacl) x
    ) g
    where g.grantee <> g.relowner
  )
  select c.name, c.relkind::text as kind, coalesce((select json_agg(s.statement order by s.place) from statements s where s.oid = c.oid), '[]') as again
  from named c order by c.oid`;
