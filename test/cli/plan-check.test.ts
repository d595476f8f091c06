import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { teamPlays, WORDS } from './support/plays.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

describe('what plan check says of each role', () => {
  let database: TestDatabase;
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  const done = async (...args: string[]) => document(await at.run([...args, '--json']));
  const planned = (name: string, train: object, more: object = {}) => {
    const recipe = { unit: 'step', credit: 'grpo_advantage' };
    const policies = { team: { base: 'model', from: 'base', recipe, train } };
    const judge = [{ method: 'grpo_advantage' }];
    writeFileSync(path(`${name}.yaml`), stringify({ name, judge, policies, gate: { kind: 'manual' }, ...more }));
    return path(`${name}.yaml`);
  };
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    const local = { kind: 'reward', name: 'local', value: 1 };
    const own = {
      ...{ specversion: '1.0', type: 'troupe.feedback.recorded.v1', source: '/made-up', id: 'own' },
      time: '2026-10-01T00:00:00Z',
      data: {
        ...{ feedback_id: 'own', ...local },
        target: { kind: 'step', id: 'play-0-0-call/0', episode_id: 'play-0-0' },
      },
    };
    writeFileSync(path('plays.jsonl'), lines([...teamPlays(6), own]));
    await done('import', path('plays.jsonl'));
    await done('judge', '--methods', 'grpo_advantage');
    writeFileSync(path('words.txt'), WORDS.join('\n'));
    const size = ['--hidden', '16', '--layers', '1', '--heads', '2', '--context', '32'];
    await done('model', 'new', '--dir', path('model'), '--words', path('words.txt'), ...size);
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  it('its optimizer steps, what they come to with their learning rate, and the share of groups with a signal', async () => {
    const rl = { method: 'rl', groups: { solver: 2, checker: 6 }, learning_rate: { solver: 1e-3, checker: 2e-3 } };
    const { policies, notes, problems } = await done(
      'plan',
      'check',
      planned('by-role', rl, {
        policies: {
          team: {
            ...{ base: 'model', from: 'base', train: rl },
            recipe: { unit: 'step', credit: 'grpo_advantage', roles: ['solver', 'checker'] },
          },
        },
      }),
    );
    expect(problems).toEqual([]);
    // Six groups, each with right and wrong answers.
    expect(policies.team.by_role).toEqual({
      solver: { steps: 3, learning_rate: 1e-3, moved: 3e-3, signal: 1 },
      checker: { steps: 1, learning_rate: 2e-3, moved: 2e-3, signal: 1 },
    });
    expect(notes).toContainEqual(
      'team, solver: 3 optimizer steps at a learning rate of 0.001, 0.003 together, if 100 % of its groups have a signal as before. No training of team by rl has moved this role yet.',
    );
  });

  it('a run of one step, a role of many more steps than another, and rewards that nothing reads', async () => {
    const once = (await done('plan', 'check', planned('once', { method: 'rl' }))).notes;
    expect(once).toContainEqual(
      expect.stringMatching(/^team is trained by one optimizer step of each role: .*rollout.iterations/),
    );
    expect(once).toContainEqual(
      '1 reward of steps named local is read by no method that runs; drmas_advantage{"reward_name":"local"} would read it.',
    );
    const apart = async (checker: number) =>
      (
        await done('plan', 'check', planned('apart', { method: 'sft', steps: { solver: 2, checker }, batch: 2 }))
      ).notes.filter((note: string) => note.includes('may undo'));
    expect(await apart(6)).toEqual([]);
    expect(await apart(7)).toEqual([expect.stringMatching(/^team has 7 optimizer steps of checker and 2 of solver/)]);
  });

  it('beside the last training that moved it', async () => {
    const sft = { method: 'sft', steps: { solver: 2, checker: 3 }, batch: 2, learning_rate: 1e-3 };
    expect((await at.run(['plan', 'run', planned('moved', sft), '--json'])).code).toBe(7);
    const { notes } = await done('plan', 'check', planned('again', { ...sft, steps: 10 }));
    expect(notes).toContainEqual(
      expect.stringMatching(
        /^team, checker: 10 optimizer steps at a learning rate of 0.001, 0.01 together. The last training that moved it, moved-1, had 3 and 0.0\d+\.$/,
      ),
    );
  });
});
