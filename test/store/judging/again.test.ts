import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { requireJudged } from '../../../store/evaluate/judging/judged.ts';
import { NAMED_FEEDBACK } from '../../../store/evaluate/judging/named-feedback.ts';
import { METHODS } from '../../../store/evaluate/methods/find.ts';
import { played, randomEpisodes, say } from './support/episodes.ts';
import { type JudgedDatabase, judgedDatabase } from './support/judged.ts';

const OURS = METHODS.filter(({ kind }) => ['reward', 'credit', 'process'].includes(kind));
const BY_HAND = ['masked_whiten', 'matpo_loss_scale'];
const names = OURS.map(({ name }) => name).filter((name) => !BY_HAND.includes(name));

describe('every reward, credit and process of the catalogue', () => {
  it('can be judged over what is stored, but for two that are run by hand', () => {
    for (const method of OURS) {
      if (BY_HAND.includes(method.name)) expect(() => requireJudged(method)).toThrow(/by hand|method run/);
      else expect(requireJudged(method), method.name).toBeTypeOf('object');
    }
  });

  it('names the feedback that it reads, each name once for a target, and only methods that are there', () => {
    const known = new Set(METHODS.map(({ name }) => name));
    const places = NAMED_FEEDBACK.map(({ target, name }) => `${target} ${name}`);
    expect(new Set(places).size).toBe(places.length);
    for (const { name, readers } of NAMED_FEEDBACK)
      expect(
        readers.filter((reader) => !known.has(reader)),
        name,
      ).toEqual([]);
  });

  describe('over random episodes', () => {
    let base: JudgedDatabase;
    beforeEach(async () => {
      base = await judgedDatabase();
      await base.load(
        randomEpisodes(31, {
          launches: true,
          tree: true,
          roles: ['solver', 'verifier', 'generator', 'refiner', 'planner', 'answer'],
          says: {
            reward: (r) => r.below(9) / 3,
            value: (r) => r.below(2),
            correct: (r) => r.chance(0.5),
            format: (r) => r.below(2),
            f1: (r) => r.below(5) / 4,
            flags_error: (r) => r.chance(0.5),
          },
        }),
      );
    });
    afterEach(() => base.close());

    it('has a row for every episode, says the same again and after a rebuild, and late feedback changes its own group only', async () => {
      await base.run(names);
      const silent = await base.rows<{ method: string; episode_id: string }>(
        `select m.method, e.episode_id from facts.judged_methods m cross join traj.episodes e
         where e.steps > 0
           and not exists (select from facts.credits c where c.method_key = m.method_key and c.episode_id = e.episode_id)
           and not exists (select from facts.rewards r where r.method_key = m.method_key and r.episode_id = e.episode_id)
           and not exists (select from facts.verdicts v where v.method_key = m.method_key and v.episode_id = e.episode_id)
           and not exists (select from facts.scores s where s.method_key = m.method_key and s.key = 'e/' || e.episode_id)`,
      );
      expect(silent).toEqual([]);
      const mute = await base.rows(
        `select method from (select method, value, reason from traj.credits union all select method, value, reason from traj.rewards) r
         where value is null and reason is null`,
      );
      expect(mute).toEqual([]);
      const sums = (await base.checksum()).tables;
      await base.run(names);
      const again = (await base.checksum()).tables;
      for (const table of ['credits', 'rewards', 'scores', 'verdicts']) expect(again[table]).toEqual(sums[table]);

      const read = () =>
        base.rows<{ group: string; method: string; row: string }>(
          `select coalesce(e.group_id, e.episode_id) as "group", r.method, r::text as row
           from (select episode_id, step_id, method, value, reason from traj.credits
                 union all select episode_id, step_id, method, value, reason from traj.rewards) r
           join traj.episodes e using (episode_id) order by 3`,
        );
      const before = await read();
      const [late] = (await base.rows(
        `select episode_id from traj.episodes where group_id = 'g3' and steps > 0 order by 1 limit 1`,
      )) as [{ episode_id: string }];
      await base.load([say(late.episode_id, { kind: 'episode' }, 'reward', 77, { second: 50 })]);
      const ofGroups = names.filter((name) => name !== 'trl_advantage');
      await base.run(ofGroups, [late.episode_id]);
      const after = await read();
      const elsewhere = (row: { group: string }) => row.group !== 'g3';
      expect(after.filter(elsewhere)).toEqual(before.filter(elsewhere));
      expect(after).not.toEqual(before);

      await base.run(names);
      const judged = await base.checksum();
      await base.rebuild();
      expect(await base.checksum()).toEqual(judged);
    }, 240_000);

    it('takes strange inputs: chains without end, numbers too large, agents of any name', async () => {
      const chain = Array.from({ length: 510 }, (_, i) =>
        played(`deep${String(i).padStart(3, '0')}`, {
          group: 'deep',
          reward: i,
          parent: i === 0 ? undefined : `deep${String(i - 1).padStart(3, '0')}`,
          calls: i === 509 ? [{ choices: [{}] }] : [],
        }),
      );
      const huge = { reward: 1.7e308, value: -1.7e308 };
      const odd = (agent: string, turn: number, says = {}) => ({ agent, turn, choices: [{ says }] });
      await base.load(
        ...chain,
        ...['h1', 'h2'].map((id) =>
          played(id, { group: 'huge', reward: 1.7e308, calls: [0, 1].map((turn) => odd('a', turn, huge)) }),
        ),
        played('odd', {
          group: 'odd',
          reward: 1,
          calls: [0, 1].flatMap((turn) =>
            ['__proto__', 'constructor'].map((agent) =>
              odd(agent, turn, { reward: turn, agrees: agent === '__proto__' }),
            ),
          ),
        }),
        [say('odd', { kind: 'step', id: 'c0/0' }, 'rating', 5, { by: '__proto__' })],
        [say('odd', { kind: 'step', id: 'c1/0' }, 'rating', 1, { by: '__proto__' })],
      );
      await base.run(['magrpo_returns', 'marft_gae', 'petting_mixed_reward', 'comam_rewards', 'dylan_importance']);
      const rows = async (episode: string) =>
        base.rows<{ method: string; step_id: string; value: number | null; reason: string | null }>(
          `select method, step_id, value, reason from traj.credits where episode_id = '${episode}'
           union all select method, step_id, value, reason from traj.rewards where episode_id = '${episode}' order by 1, 2`,
        );
      expect((await rows('deep509')).find((row) => row.method === 'magrpo_returns')).toMatchObject({
        value: null,
        reason: 'too_deep',
      });
      const large = (await rows('h1')).filter((row) => ['marft_gae', 'petting_mixed_reward'].includes(row.method));
      expect(large.length).toBe(4);
      for (const row of large) expect(row).toMatchObject({ value: null, reason: expect.stringContaining('finite') });
      const credited = await rows('odd');
      const importance = credited.filter((row) => row.method === 'dylan_importance').map((row) => row.value);
      // The one that agreed listened to itself five times as much as to the other.
      for (const [i, wanted] of [5 / 6, 1 / 6, 1, 0].entries()) expect(importance[i]).toBeCloseTo(wanted, 12);
      expect(credited.filter((row) => row.method === 'comam_rewards' && row.value === null)).toEqual([]);
    });
  });
});
