import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { chats, lines } from './support/chats.ts';
import { document, type Ended, type Shell, shell } from './support/troupe.ts';

const sentence = (ended: Ended) => {
  expect(ended.out).toBe('');
  expect(ended.err.trim().split('\n').length).toBeLessThanOrEqual(2);
  // A process of `troupe run` logs JSON Lines where nobody looks on.
  if (ended.err.startsWith('{'))
    expect(JSON.parse(ended.err.split('\n')[0]!)).toMatchObject({ level: 'error', msg: expect.stringMatching(/[.?]/) });
  else expect(ended.err).toMatch(/^troupe: .+[.?]\n/);
  return ended.err;
};

describe('starting where something is wrong', () => {
  let database: TestDatabase;
  let at: Shell;
  beforeAll(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
  });
  afterAll(async () => {
    at.remove();
    await database.close();
  });

  it('P54: a database that cannot be reached is reported in one line, ends with 5 and leaves nothing behind', async () => {
    const address = `postgres://ann:secret-word@127.0.0.1:${await freePort()}/troupe`;
    const file = join(import.meta.dirname, '../../package.json');
    for (const args of [['episodes'], ['run', 'serve', '--port', '0'], ['import', file]]) {
      const ended = await at.run([...args, '--database-url', address]);
      expect([args, ended.code]).toEqual([args, 5]);
      expect(sentence(ended)).not.toContain('secret-word');
    }
    expect(existsSync(join(at.folder, 'home'))).toBe(false);
    expect(readdirSync(at.folder)).toEqual([]);
    expect(document(await at.run(['episodes', '--json', '--database-url', address])).error.code).toBe('unreachable');
  });

  it('P54: a home that cannot be written is reported in one line', async () => {
    const blocked = shell();
    writeFileSync(join(blocked.folder, 'home'), 'a file in the way');
    const ended = await blocked.run(['episodes']);
    expect(ended.code).toBe(1);
    expect(sentence(ended)).toContain(join(blocked.folder, 'home'));
    blocked.remove();
  });

  it('P54: a schema that is newer than the program is refused and stays as it is', async () => {
    const newer = await freshDatabase();
    const dump = async () => (await newer.db.query('select * from troupe.migrations order by number')).rows;
    await newer.db.query(`insert into troupe.migrations (number, name, sha256) values (9999, 'tomorrow', 'ff')`);
    const before = await dump();
    for (const args of [['episodes'], ['run', 'project'], ['run', 'serve', '--port', '0']]) {
      const ended = await at.run([...args, '--database-url', newer.url]);
      expect([args, ended.code]).toEqual([args, 1]);
      expect(sentence(ended)).toMatch(/newer|later|9999/);
    }
    expect(await dump()).toEqual(before);
    await newer.close();
  });

  it('P54: a setting that is wrong ends with 2 and names where it came from', async () => {
    const odd = shell({ DATABASE_URL: database.url, TROUPE_PORT: 'seven' });
    const ended = await odd.run(['episodes']);
    expect(ended.code).toBe(2);
    expect(sentence(ended)).toMatch(/port \(from TROUPE_PORT in the environment\).*"seven"/);
    writeFileSync(join(at.folder, 'troupe.yaml'), 'prot: 7717\n');
    const typo = await at.run(['episodes']);
    expect(typo.code).toBe(2);
    expect(sentence(typo)).toMatch(/troupe\.yaml.*"prot"/);
    writeFileSync(join(at.folder, 'troupe.yaml'), '');
    odd.remove();
  });

  it('P54: a port that is taken is reported in one line, and the one that has it goes on', async () => {
    const port = String(await freePort());
    const first = at.start(['run', 'serve', '--port', port]);
    await first.waitForOutput(/answers at/);
    const second = await at.run(['run', 'serve', '--port', port]);
    expect(second.code).toBe(1);
    expect(sentence(second)).toMatch(new RegExp(`port ${port}`));
    const up = await at.run(['up', '--port', port]);
    expect(up.code).toBe(1);
    expect(sentence(up)).toMatch(new RegExp(`port ${port}`));
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
    first.child.kill('SIGTERM');
    expect(await first.ended).toMatchObject({ code: 0 });
  });
});

