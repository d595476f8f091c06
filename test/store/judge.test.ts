import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { judge, type MethodRequest, unjudged } from '../../store/evaluate/judging/judge.ts';
import type { Filter } from '../../store/filter/select.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, anExecution, at, event } from './support/events.ts';

type Value = { readonly step_id: string; readonly value: number | null; readonly reason: string | null };

describe('the judge', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
  });
  afterEach(() => fresh.close());
  let clock = 0;
  const now = () => new Date(Date.UTC(2026, 9, 1) + clock++);
  const load = async (...events: Parameters<ReturnType<typeof postgresLog>['append']>[0][]) => {
    await postgresLog(fresh.db).append(events.flat());
    await projectAll(fresh.db);
  };
  const run = async (methods: readonly MethodRequest[], episodes: readonly string[]) => {
    const judging = await judge(fresh.db, postgresLog(fresh.db), { methods, episodes, now });
    await projectAll(fresh.db);
    return judging;
  };
  const rows = async <T = Value>(sql: string): Promise<T[]> => (await fresh.db.query<T>(sql)).rows;
  const credits = (method: string) =>
    rows(`select step_id, value, reason from traj.credits where method = '${method}' order by episode_id, step_id`);

  it('gives each step its credit by group, by agent and by environment', async () => {
    await load(
      anEpisode('a', { reward: 1 }),
      anEpisode('b', { reward: 0 }),
      anEpisode('c', { reward: 0.25 }),
      anEpisode('d', { task: 'alone', reward: 1 }),
    );
    const asked = ['grpo_advantage', 'rloo_advantage', 'drmas_advantage', 'at_grpo_advantage'];
    await run(
      asked.map((method) => ({ method })),
      ['a', 'd'],
    );
    // Rewards 1, 0 and ¼ have the mean 5/12 and squared deviations 78/144; each episode went on from a step at turn 0 and one at turn 1.
    const team = (std: number) => [7, -5, -2].map((twelfths) => twelfths / 12 / (std + 1e-6));
    const [episode, step] = [Math.sqrt(39) / 12, Math.sqrt(13 / 60)].map(team);
    const alone = 1 / (1 + 1e-6);
    const each = (values: readonly number[]) => values.flatMap((value) => [value, value, null]);
    const expected: Record<string, (number | null)[]> = {
      grpo_advantage: each([...episode!, alone]),
      rloo_advantage: each([0.875, -0.625, -0.25, 1]),
      drmas_advantage: each([...step!, 0]),
      at_grpo_advantage: each([...episode!, alone]),
    };
    for (const name of asked) {
      const found = await credits(name);
      expect(found.map((row) => row.step_id)).toEqual(
        ['a', 'b', 'c', 'd'].flatMap((id) => [`${id}-c1/0`, `${id}-c2/0`, `${id}-c2/1`]),
      );
      expect(
        found.map((row) => row.value),
        name,
      ).toEqual(expected[name]!.map((value) => value && expect.closeTo(value, 12)));
    }
    expect(
      (await credits('grpo_advantage')).filter((row) => row.step_id.startsWith('d-')).map((row) => row.reason),
    ).toEqual(['group_of_one', 'group_of_one', 'not_chosen']);
  });

  it('gives rewards, verdicts and scores over an execution matrix, each with its step', async () => {
    await load(anExecution('x'));
    await run(
      [
        { method: 'own_success_filter' },
        { method: 'majority_filter' },
        { method: 'cosigned_rewards' },
        { method: 'floored_advantage', reads: 'cosigned_rewards' },
        { method: 'cure_code_reward' },
        { method: 'cure_test_reward' },
        { method: 'bon_select' },
        { method: 'cure_precision' },
        { method: 'pass_at_1' },
      ],
      ['x'],
    );
    const rewards = async (method: string) =>
      rows(`select step_id, value, reason from traj.rewards where method = '${method}' order by 1`);
    // The first program is right and the second wrong; the first test parts them, the second has them the wrong way round.
    expect((await rewards('cure_code_reward')).map((r) => r.value)).toEqual([1, -1]);
    expect((await rewards('cure_code_reward')).map((r) => r.step_id)).toEqual(['x-coder/0', 'x-coder/1']);
    expect((await rewards('cure_test_reward')).map((r) => r.value)).toEqual([1, -1]);
    expect((await rewards('cure_test_reward')).map((r) => r.step_id)).toEqual(['x-verifier/0', 'x-verifier/1']);
    const scores = new Map(
      (await rows<{ method: string; value: number; key: string }>('select method, value, key from traj.scores')).map(
        (s) => [s.method, s],
      ),
    );
    expect(scores.get('bon_select')).toMatchObject({ key: 'e/x', value: 1 });
    // Half of the tests are right and pass no wrong program; the other half are wrong and pass it: ½ · 1 − ½ · 1.
    expect(scores.get('cure_precision')).toMatchObject({ key: 'e/x', value: 0 });
    expect(scores.get('pass_at_1')).toMatchObject({ key: 'g/task-x', value: 0.5 });
    const cosigned = await rewards('cosigned_rewards');
    expect(cosigned.map((r) => r.step_id)).toEqual(['x-coder/0', 'x-coder/1', 'x-verifier/0', 'x-verifier/1']);
    const floored = await credits('floored_advantage');
    expect(floored.map((r) => r.step_id)).toEqual(cosigned.map((r) => r.step_id));
    // Of two that differ by more than the floor one is a std above the mean and one below it.
    expect(floored.map((row) => row.value)).toEqual([1, -1, 1, -1].map((value) => expect.closeTo(value, 12)));
    expect(
      await rows(`select step_id, keep from traj.verdicts where method = 'own_success_filter' order by 1`),
    ).toHaveLength(4);
  });

  it('names the methods that had nothing to judge', async () => {
    await load(anEpisode('a', { reward: 1 }));
    const asked = ['grpo_advantage', 'majority_filter'].map((method) => ({ method }));
    expect((await run(asked, ['a'])).silent).toEqual(['majority_filter']);
    expect((await run(asked, [])).silent).toEqual([]);
  });

  it('says why there is no value where an input is missing, and never 0', async () => {
    await load(anEpisode('a', { reward: null }), anEpisode('b', { reward: 1 }), [
      event('episode.started', { episode_id: 'bare' }),
      event('episode.finished', { episode_id: 'bare', outcome: 'unknown' }),
    ]);
    const { rows: written, without_value } = await run(
      [
        'grpo_advantage',
        'correctness_filter',
        'format_filter',
        'consensus_filter',
        'cosigned_rewards',
        'well_formed_filter',
        'agreement_score',
        'pass_at_1',
        'difficulty_band',
        'reject_equal_reward',
        'bon_select',
      ].map((method) => ({ method })),
      ['a', 'bare'],
    );
    const valueless = await rows<{ table: string; n: number }>(
      `select 'verdicts' as table, count(*)::float8 as n from traj.verdicts where keep is null
       union all select 'credits', count(*)::float8 from traj.credits where value is null
       union all select 'rewards', count(*)::float8 from traj.rewards where value is null
       union all select 'scores', count(*)::float8 from traj.scores where value is null`,
    );
    expect(valueless.filter(({ n }) => n > 0).map(({ table, n }) => [table, n])).toEqual(
      expect.arrayContaining(Object.entries(without_value)),
    );
    expect(without_value.verdicts).toBeGreaterThan(5);
    expect(written.verdicts).toBeGreaterThan(without_value.verdicts!);
    const mine = (await credits('grpo_advantage')).filter((row) => row.step_id.startsWith('a-'));
    expect(mine.map(({ value, reason }) => [value, reason])).toEqual([
      [null, 'missing_reward'],
      [null, 'missing_reward'],
      [null, 'not_chosen'],
    ]);
    const verdicts = await rows<{ method: string; keep: boolean | null; reason: string }>(
      `select method, keep, reason from traj.verdicts where episode_id = 'bare' order by 1`,
    );
    expect(verdicts).toEqual([
      { method: 'consensus_filter', keep: null, reason: 'no_critics' },
      { method: 'correctness_filter', keep: null, reason: 'no_reference' },
      { method: 'difficulty_band', keep: null, reason: 'missing_reward' },
      { method: 'format_filter', keep: null, reason: 'no_messages' },
      { method: 'reject_equal_reward', keep: null, reason: 'missing_reward' },
      { method: 'well_formed_filter', keep: null, reason: 'no_execution_matrix' },
    ]);
    const scores = await rows(
      `select method, value, reason from traj.scores where key in ('e/bare', 'g/bare') order by 1`,
    );
    expect(scores).toEqual([
      { method: 'agreement_score', value: null, reason: 'no_answers' },
      { method: 'bon_select', value: null, reason: 'no_execution_matrix' },
      { method: 'cosigned_rewards', value: null, reason: 'no_execution_matrix' },
      { method: 'pass_at_1', value: null, reason: 'no_execution_matrix' },
    ]);
    const rewarded = await rows(
      `select keep, reason from traj.verdicts where episode_id = 'b' and method in ('difficulty_band', 'reject_equal_reward')`,
    );
    expect(rewarded).toEqual(Array(2).fill({ keep: false, reason: 'group_of_one' }));
  });

  it('judges a group again when a late member completes it, and replaces its earlier results', async () => {
    const methods = [{ method: 'grpo_advantage' }, { method: 'agreement_score' }];
    await load(anEpisode('a', { reward: 1, group: 'g' }), anEpisode('b', { reward: 0, group: 'g' }));
    await run(methods, ['a']);
    const before = await credits('grpo_advantage');
    await run(methods, ['a']);
    expect(await credits('grpo_advantage')).toEqual(before);
    await load(anEpisode('c', { reward: 0, group: 'g', task: 'task-1' }));
    expect(await unjudged(fresh.db, methods, { now: now() })).toEqual(['c']);
    expect(await run(methods, ['c'])).toMatchObject({
      episodes: 3,
      rows: { credits: 9, scores: 1 },
    });
    const after = await credits('grpo_advantage');
    expect(after).toHaveLength(9);
    expect(after[0]?.value).not.toBeCloseTo(before[0]!.value!, 3);
    expect(await unjudged(fresh.db, methods, { now: now() })).toEqual([]);
  });

  it('evaluates again the episodes of a task that is redefined later, and only those', async () => {
    const methods = [{ method: 'correctness_filter' }];
    const defined = (truth: string, second: number) =>
      event(
        'task.defined',
        { task_id: 'a', query: 'What is a?', ground_truth: truth },
        { id: `defined-${second}`, time: at(second) },
      );
    await load(anEpisode('a', { task: 'a' }), anEpisode('b', { task: 'b' }));
    await run(methods, ['a', 'b']);
    await load([defined('42', 40)]);
    expect(await unjudged(fresh.db, methods, { now: now() })).toEqual([]);
    await load([defined('43', 41)]);
    expect(await unjudged(fresh.db, methods, { now: now() })).toEqual(['a']);
    await run(methods, ['a']);
    expect(await rows('select episode_id, keep, reason from traj.verdicts order by 1')).toEqual([
      { episode_id: 'a', keep: false, reason: 'wrong' },
      { episode_id: 'b', keep: true, reason: null },
    ]);
    expect(await unjudged(fresh.db, methods, { now: now() })).toEqual([]);
  });

  it('waits until a group is complete: as many closed as were announced, none open, or long silent', async () => {
    const methods = [{ method: 'grpo_advantage' }];
    const started = (id: string, size: number | null) =>
      event(
        'episode.started',
        { episode_id: id, task_id: 'task-1', group_id: 'g', ...(size === null ? {} : { group_size: size }) },
        { id: `${id}-started-again`, time: at(5) },
      );
    const left = (minutes: number, where: Filter | null = null) =>
      unjudged(fresh.db, methods, { now: new Date(Date.parse(at(11)) + minutes * 60_000), where });
    await load(anEpisode('a', { group: 'g' }), [started('a', 3)], anEpisode('b', { group: 'g' }));
    expect(await left(1)).toEqual([]);
    expect(await left(31)).toEqual(['a', 'b']);
    await load(anEpisode('c', { group: 'g' }));
    expect(await left(1)).toEqual(['a', 'b', 'c']);
    await load([event('message.sent', { episode_id: 'd', message_id: 'm' }), started('d', null)]);
    expect(await left(1)).toEqual([]);
    expect(await left(31)).toEqual(['a', 'b', 'c']);
    // Also where the filter selects no open one: its group is waited for, and no other.
    const only: Filter = { field: 'episode_id', op: '=', value: 'a' };
    expect(await left(1, only)).toEqual([]);
    expect(await left(31, only)).toEqual(['a']);
    await load(anEpisode('e', { group: 'h' }));
    expect(await left(1, { or: [only, { field: 'episode_id', op: '=', value: 'e' }] })).toEqual(['e']);
  });

  it('says partial_group of credit where fewer are closed than were announced, until the group is whole', async () => {
    const methods = ['grpo_advantage', 'drmas_advantage', 'at_grpo_advantage', 'magrpo_returns'].map((method) => ({
      method,
    }));
    const started = (id: string) =>
      event(
        'episode.started',
        { episode_id: id, task_id: 'task-1', group_id: 'g', group_size: 3 },
        { id: `${id}-started-again`, time: at(5) },
      );
    const reasonsByMethod = async () => {
      const found = await rows<{ method: string; reasons: (string | null)[] }>(
        "select method, array_agg(distinct reason) as reasons from traj.credits where reason is distinct from 'not_chosen' group by 1 order by 1",
      );
      return Object.fromEntries(found.map(({ method, reasons }) => [method, reasons]));
    };
    await load(anEpisode('a', { group: 'g', reward: 1 }), [started('a')], anEpisode('b', { group: 'g', reward: 0 }));
    await run(methods, ['a']);
    const partial = await reasonsByMethod();
    expect(partial).toMatchObject({
      grpo_advantage: ['partial_group'],
      drmas_advantage: ['partial_group'],
      at_grpo_advantage: ['partial_group'],
      magrpo_returns: ['partial_group'],
    });
    const values = () =>
      rows(
        "select episode_id, step_id, value from traj.credits where method = 'grpo_advantage' and reason is distinct from 'not_chosen' order by 1, 2",
      );
    expect((await values()).map((row) => row.value).filter((value) => value === null || value === 0)).toEqual([]);
    await load(anEpisode('c', { group: 'g', reward: 0 }));
    await run(methods, ['a']);
    expect(await reasonsByMethod()).toMatchObject({
      grpo_advantage: [null],
      drmas_advantage: [null],
      magrpo_returns: [null],
    });
  });

  it('says of a partial group without a signal why it has none, and nothing of one without an announced size', async () => {
    const started = event(
      'episode.started',
      { episode_id: 'a', task_id: 'task-1', group_id: 'g', group_size: 3 },
      { id: 'a-started-again', time: at(5) },
    );
    await load(anEpisode('a', { group: 'g' }), [started]);
    await load(anEpisode('x', { task: 'y', reward: 1 }), anEpisode('y', { task: 'y', reward: 0 }));
    await run([{ method: 'grpo_advantage' }], ['a', 'x']);
    expect(
      await rows(
        "select distinct episode_id, reason from traj.credits where reason is distinct from 'not_chosen' order by 1",
      ),
    ).toEqual([
      { episode_id: 'a', reason: 'group_of_one' },
      { episode_id: 'x', reason: null },
      { episode_id: 'y', reason: null },
    ]);
  });

  it('finds as unjudged exactly what changed since: new, amended, rewarded late or from elsewhere, and nothing else', async () => {
    const methods = [{ method: 'grpo_advantage' }];
    const left = () => unjudged(fresh.db, methods, { now: now() });
    await load(anEpisode('a', { task: 'a' }), anEpisode('b', { task: 'b' }), anEpisode('c', { task: 'c' }), [
      event('message.sent', { episode_id: 'open', message_id: 'm' }),
    ]);
    expect(await left()).toEqual(['a', 'b', 'c']);
    await run(methods, await left());
    expect(await left()).toEqual([]);
    await projectAll(fresh.db);
    expect(await left()).toEqual([]);
    const about = (id: string, target: { kind: 'episode' | 'foreign'; id: string }) =>
      event(
        'feedback.recorded',
        { feedback_id: id, target, kind: 'reward', name: 'reward', value: 0.5 },
        { id, time: at(30) },
      );
    for (const [change, changed] of [
      [about('late', { kind: 'episode', id: 'a' }), 'a'],
      [about('elsewhere', { kind: 'foreign', id: 'b' }), 'b'],
      [
        event('record.amended', {
          key: 'e/c',
          target: { source: '/test', id: 'c-11' },
          op: 'merge',
          patch: { value: 0 },
        }),
        'c',
      ],
      [about('elsewhere-again', { kind: 'foreign', id: 'c' }), 'c'],
      [event('message.sent', { episode_id: 'c', message_id: 'm9' }), 'c'],
    ] as const) {
      await load([change]);
      expect(await left()).toEqual([changed]);
      await run(methods, await left());
      expect(await left()).toEqual([]);
    }
    expect(
      await unjudged(fresh.db, [{ method: 'grpo_advantage', params: { scale_std: false } }], { now: now() }),
    ).toEqual(['a', 'b', 'c']);
  });

  it('refuses what cannot be run before it writes anything, so that every recorded judging can be repeated', async () => {
    await load(anExecution('x'));
    for (const methods of [
      [{ method: 'no_such' }],
      [{ method: 'matpo_loss_scale' }],
      [{ method: 'agentracer_clip' }],
      [{ method: 'grpo_advantage', params: { nope: 1 } }],
      [{ method: 'floored_advantage', reads: 'cosigned_rewards' }],
      [{ method: 'floored_advantage', reads: 'cosigned_rewards' }, { method: 'cosigned_rewards' }],
    ]) {
      await expect(run(methods, ['x'])).rejects.toMatchObject({ code: expect.stringMatching(/^method_/) });
    }
    expect(await rows(`select 1 from troupe.events where name = 'judge.completed'`)).toEqual([]);
  });

  it('takes strange inputs: rewards too large to compare, members of a matrix without a name or with one name', async () => {
    await load(anEpisode('a', { reward: 1.7e308 }), anEpisode('b', { reward: -1.7e308 }), anExecution('m'), [
      event(
        'feedback.recorded',
        {
          feedback_id: 'again',
          target: { kind: 'episode', id: 'm' },
          kind: 'execution',
          name: 'tests',
          matrix: {
            programs: [{}, { name: 'same' }, { name: 'same', valid: false }],
            tests: [{}, { name: 'same' }, { name: 'truth', ground_truth: true }],
            pass: [
              [1, null, 1],
              [1, 1, 0],
              [1, 1, 1],
            ],
          },
        },
        { time: at(40) },
      ),
    ]);
    await run(
      [
        { method: 'grpo_advantage' },
        { method: 'well_formed_filter' },
        { method: 'cosigned_rewards' },
        { method: 'cure_code_reward' },
      ],
      ['a', 'm'],
    );
    const credit = (await credits('grpo_advantage')).filter((row) => /^[ab]-/.test(row.step_id));
    expect(credit.length).toBe(6);
    expect(credit.every((row) => row.value === null && row.reason?.includes('finite'))).toBe(true);
    expect(
      (
        await rows(
          `select step_id from traj.verdicts where method = 'well_formed_filter' and episode_id = 'm' order by 1`,
        )
      ).map((r) => r.step_id),
    ).toEqual(['program#0', 'same', 'same program#2', 'same test#1', 'test#0']);
    // A malformed program passes nothing, whatever its cells say: the one right program stands against two wrong ones.
    const values = (
      await rows(`select step_id, value from traj.rewards where method = 'cure_code_reward' order by 1`)
    ).map((r) => r.value!);
    expect(values[0]).toBeGreaterThan(0);
    expect(values[1]).toBe(values[2]);
  });

  it('lets two judges of one method take turns', async () => {
    await load(anEpisode('a', { group: 'g' }), anEpisode('b', { group: 'g', reward: 0 }));
    await Promise.all(
      ['a', 'b', 'a', 'b'].map((id) =>
        judge(fresh.db, postgresLog(fresh.db), { methods: [{ method: 'grpo_advantage' }], episodes: [id], now }),
      ),
    );
    expect(await credits('grpo_advantage')).toHaveLength(6);
  });
});
