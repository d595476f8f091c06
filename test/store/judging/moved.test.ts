import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { unjudged } from '../../../store/evaluate/judging/judge.ts';
import { at, event } from '../support/events.ts';
import { played, say } from './support/episodes.ts';
import { type JudgedDatabase, judgedDatabase } from './support/judged.ts';

const METHOD = 'grpo_advantage';
const half = 0.5 / (Math.SQRT1_2 + 1e-6);
const call = { agent: 'a', choices: [{}] };

describe('what is compared with each other', () => {
  let base: JudgedDatabase;
  beforeEach(async () => {
    base = await judgedDatabase();
  });
  afterEach(() => base.close());

  /** Judges what changed since, as `troupe judge` does, and says of which episodes that was. */
  const judgeCompleted = async () => {
    const ids = await unjudged(base.db, [{ method: METHOD }], { now: new Date('2027-01-01') });
    await base.run([METHOD], ids);
    return ids;
  };
  const credits = async () => {
    const rows = await base.rows<{ episode_id: string; value: number; reason: string | null }>(
      `select episode_id, value, reason from traj.credits where method = '${METHOD}' order by 1`,
    );
    return rows.map(({ episode_id, value, reason }) => [episode_id, Math.round(value * 1e9) / 1e9, reason]);
  };
  const rounded = (value: number) => Math.round(value * 1e9) / 1e9;
  const equalsRebuilt = async () => {
    const { tables } = await base.checksum();
    await base.rebuild();
    expect((await base.checksum()).tables.credits).toEqual(tables.credits);
  };

  it('is judged again without an episode that left the group, as a rebuild does', async () => {
    const first = played('a1', { group: 'A', task: 't', reward: 1, calls: [call] });
    await base.load(
      first,
      played('a2', { group: 'A', task: 't', reward: 0, calls: [call] }),
      played('a3', { group: 'A', task: 't', reward: 0, calls: [call] }),
      played('z1', { group: 'Z', task: 't', reward: 0, calls: [call] }),
    );
    await judgeCompleted();
    const { source, id } = first[0]!;
    const moved = { key: 'e/a1', target: { source, id }, op: 'merge' as const, patch: { group_id: 'Z' } };
    await base.load([event('record.amended', moved, { time: at(50) })]);
    expect(await judgeCompleted()).toEqual(['a2', 'a3', 'a1']);
    expect(await credits()).toEqual([
      ['a1', rounded(half), null],
      ['a2', 0, 'zero_variance'],
      ['a3', 0, 'zero_variance'],
      ['z1', rounded(-half), null],
    ]);
    expect(await judgeCompleted()).toEqual([]);
    await equalsRebuilt();
  }, 60_000);

  it('leaves behind those of its task once a late call names its group', async () => {
    const late = { episode_id: 'h1', call_id: 'c1', seq: 1, group_id: 'G', choices: [] };
    await base.load(
      played('h1', { task: 'H', reward: 1, calls: [call] }),
      played('h2', { task: 'H', reward: 0, calls: [call] }),
    );
    await judgeCompleted();
    await base.load([event('generation.requested', late, { time: at(10) })]);
    await judgeCompleted();
    expect(await credits()).toEqual([
      ['h1', rounded(1 / (1 + 1e-6)), 'group_of_one'],
      ['h2', 0, 'group_of_one'],
    ]);
    await equalsRebuilt();
  }, 60_000);

  it('is in MAS-GPT a team and the one that it was made from, also where they played a task in groups of their own', async () => {
    const asked = [{ method: 'intra_consistency_accept' }];
    const judged = async () => {
      await base.run(asked, await unjudged(base.db, asked, { now: new Date('2027-01-01') }));
      return base.rows(`select episode_id, keep, reason from traj.verdicts order by 1`);
    };
    await base.load(
      [event('team.defined', { team_id: 'base' }, { time: at(0) })],
      [event('team.defined', { team_id: 'refined', tags: { base_team_id: 'base' } }, { time: at(0) })],
      played('b', { group: 'g1', task: 't', team: 'base', reward: 0.5, calls: [call] }),
    );
    await judged();
    await base.load(played('r', { group: 'g2', task: 't', team: 'refined', reward: 1, calls: [call] }));
    expect(await judged()).toEqual([
      { episode_id: 'b', keep: null, reason: 'not_a_refinement' },
      { episode_id: 'r', keep: true, reason: null },
    ]);
  }, 60_000);

  it('is one group where a group and a task have one name, also when only one of them changes', async () => {
    await base.load(
      played('h1', { task: 'H', reward: 1, calls: [call] }),
      played('h2', { task: 'other', group: 'H', reward: 0, calls: [call] }),
    );
    await judgeCompleted();
    await base.load([say('h1', { kind: 'episode' }, 'reward', -1, { second: 50 })]);
    await judgeCompleted();
    expect(await credits()).toEqual([
      ['h1', rounded(-half), null],
      ['h2', rounded(half), null],
    ]);
    await equalsRebuilt();
  }, 60_000);
});
