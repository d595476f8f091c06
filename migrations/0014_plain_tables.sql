--! plain tables: the hash partitions go
-- Sixteen partitions a table cost 1,200 relations, 10 to 15 ms of planning for the read of one episode, and half the time of a rebuild.
-- A new database has never had them (migrate.ts leaves them out of the files before this one); here the tables of an older one are copied.
-- Views are replaced in place, so that what was granted on them and what was built on them stays.
do $$
declare
  one record;
  texts jsonb;
begin
  create temp table partitioned on commit drop as
    select c.oid, n.nspname as schema, c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'p' and n.nspname in ('troupe', 'facts');
  if not exists (select from partitioned) then return; end if;

  select jsonb_agg(jsonb_build_object('name', v.name, 'text', pg_get_viewdef(v.oid))) into texts
  from (
    select distinct c.oid, format('%I.%I', n.nspname, c.relname) as name
    from partitioned p
    join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = p.oid and d.classid = 'pg_rewrite'::regclass
    join pg_rewrite r on r.oid = d.objid
    join pg_class c on c.oid = r.ev_class and c.relkind = 'v'
    join pg_namespace n on n.oid = c.relnamespace
  ) v;

  create schema partitioned;
  for one in select * from partitioned loop
    execute format('alter table %I.%I set schema partitioned', one.schema, one.name);
    execute format('create table %I.%I (like partitioned.%2$I including all)', one.schema, one.name);
    execute format('insert into %I.%I select * from partitioned.%2$I', one.schema, one.name);
    execute format('analyze %I.%I', one.schema, one.name);
  end loop;
  for one in select * from jsonb_to_recordset(texts) as t (name text, text text) loop
    execute format('create or replace view %s as %s', one.name, one.text);
  end loop;
  for one in select * from partitioned loop
    execute format('drop table partitioned.%I', one.name);
  end loop;
  drop schema partitioned;
end $$;