describe('an import that is cut off', () => {
  const home = { at: shell(), whole: '' };
  let file: string;
  const databases: TestDatabase[] = [];
  const checksumOf = async (url: string) =>
    document(await home.at.run(['checksum', '--json', '--database-url', url])).tables;
  const fresh = async (): Promise<TestDatabase> => {
    const made = await freshDatabase();
    databases.push(made);
    return made;
  };
  /** Starts an import and ends it with the signal once some of it is in the log. */
  const cutOff = async ({ db, url }: TestDatabase, signal: NodeJS.Signals) => {
    const running = home.at.start(['import', file, '--database-url', url]);
    for (;;) {
      const { rows } = await db.query<{ n: number }>('select count(*)::integer as n from troupe.events');
      if (rows[0]!.n > 500) break;
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    running.child.kill(signal);
    return running.ended;
  };
  let expected: Record<string, { rows: number; sha256: string }>;

  beforeAll(async () => {
    mkdirSync(join(home.at.folder, 'in'));
    file = join(home.at.folder, 'in', 'chats.jsonl');
    writeFileSync(file, lines(chats(3000)));
    const { url } = await fresh();
    expect(await home.at.run(['import', file, '--quiet', '--database-url', url])).toMatchObject({ code: 0 });
    expected = await checksumOf(url);
    expect(expected.steps!.rows).toBe(3000);
  });
  afterAll(async () => {
    home.at.remove();
    for (const one of databases) await one.close();
  });

  it('by Ctrl-C ends with 130 and a sentence, and a second run completes it', async () => {
    const database = await fresh();
    const ended = await cutOff(database, 'SIGINT');
    expect(ended.code).toBe(130);
    expect(ended.err).toContain('troupe: The import was interrupted');
    const again = document(await home.at.run(['import', file, '--json', '--database-url', database.url]));
    expect(again.events.rejected).toBe(0);
    expect(again.events.duplicates).toBeGreaterThan(0);
    expect(again.episodes).toBe(1500);
    expect(await checksumOf(database.url)).toEqual(expected);
  });

  it('P1: by kill -9 in the middle loses nothing: a second run gives what an undisturbed one gives', async () => {
    const database = await fresh();
    const ended = await cutOff(database, 'SIGKILL');
    expect(ended.signal).toBe('SIGKILL');
    const { rows } = await database.db.query<{ n: number }>('select count(*)::integer as n from troupe.events');
    const again = document(await home.at.run(['import', file, '--json', '--database-url', database.url]));
    expect(again.events.duplicates).toBe(rows[0]!.n);
    expect(await checksumOf(database.url)).toEqual(expected);
    const reconciled = document(await home.at.run(['reconcile', '--json', '--database-url', database.url]));
    expect(reconciled.ok).toBe(true);
  });

  it('in several files and another order gives the same tables', async () => {
    const folder = join(home.at.folder, 'parts');
    mkdirSync(folder);
    const records = chats(3000);
    const mixed = records.map((_, i) => records[(i * 1999) % records.length]!);
    for (let part = 0; part < 4; part++)
      writeFileSync(join(folder, `${3 - part}.jsonl`), lines(mixed.slice(part * 750, part * 750 + 750)));
    const { url } = await fresh();
    const report = document(await home.at.run(['import', folder, '--json', '--database-url', url]));
    expect(report).toMatchObject({ files: 4, episodes: 1500, calls: 3000, errors: [] });
    expect(await checksumOf(url)).toEqual(expected);
  });
});

const data = process.env.TROUPE_DATA ?? '';

describe.skipIf(!data)('published conversations of a service desk (TROUPE_DATA names their folder)', () => {
  const file = join(data, 'data/tau-bench/gpt-4o-airline.json');
  const at = shell();
  const databases: TestDatabase[] = [];
  const imported = async (paths: readonly string[]) => {
    const database = await freshDatabase();
    databases.push(database);
    const report = document(await at.run(['import', ...paths, '--json', '--database-url', database.url]));
    const { tables } = document(await at.run(['checksum', '--json', '--database-url', database.url]));
    return { report, tables, database };
  };
  afterAll(async () => {
    at.remove();
    for (const one of databases) await one.close();
  });

  it('have the same checksums reordered, split and pretty-printed, and a part first changes nothing', async () => {
    const { readFile, writeFile } = await import('node:fs/promises');
    const records = JSON.parse(await readFile(file, 'utf8')) as unknown[];
    const put = async (name: string, value: unknown, indent = 0) => {
      await writeFile(join(at.folder, name), JSON.stringify(value, null, indent));
      return join(at.folder, name);
    };
    const whole = await imported([file]);
    expect(whole.report).toMatchObject({ episodes: 140, tasks: 35, calls: 2023, tool_calls: 1001, errors: [] });

    const reordered = await imported([await put('reordered.json', [...records].reverse(), 2)]);
    expect(reordered.tables).toEqual(whole.tables);
    const split = await imported([await put('b.json', records.slice(50)), await put('a.json', records.slice(0, 50))]);
    expect(split.tables).toEqual(whole.tables);

    const part = await imported([await put('part.json', records.slice(0, 30))]);
    expect(part.tables).not.toEqual(whole.tables);
    const rest = document(await at.run(['import', file, '--json', '--database-url', part.database.url]));
    expect(rest.events.duplicates).toBe(part.report.events.accepted);
    const after = document(await at.run(['checksum', '--json', '--database-url', part.database.url]));
    expect(after.tables).toEqual(whole.tables);
    // Five imports of 31 MB of events: half a minute alone, and other workers take their share.
  }, 240_000);
});
