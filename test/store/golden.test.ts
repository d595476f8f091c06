/** Logs recorded with earlier releases, and what their tables were then: this release reads them to the same. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeText } from '../../ingest/events/decode.ts';
import { typeOf, VOCABULARY } from '../../ingest/events/events.ts';
import { ESCAPED_FLAG } from '../../ingest/events/text.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { freshDatabase } from '../support/database.ts';
import { asStored } from './support/as-stored.ts';

const FOLDER = join(import.meta.dirname, 'golden');
const releases = readdirSync(FOLDER).flatMap((name) => /^(.+)\.jsonl$/.exec(name)?.[1] ?? []);
const linesOf = (release: string): string[] =>
  readFileSync(join(FOLDER, `${release}.jsonl`), 'utf8')
    .trim()
    .split('\n');

/** Events that came after these releases. */
const LATER_EVENTS = ['schedule.changed', 'schedule.skipped'];

/** Columns that came after these releases, by table. */
const LATER = {
  calls_then: ['task_id', 'group_id'],
  episodes: [
    'started_task_id',
    'started_group_id',
    'spoke_policies',
    'spoke_checkpoints',
    'spoke_weights',
    'task_version',
  ],
  tool_calls: ['returned_flags', 'parent_tool_call_id'],
  releases: ['teams'],
};

/**
 * What calls read, as those releases held it: the hash of each message, and each message of an episode once. What had no column repeated
 * the whole span. Columns have the names and types that they had then.
 */
const AS_THEN = `
  do $$ declare one record; begin
    for one in select c.relname as name, a.attname as field from pg_class c join pg_attribute a on a.attrelid = c.oid
               where c.relnamespace = 'facts'::regnamespace and c.relkind = 'r' and a.attname like '%unmapped' loop
      execute format($sql$
        update facts.%1$I t set %2$I = replace(t.%2$I::text, '"otlp":' || (t.%2$I -> 'otlp')::text, '"otlp":' || (e.data -> 'item')::text)::json
        from troupe.events e
        where e.name = 'span.recorded' and e.data -> 'item' -> 'span' ->> 'spanId' = t.%2$I -> 'otlp' -> 'span' ->> 'spanId'$sql$, one.name, one.field);
    end loop;
  end $$;
  create table facts.message_bodies as
    select distinct on (v.episode_id, h.hash) v.episode_id, h.hash, v.role, v.sender as name, v.text, v.content
    from facts.calls c cross join lateral troupe.messages_of('e/' || c.episode_id, c.context) m
    join traj.messages v on v.episode_id = c.episode_id and v.call_id = c.call_id and v.kind = 'input' and v.place = m.place
    cross join lateral (select substr(encode(sha256(convert_to('[' || m.message || ']', 'UTF8')), 'hex'), 1, 32) as hash) h;
  create table facts.calls_then as
    select c.*, case when c.context is not null then (
      select coalesce(array_agg(substr(encode(sha256(convert_to('[' || m.message || ']', 'UTF8')), 'hex'), 1, 32) order by m.place), '{}')
      from troupe.messages_of('e/' || c.episode_id, c.context) m) end as input
    from facts.calls c;
  alter table facts.calls_then drop column context;
  drop schema traj, report cascade;
  drop index facts.episodes_tags, facts.tasks_tags;
  alter table facts.episodes alter column tags type json using replace(tags::text, '": ', '":')::json, alter column flags type json, alter column policies type json;
  alter table facts.tasks alter column tags type json;
  alter table facts.teams alter column tags type json;
  alter table facts.feedback rename column author to "by";
  alter table facts.feedback rename column occurred_at to at;
  alter table facts.decisions rename column author to "by";
  alter table facts.decisions rename column occurred_at to at;
  alter table facts.observations rename column occurred_at to at;
  alter table facts.job_metrics rename column occurred_at to at;
  alter table facts.releases rename column author to "by";
  alter table facts.tool_calls rename column tool_index to index`;

describe('A log recorded with an earlier release', () => {
  it('is there, with every event that those releases knew', () => {
    const types = new Set(releases.flatMap(linesOf).map((line) => JSON.parse(line).type));
    expect([...types].sort()).toEqual(
      Object.keys(VOCABULARY)
        .filter((name) => !LATER_EVENTS.includes(name))
        .map((name) => typeOf(name as never, 1))
        .sort(),
    );
  });

  it.each(releases)('P18: %s replays to the tables that were kept for it', async (release) => {
    const kept = JSON.parse(readFileSync(join(FOLDER, `${release}.checksum.json`), 'utf8')) as {
      tables: Record<string, { rows: number; sha256: string }>;
    };
    const events = linesOf(release).map((line) => {
      const { event, refusal } = decodeText(line);
      if (refusal) throw new Error(`${line.slice(0, 200)} is refused now: ${JSON.stringify(refusal)}`);
      const { flags = [] } = event.data as { flags?: readonly string[] };
      return flags.includes(ESCAPED_FLAG) ? event : asStored(event, JSON.parse(line).data);
    });
    const fresh = await freshDatabase();
    try {
      await postgresLog(fresh.db).append(events);
      await projectAll(fresh.db);
      await fresh.db.query(AS_THEN);
      for (const [table, columns] of Object.entries(LATER)) {
        await fresh.db.query(
          `alter table facts.${table} ${columns.map((one) => `drop column ${one} cascade`).join(', ')}`,
        );
      }
      const { calls_then: calls, ...others } = (await checksum(fresh.db)).tables;
      const now = { tables: { ...others, calls: calls! } as typeof kept.tables };
      // A table or column that came later is none of its business; judgements are made by judging again.
      for (const [name, table] of Object.entries(kept.tables)) expect([name, now.tables[name]]).toEqual([name, table]);
      expect(Object.values(kept.tables).filter(({ rows }) => rows > 0).length).toBeGreaterThan(12);
    } finally {
      await fresh.close();
    }
  });
});
