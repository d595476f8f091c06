/** A migrated database of its own for each test that asks, cloned from a template of the run's server. */
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { inject } from 'vitest';
import { type Db, openPool } from '../../store/db/pool.ts';
import type { TestServer } from './server.ts';

export type TestDatabase = {
  readonly db: Db;
  readonly url: string;
  /** Closes the pool and drops the database, whoever is still connected. */
  close(): Promise<void>;
};

let asked: Promise<string> | undefined;

/** The address of a database on the run's server, with the superuser's password. */
export async function testServerUrl(database = 'postgres'): Promise<string> {
  asked ??= askForServer();
  const url = new URL(await asked);
  url.pathname = `/${database}`;
  return url.href;
}

async function askForServer(): Promise<string> {
  const answer = JSON.parse(await text(connect(inject('testServerPort'), '127.0.0.1'))) as TestServer;
  if ('error' in answer) throw new Error(`The test server did not start: ${answer.error}`);
  return answer.template;
}

let administration: Promise<Db> | undefined;

/** A database with every migration applied and nothing in it. Call `close` when the test is over. */
export async function freshDatabase(options: { readonly max?: number } = {}): Promise<TestDatabase> {
  administration ??= testServerUrl().then((url) => openPool(url, { max: 2 }));
  const admin = await administration;
  const name = `test_${randomBytes(6).toString('hex')}`;
  await admin.query(`create database ${name} template template_troupe strategy file_copy`);
  const url = await testServerUrl(name);
  const db = openPool(url, { max: 5, ...options });
  return {
    db,
    url,
    close: async () => {
      await db.close();
      await admin.query(`drop database ${name} with (force)`);
    },
  };
}
