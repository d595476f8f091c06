/** The database is lost and the topic is kept, or the other way round: what is there afterwards, and what has to be done. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { adopt, lookToAdopt } from '../../store/log/adopt.ts';
import { bringIn } from '../../store/log/follow.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { fileTarget, writeBackup } from '../../store/server/backup/backup.ts';
import { fileSource, restoreBackup } from '../../store/server/backup/restore.ts';
import { openHome } from '../../store/server/home.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode } from './support/events.ts';
import { type MemoryTopic, memoryTopic } from './support/memory-topic.ts';
import { tablesOf } from './support/tables.ts';

let folder: string;
let fresh: TestDatabase;
let other: TestDatabase;
let topic: MemoryTopic;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'troupe-losses-'));
  fresh = await freshDatabase();
  other = await freshDatabase();
  topic = memoryTopic('t', 2);
});
afterEach(async () => {
  await fresh.close();
  await other.close();
  rmSync(folder, { recursive: true });
});
const [first, second] = [anEpisode('e1'), anEpisode('e2')];
const file = () => join(folder, 'backup.tar.gz');
const backup = () =>
  writeBackup(fresh.db, fileTarget(file()), {
    ...{ home: openHome(join(folder, 'home')), project: 'troupe', version: '0', now: new Date() },
  });
const restore = () =>
  restoreBackup(other.db, fileSource(file()), { home: openHome(join(folder, 'other')), project: 'troupe' });

describe('The database is lost and the topic is kept', () => {
  it('with a backup: the restored project reads on from its position, and has what it had', async () => {
    topic.append(first);
    await bringIn(fresh.db, topic.source);
    await backup();
    topic.append(second);
    await bringIn(fresh.db, topic.source);
    const lost = await checksum(fresh.db);

    await restore();
    expect(await bringIn(other.db, topic.source)).toBe(second.length);
    expect(await checksum(other.db)).toEqual(lost);
    expect((await reconcile(other.db)).ok).toBe(true);
  });

  it('without one: a new database reads all that the topic still holds', async () => {
    topic.append([...first, ...second]);
    await bringIn(fresh.db, topic.source);
    await bringIn(other.db, topic.source);
    expect(await checksum(other.db)).toEqual(await tablesOf([...first, ...second], 100));
    expect(await checksum(other.db)).toEqual(await checksum(fresh.db));
  });
});

describe('The topic is lost and the database is kept', () => {
  it('what was read stays, an empty topic is adopted, and what is sent again or new comes in once', async () => {
    topic.append(first);
    await bringIn(fresh.db, topic.source);
    topic.append(second.slice(0, 6));
    topic.replace('b', 2);
    await expect(bringIn(fresh.db, topic.source)).rejects.toMatchObject({ code: 'log_replaced' });

    const { known } = await lookToAdopt(fresh.db, topic.source);
    await adopt(fresh.db, topic.source, { known, partitions: 2 });
    topic.append([...first, ...second]);
    await bringIn(fresh.db, topic.source);
    expect(await checksum(fresh.db)).toEqual(await tablesOf([...first, ...second], 100));
    expect((await reconcile(fresh.db)).ok).toBe(true);
  });
});
