import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { heldOut, playPlan, prepared } from './support/held-out.ts';
import { document, type Shell, shell } from './support/troupe.ts';

let database: TestDatabase;
let at: Shell;
beforeAll(async () => {
  database = await freshDatabase();
  at = shell({ DATABASE_URL: database.url });
  await prepared(at, heldOut(8));
}, 300_000);
afterAll(async () => {
  at.remove();
  await database.close();
});

const rows = async (text: string) => (await database.db.query<Record<string, unknown>>(text)).rows;

it('A run that is killed while either side plays counts no episode twice, and comes to the report of what was accepted', async () => {
  writeFileSync(join(at.folder, 'play.yaml'), stringify(playPlan('play')));
  let kills = 0;
  for (const side of ['incumbent', 'incumbent', 'candidate', 'candidate']) {
    const running = at.start(['plan', 'run', 'play.yaml', '--json']);
    for (;;) {
      const [now] = await rows(
        `select count(*) filter (where state = 'running')::int as running from troupe.job_queue
         where spec ->> 'rollout' = 'play-1/1/gate/${side}'`,
      );
      if (Number(now!.running) > 0) break;
      await sleep(2);
    }
    running.child.kill('SIGKILL');
    kills += (await running.ended).signal === 'SIGKILL' ? 1 : 0;
  }
  expect(kills).toBe(4);
  const ended = await at.run(['plan', 'run', 'play.yaml', '--json']);
  expect([ended.err, ended.code, document(ended).run]).toEqual(['', 0, 'play-1']);
  // Something was broken off, and each sample of each task was accepted once.
  const [stopped] = await rows(
    `select count(*)::int as n from troupe.job_queue where starts_with(spec ->> 'rollout', 'play-1/1/gate/') and error->>'code' = 'stopped'`,
  );
  expect(Number(stopped!.n)).toBeGreaterThan(0);
  const accepted = await rows(
    `select tags->>'side' as side, task_id, tags->>'sample' as sample, count(*)::int as n from facts.episodes
     where tags->>'gate' = 'play-1/1/gate' and group_id is not null group by 1, 2, 3`,
  );
  expect(accepted).toHaveLength(2 * 8 * 2);
  for (const { n } of accepted) expect(n).toBe(1);
  const means = await rows(
    `select tags->>'side' as side, avg(reward) as reward from facts.episodes
     where tags->>'gate' = 'play-1/1/gate' and group_id is not null group by 1 order by 1`,
  );
  const report = document(await at.run(['gate', 'show', 'play-1', '--json']));
  expect([report.main.tasks, report.left_out['not played by the candidate']]).toEqual([8, 0]);
  expect(report.main.candidate).toBeCloseTo(Number(means[0]!.reward), 12);
  expect(report.main.incumbent).toBeCloseTo(Number(means[1]!.reward), 12);
  const finished = await rows(
    `select key, count(*)::int as n from troupe.events where name = 'job.finished' group by key`,
  );
  for (const { n } of finished) expect(n).toBe(1);
  expect(await rows('select release_id from facts.releases')).toEqual([{ release_id: 'play-1/1' }]);
}, 600_000);
