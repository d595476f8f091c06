import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { WORDS } from './support/plays.ts';
import { document, type Shell, shell } from './support/troupe.ts';

/** Each test starts several processes. */
const SLOW = 300_000;

/** Asks its policy once; every other sample is right. */
const TEAM = `
const response = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY },
  body: JSON.stringify({ model: process.argv[2], messages: [{ role: 'user', content: 'one plus two' }], max_tokens: 3 }),
});
if (!response.ok) throw new Error(response.status + ' ' + await response.text());
console.log(JSON.stringify({ reward: Number(process.env.TROUPE_SAMPLE) % 2 }));
`;

describe('troupe up, where nothing was released', () => {
  let database: TestDatabase;
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  const plan = (policy: string, more: object = {}) => {
    writeFileSync(
      path(`${policy}.yaml`),
      stringify({
        name: policy,
        rollout: { runner: policy, tasks: 'tasks.jsonl', samples: 2, serving_within_s: 60, ...more },
        judge: [{ method: 'grpo_advantage' }],
        policies: {
          [policy]: {
            base: policy === 'broken' ? 'nothing' : 'model',
            recipe: { unit: 'step', credit: 'grpo_advantage' },
            train: { method: 'rl', groups: 2, learning_rate: 0.01 },
          },
        },
        gate: { kind: 'manual' },
      }),
    );
    return path(`${policy}.yaml`);
  };

  beforeAll(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
    writeFileSync(path('team.mjs'), TEAM);
    const runner = (model: string) => ({
      ...{ command: [process.execPath, path('team.mjs'), model], reward: 'stdout', retries: 0 },
    });
    writeFileSync(
      path('troupe.yaml'),
      stringify({
        runners: Object.fromEntries(['solver', 'broken', 'outside'].map((name) => [name, runner(`policy:${name}`)])),
        upstreams: { far: { base_url: 'http://127.0.0.1:9/v1', token_ids: 'vllm', policies: ['outside'] } },
      }),
    );
    writeFileSync(path('tasks.jsonl'), lines([{ task_id: 'a' }, { task_id: 'b' }]));
    const config = {
      ...{ words: WORDS, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2 },
      ...{ num_key_value_heads: 2, max_position_embeddings: 32 },
    };
    writeFileSync(path('model.json'), JSON.stringify(config));
    const made = await at.run(['model', 'new', '--dir', path('model'), '--config', path('model.json')]);
    expect(made.code).toBe(0);
    await at.start(['up', '--port', '0', '--json']).waitForOutput(/"url".*\n/);
  }, SLOW);
  afterAll(async () => {
    at.remove();
    await database.close();
  });

  it(
    'serves the base of a policy as soon as a round waits for it',
    async () => {
      const run = await at.run(['plan', 'run', plan('solver'), '--json']);
      expect([run.code, document(run).state]).toEqual([7, 'undecided']);
      const { rows } = await database.db.query(
        `select spec -> 'bases' as bases, result -> 'policies' ->> 'solver' is not null as served
         from troupe.job_queue where job_id = 'solver-1/1/serving'`,
      );
      expect(rows).toEqual([{ bases: { solver: path('model') }, served: true }]);
    },
    SLOW,
  );

  it.each([
    ['that is not there', 'broken', 'nothing', 'cannot be trained from the weights in'],
    ['of a policy whose weights a server has that does not answer', 'outside', 'model', 'no process serves its base'],
  ])(
    'a base %s ends the run with a sentence that names it',
    async (_what, policy, base, why) => {
      const run = await at.run(['plan', 'run', plan(policy, { serving_within_s: 5 }), '--json']);
      expect(run.code).not.toBe(0);
      expect(document(run).error.message).toContain(`${why} ${path(base)}`);
    },
    SLOW,
  );
});
