import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { plays, WORDS } from './support/plays.ts';
import { document, type Shell, shell } from './support/troupe.ts';

const STAGES = ['judge', 'freeze-solver', 'train-solver', 'gate'];

describe('a run of a plan that is killed', () => {
  let database: TestDatabase;
  let at: Shell;
  beforeEach(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
    const path = (name: string) => join(at.folder, name);
    writeFileSync(path('plays.jsonl'), lines(plays(24)));
    const config = {
      ...{ words: WORDS, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2 },
      ...{ num_key_value_heads: 2, max_position_embeddings: 32 },
    };
    writeFileSync(path('model.json'), JSON.stringify(config));
    const plan = {
      name: 'nightly',
      judge: [{ method: 'grpo_advantage' }],
      policies: {
        solver: {
          base: 'model',
          recipe: {
            roles: ['solver'],
            where: { field: 'reward', op: '>=', value: 1 },
            split: { held_out: 0.4, seed: 1 },
          },
          train: { method: 'sft', steps: 60, batch: 8, learning_rate: 0.02 },
        },
      },
      gate: { kind: 'offline' },
    };
    writeFileSync(path('nightly.yaml'), stringify(plan));
    for (const args of [
      ['import', 'plays.jsonl'],
      ['model', 'new', '--dir', 'model', '--config', 'model.json'],
    ])
      expect((await at.run([...args, '--quiet'])).code).toBe(0);
  });
  afterEach(async () => {
    at.remove();
    await database.close();
  });

  const rows = async (text: string) => (await database.db.query<Record<string, unknown>>(text)).rows;
  /** What a run leaves: weights, release, and how often each thing happened. */
  const left = async () => ({
    jobs: await rows(
      `select job_id, outcome from troupe.job_queue where starts_with(job_id, 'nightly-1') order by requested_at`,
    ),
    finished: await rows(
      `select key, count(*)::integer as n from troupe.events where name = 'job.finished' group by key order by key`,
    ),
    checkpoints: await rows('select checkpoint_id, job_id from facts.checkpoints'),
    steps: await rows(
      `select step, count(*)::integer as n from facts.job_metrics where name = 'loss' group by step order by step`,
    ),
    releases: await rows('select release_id, policies from facts.releases'),
    datasets: await rows('select dataset_id from facts.datasets'),
  });
  const finish = async () => {
    const ended = await at.run(['plan', 'run', 'nightly.yaml', '--json']);
    expect([ended.code, ended.err]).toEqual([0, '']);
    return document(ended);
  };

  it('at every stage goes on where it was: each stage ends once, and the weights are those of a run that nobody killed', async () => {
    // One run after the other over the same recorded episodes: the first is left alone.
    const whole = await finish();
    const wanted = await left();
    const weights = join(at.folder, 'home', 'checkpoints', whole.rounds[0].candidates.solver, 'model.safetensors');
    const bytes = readFileSync(weights);
    await database.db.query(`delete from troupe.job_queue`);
    await database.db.query(
      `delete from troupe.events where name like 'job.%' or name = 'checkpoint.saved' or name = 'policy.released'`,
    );
    for (const table of ['jobs', 'job_metrics', 'checkpoints', 'releases'])
      await database.db.query(`delete from facts.${table}`);

    let kills = 0;
    for (const stage of STAGES) {
      const running = at.start(['plan', 'run', 'nightly.yaml', '--json']);
      for (;;) {
        const [job] = await rows(`select state from troupe.job_queue where job_id = 'nightly-1/1/${stage}'`);
        if (job !== undefined && job.state !== 'waiting') break;
        await sleep(2);
      }
      running.child.kill('SIGKILL');
      kills += (await running.ended).signal === 'SIGKILL' ? 1 : 0;
    }
    expect(kills).toBe(STAGES.length);
    const again = await finish();
    expect(again).toMatchObject({ run: 'nightly-1', released: true });
    const after = await left();
    expect(after).toEqual(wanted);
    expect(after.jobs).toHaveLength(STAGES.length + 1);
    for (const { n } of [...after.finished, ...after.steps]) expect(n).toBe(1);
    expect(readFileSync(weights).equals(bytes)).toBe(true);
  }, 300_000);
});
