import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { openAdapter } from '../../trainer/model/adapter-directory.ts';
import { mergeAdapter } from '../../trainer/model/lora.ts';
import { openModelForIds } from '../../trainer/model/model-directory.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { WORDS } from './support/plays.ts';
import { document, type Shell, shell } from './support/troupe.ts';

/** Several processes are started, and a run is killed. */
const SLOW = 400_000;

/** Two roles, each asked once by its own policy; every other sample is right. */
const TEAM = `
for (const role of ['planner', 'solver']) {
  const response = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY, 'troupe-role': role },
    body: JSON.stringify({ model: 'policy:' + role, messages: [{ role: 'user', content: 'one plus two' }], max_tokens: 3 }),
  });
  if (!response.ok) throw new Error(response.status + ' ' + await response.text());
}
console.log(JSON.stringify({ reward: Number(process.env.TROUPE_SAMPLE) % 2 }));
`;
const ROLES = ['planner', 'solver'] as const;
const LORA = { r: 2, alpha: 4, targets: ['q_proj', 'v_proj'] };

describe('a plan of two roles with an adapter each', () => {
  let database: TestDatabase;
  let at: Shell;
  let url: string;
  const path = (name: string) => join(at.folder, name);
  const troupe = async (code: number, ...args: string[]) => {
    const ended = await at.run([...args, '--json']);
    expect([args, ended.code, ended.err]).toEqual([args, code, expect.any(String)]);
    return document(ended);
  };

  /** Live episodes in which both roles answered, with these weights; the first `right` of ten have the reward 1. */
  const live = async (name: string, map: Readonly<Record<string, string>>, right: number): Promise<void> => {
    const time = new Date().toISOString();
    const events = Array.from({ length: 40 }, (_, i) => {
      const episode_id = `${name}-${i}`;
      const say = (type: string, id: string, data: object) => ({
        ...{ specversion: '1.0', type: `troupe.${type}.v1`, source: '/live', id: `${episode_id}/${id}`, time },
        data: { episode_id, ...data },
      });
      const reward = { kind: 'reward', name: 'reward', value: i % 10 < right ? 1 : 0 };
      return [
        say('episode.started', 'begin', { task_id: episode_id }),
        ...ROLES.map((policy) =>
          say('generation.completed', policy, {
            ...{ call_id: `${episode_id}-${policy}`, policy, checkpoint_id: map[policy], choices: [] },
          }),
        ),
        say('feedback.recorded', 'r', {
          ...{ feedback_id: `${episode_id}/r`, target: { kind: 'episode', id: episode_id, episode_id }, ...reward },
        }),
        say('episode.finished', 'end', { outcome: 'success' }),
      ];
    });
    writeFileSync(path(`${name}.jsonl`), lines(events.flat()));
    await troupe(0, 'import', path(`${name}.jsonl`));
  };

  beforeAll(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
    writeFileSync(path('team.mjs'), TEAM);
    const runner = { command: [process.execPath, path('team.mjs')], reward: 'stdout', retries: 0 };
    writeFileSync(path('troupe.yaml'), stringify({ runners: { team: runner } }));
    writeFileSync(path('tasks.jsonl'), lines([{ task_id: 'a' }, { task_id: 'b' }]));
    const config = {
      ...{ words: WORDS, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2 },
      ...{ num_key_value_heads: 2, max_position_embeddings: 32 },
    };
    writeFileSync(path('model.json'), JSON.stringify(config));
    await troupe(0, 'model', 'new', '--dir', path('model'), '--config', path('model.json'));
    const policy = (role: string) => ({
      base: 'model',
      recipe: { unit: 'step', roles: [role], credit: 'grpo_advantage' },
      train: { method: 'rl', groups: 2, learning_rate: 0.01, lora: LORA },
    });
    const plan = {
      ...{ name: 'roles', seed: 3, rounds: 2, rollout: { runner: 'team', tasks: 'tasks.jsonl', samples: 2 } },
      ...{ judge: [{ method: 'grpo_advantage' }], gate: { kind: 'manual' } },
      policies: Object.fromEntries(ROLES.map((role) => [role, policy(role)])),
    };
    writeFileSync(path('roles.yaml'), stringify(plan));
    const watch = { metric: 'reward', fall: 0.1, at_least: 20 };
    writeFileSync(path('watched.yaml'), stringify({ ...plan, name: 'watched', seed: 4, rounds: 1, watch }));
    const output = await at.start(['up', '--port', '0', '--json']).waitForOutput(/"url".*\n/);
    url = /http:\/\/[0-9.:]+/.exec(output)![0];
  }, SLOW);
  afterAll(async () => {
    at.remove();
    await database.close();
  });

  it(
    'releases both in one map, goes on with them over the base that stays as it is, and goes back to the ones before',
    async () => {
      const base = await openModelForIds(path('model'));
      expect((await troupe(7, 'plan', 'run', path('roles.yaml'))).state).toBe('undecided');
      expect((await troupe(7, 'gate', 'accept', 'roles-1')).state).toBe('undecided');
      const ended = await troupe(0, 'gate', 'accept', 'roles-1');
      const [first, second] = ended.rounds.map(({ candidates }: { candidates: object }) => candidates);
      const maps = await database.db.query('select policies from facts.releases order by version');
      expect(maps.rows.map(({ policies }) => policies)).toEqual([first, second]);

      for (const role of ROLES) {
        const line = await Promise.all(
          [first[role], second[role]].map(async (id) => {
            const { rows } = await database.db.query<{ uri: string }>(
              'select uri from traj.checkpoints where checkpoint_id = $1',
              [id],
            );
            const dir = rows[0]!.uri;
            return { ...(await openModelForIds(dir)), beside: await openAdapter(`${dir}-adapter`) };
          }),
        );
        for (const [i, { config, weights, meta, beside }] of line.entries()) {
          expect(beside).toMatchObject({ adapter: LORA, baseModel: path('model') });
          expect(meta).toMatchObject({
            adapter: { ...LORA, base: base.id },
            parent: i === 0 ? base.id : first[role],
            datasets: [expect.any(String)],
          });
          // The same additions in the same order: to the bit.
          expect(weights).toEqual(mergeAdapter(config, base.weights, beside.adapter, beside.weights));
          expect(weights).not.toEqual(base.weights);
        }
        const [one, two] = line.map(({ beside }) => beside.weights);
        expect(two).not.toEqual(one);
      }
      expect(first.planner).not.toBe(first.solver);
      const after = await openModelForIds(path('model'));
      expect([after.id, after.weights]).toEqual([base.id, base.weights]);

      const shown = await at.run(['plan', 'show', 'roles-1']);
      expect(shown.out).toContain(`checkpoint ${second.solver}, an adapter over ${base.id}`);
      const pruned = await troupe(
        0,
        'checkpoints',
        'prune',
        join(path('home'), 'checkpoints'),
        '--keep-last',
        '1',
        '--dry-run',
      );
      expect(pruned.removed).toEqual([]);
      const back = await troupe(0, 'rollback');
      expect(back.policies).toEqual(first);
    },
    SLOW,
  );

  it(
    'goes back with both at once where live episodes fall after a release, and both are answered as before',
    async () => {
      const before = (await troupe(0, 'policies')).items as { policy: string; released: string }[];
      const first = Object.fromEntries(before.map(({ policy, released }) => [policy, released]));
      await live('before', first, 8);
      expect((await troupe(7, 'plan', 'run', path('watched.yaml'))).state).toBe('undecided');
      const [{ candidates }] = (await troupe(0, 'gate', 'accept', 'watched-1')).rounds;
      for (const role of ROLES) expect(candidates[role]).not.toBe(first[role]);
      // No statement is possible about episodes that weights of both maps answered.
      await live('mixed', { planner: candidates.planner, solver: first.solver! }, 0);
      await live('after', candidates, 2);
      const inForce = async () => (await troupe(0, 'policies')) as { release_id: string; rolled_back: string };
      await expect
        .poll(async () => (await inForce()).release_id, { timeout: 60_000, interval: 500 })
        .toBe('watched-1/1/watch/rollback');
      expect((await inForce()).rolled_back).toContain('The metric fell: the mean reward of 40 live episodes is 0.2');
      const maps = await database.db.query('select policies from facts.releases order by version desc limit 1');
      expect(maps.rows).toEqual([{ policies: first }]);
      const serving = async () => {
        const { serving: all } = (await (await fetch(`${url}/readyz`)).json()) as {
          serving: { policy: string; checkpoint: string }[];
        };
        return Object.fromEntries(all.map(({ policy, checkpoint }) => [policy, checkpoint]));
      };
      await expect.poll(serving, { timeout: 60_000, interval: 500 }).toEqual(first);
    },
    SLOW,
  );
});
