import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TroupeError } from '../../../errors.ts';
import { query, rowsOf, sql } from '../../../store/db/query.ts';
import { pinMethods, unknownValues } from '../../../store/filter/filter-check.ts';
import { filterText } from '../../../store/filter/filter-text.ts';
import { type Filter, lowerFilter, parseFilter } from '../../../store/filter/select.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { insert, seed } from '../datasets/fixture.ts';

const thrown = (run: () => unknown): TroupeError => {
  try {
    run();
  } catch (error) {
    return error as TroupeError;
  }
  throw new Error('nothing was thrown');
};

describe('A filter as text', () => {
  it.each<[string, Filter]>([
    ['role = coder', { field: 'role', op: '=', value: 'coder' }],
    [
      "outcome='success' AND reward>=0.5 or not closed",
      {
        or: [
          {
            and: [
              { field: 'outcome', op: '=', value: 'success' },
              { field: 'reward', op: '>=', value: 0.5 },
            ],
          },
          { not: { field: 'closed', op: '=', value: true } },
        ],
      },
    ],
    [
      'closed and (reward = 1 or reward = -1)',
      {
        and: [
          { field: 'closed', op: '=', value: true },
          {
            or: [
              { field: 'reward', op: '=', value: 1 },
              { field: 'reward', op: '=', value: -1 },
            ],
          },
        ],
      },
    ],
    ['task_id = 17', { field: 'task_id', op: '=', value: '17' }],
    ['tags.phase = 17', { field: 'tags.phase', op: '=', value: 17 }],
    [`tags."my key" = "it's"`, { field: 'tags.my key', op: '=', value: "it's" }],
    ["answer = 'it''s'", { field: 'answer', op: '=', value: "it's" }],
    ['role in (coder, "a b")', { field: 'role', op: 'in', value: ['a b', 'coder'] }],
    ['role not in (coder)', { not: { field: 'role', op: 'in', value: ['coder'] } }],
    ['reward is not null', { not: { field: 'reward', op: 'is null' } }],
    ["text like '%x%'", { field: 'text', op: 'like', value: '%x%' }],
    ['flags has late', { field: 'flags', op: 'has', value: 'late' }],
    ['started_at < 2026-01-31T09:00:00Z', { field: 'started_at', op: '<', value: '2026-01-31T09:00:00Z' }],
    ['reward <> 0', { field: 'reward', op: '!=', value: 0 }],
    ['true', { and: [] }],
    ['verdict( format_filter )', { field: 'verdict(format_filter)', op: '=', value: true }],
    [
      'count( tool_calls where error and name = "a)b" )=0',
      { field: "count(tool_calls where error and name = 'a)b')", op: '=', value: 0 },
    ],
  ])('%s', (text, tree) => {
    expect(parseFilter(text)).toEqual(tree);
    expect(parseFilter(filterText(tree))).toEqual(tree);
  });

  it('stands anywhere in a tree', () => {
    expect(parseFilter({ and: ['closed', { not: 'reward = 1' }] })).toEqual({
      and: [{ field: 'closed', op: '=', value: true }, { not: { field: 'reward', op: '=', value: 1 } }],
    });
  });

  it('reads back what was written, whatever texts and keys stand in it', () => {
    const text = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom("'", '"', 'and', 'null', '1', 'true', "a'b"),
    );
    const key = fc.string({ unit: 'grapheme', minLength: 1 }).map((name) => `tags.${name}`);
    const comparison = fc.oneof(
      fc.record({ field: fc.constantFrom('answer', 'outcome'), op: fc.constantFrom('=', '!=', '<'), value: text }),
      fc.record({
        field: key,
        op: fc.constant('='),
        // Without -0, which is 0 in text and in SQL.
        value: fc.oneof(
          text,
          fc.boolean(),
          fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0),
        ),
      }),
      fc.record({ field: fc.constant('reward'), op: fc.constant('is null') }),
      fc.record({ field: fc.constant('role'), op: fc.constant('in'), value: fc.array(text, { maxLength: 3 }) }),
    ) as fc.Arbitrary<Filter>;
    const { filter } = fc.letrec<{ filter: Filter }>((tie) => ({
      filter: fc.oneof(
        { maxDepth: 3 },
        comparison,
        fc.array(tie('filter'), { minLength: 2, maxLength: 3 }).map((and) => ({ and })),
        fc.array(tie('filter'), { minLength: 2, maxLength: 3 }).map((or) => ({ or })),
        tie('filter').map((not) => ({ not })),
      ),
    }));
    fc.assert(
      fc.property(filter, (made) => {
        const tree = parseFilter(made);
        expect(parseFilter(filterText(tree))).toEqual(tree);
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    ['', 'character 1', 'it ends there'],
    ['role =', 'a value at character 7', 'it ends there'],
    ['role = and', 'a value', 'character 8'],
    ['role coder', 'an operator after role at character 6', '"coder"'],
    ['(closed', ') , and or or'.replace(' ,', ','), 'character 8'],
    ['closed)', 'and, or, or the end at character 7', '")"'],
    ['closed and rewrd > 0', 'Did you mean reward? (at character 12', 'rewrd'],
    ['closed and reward > high', 'should be a number', 'at character 12'],
    ['reward = ; drop', 'character 10', '; drop'],
    ["answer = 'open", 'character 10', "'open"],
    ['count(tool_calls where eror) = 0', 'Did you mean error?', 'character 1'],
    ['count(nothing) = 0', 'NAME one of steps, tool_calls, messages, group', 'count(nothing)'],
    ['step.count(group) = 0', 'NAME one of tool_calls, messages, candidates', 'step.count(group)'],
    ['step.count > 3', 'Did you mean step.count(…)?', 'step.count'],
    ['vedict(format_filter)', 'Did you mean verdict?', 'character 1'],
    ['verdict(a b)', 'the name of one method', 'a b'],
    ['count(steps where verdict(x)) > 0', 'no field "verdict(x)"', 'character 1'],
    ['role in (coder', ', or )', 'character 15'],
    [`${'('.repeat(100)}closed${')'.repeat(100)}`, 'at most 64 levels', 'character 66'],
  ])('refuses %j and says where', (text, expected, place) => {
    const error = thrown(() => parseFilter(text));
    expect(error).toBeInstanceOf(TroupeError);
    expect(error.code).toBe('recipe_invalid');
    expect(error.message).toContain(expected);
    expect(error.message).toContain(place);
  });
});

describe('What a filter finds', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
    await seed(database.db);
    const { db } = database;
    await insert(db, 'tool_calls', [
      { episode_id: 'ep-0-0', tool_call_id: 't1', call_id: 'call-0', name: 'search', status: 'ok' },
      { episode_id: 'ep-0-0', tool_call_id: 't2', call_id: 'call-2', name: 'search', status: 'error' },
      { episode_id: 'ep-0-1', tool_call_id: 't3', call_id: 'call-0', name: 'fetch', status: null },
    ]);
    const failure = { key: 'e/ep-1-0', episode_id: 'ep-1-0', kind: 'failure', name: 'mistake', version: '|f' };
    await insert(db, 'feedback', [
      { ...failure, feedback_id: 'f1', target_kind: 'agent', target_id: 'solver', entry: 10 },
      { ...failure, feedback_id: 'f2', target_kind: 'step', target_id: 'call-2/0', entry: null },
    ]);
    await db.query(`update facts.episodes set reward = 0 where episode_id = 'ep-2-1'`);
    const release = (id: string, checkpoint: string, day: number) =>
      db.query(`insert into facts.releases (release_id, policies, released_at, version) values ($1, $2, $3, '|r')`, [
        id,
        JSON.stringify({ p: checkpoint }),
        `2026-01-0${day}T00:00:00Z`,
      ]);
    await release('r1', 'ck-0', 1);
    await release('r2', 'ck-9', 2);
    await release('r3', 'ck-8', 3);
    await db.query(`update facts.calls set policy = 'p'`);
    await insert(db, 'blames', [{ episode_id: 'ep-2-0', method_key: 'b@1#0', step_id: 'call-1/0' }]);
    await insert(db, 'judged_methods', [
      { method_key: 'b@1#0', method: 'b', version: 1, kind: 'blame', params: {} },
      { method_key: 'two@1#0', method: 'two', version: 1, kind: 'credit', params: { a: 1 } },
      { method_key: 'two@1#1', method: 'two', version: 1, kind: 'credit', params: { a: 2 } },
    ]);
  });
  afterAll(() => database.close());

  const steps = async (text: string): Promise<string[]> => {
    const rows = await rowsOf(
      database.db,
      query
        .selectFrom('facts.episodes as e')
        .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
        .innerJoin('facts.calls as c', 'c.episode_id', 'e.episode_id')
        .leftJoin('facts.agents as a', (on) =>
          on.onRef('a.episode_id', '=', 'c.episode_id').onRef('a.agent_id', '=', 'c.completed_agent_id'),
        )
        .innerJoin('facts.steps as s', (on) =>
          on.onRef('s.episode_id', '=', 'c.episode_id').onRef('s.call_id', '=', 'c.call_id'),
        )
        .select(sql<string>`s.episode_id || ' ' || s.call_id`.as('id'))
        .where(lowerFilter(parseFilter(text)))
        .where('s.candidate', '=', 0)
        .orderBy('id'),
    );
    return rows.map(({ id }) => id);
  };
  const episodes = async (text: string) => [...new Set((await steps(text)).map((id) => id.split(' ')[0]))];

  it('counts tool calls of the episode, or of the step alone', async () => {
    expect(await episodes('count(tool_calls where error) > 0')).toEqual(['ep-0-0']);
    expect(await episodes('count(tool_calls) = 1')).toEqual(['ep-0-1']);
    expect(await steps('step.count(tool_calls where name = search) = 1')).toEqual(['ep-0-0 call-0', 'ep-0-0 call-2']);
    expect(await episodes('count(tool_calls where error) = 0')).toHaveLength(5);
  });

  it('counts steps and members of the group', async () => {
    expect(await episodes('count(steps where role = solver) = 4')).toHaveLength(6);
    expect(await episodes("count(steps where text like '%0.0.%') = 6")).toEqual(['ep-0-0']);
    expect(await episodes('count(group where reward >= 1) = 1 and count(group) = 2')).toHaveLength(6);
  });

  it('knows groups with signal, and does not take an unknown reward for one', async () => {
    expect(await episodes('group.signal')).toEqual(['ep-2-0', 'ep-2-1']);
    expect(await episodes('group.signal is null')).toEqual([]);
  });

  it('knows the last step of an episode and of each agent', async () => {
    expect(await steps("last and episode_id = 'ep-0-0'")).toEqual(['ep-0-0 call-2']);
    expect(await steps('last_of_agent and episode_id = ep-0-0')).toEqual(['ep-0-0 call-1', 'ep-0-0 call-2']);
  });

  it('knows the steps before the decisive mistake, of which the earliest label counts', async () => {
    expect(await steps('before_mistake')).toEqual(['ep-1-0 call-0']);
    expect(await steps('before_blame(b)')).toEqual(['ep-2-0 call-0']);
  });

  it('goes by turn and time where the source numbers no calls, as the recorder does', async () => {
    const calls = `where episode_id = 'ep-1-0'`;
    await database.db.query(`create table numbered as select * from facts.calls ${calls}`);
    const without = (set: string) =>
      database.db.query(`update facts.calls set requested_seq = null, completed_seq = null, ${set} ${calls}`);
    await without(
      `requested_turn = null, completed_turn = null, requested_at = '2026-01-01Z'::timestamptz + right(call_id, 1)::integer * interval '1 s'`,
    );
    expect(await steps('before_mistake')).toEqual(['ep-1-0 call-0', 'ep-1-0 call-1']);
    await without(`requested_turn = right(call_id, 1)::integer, requested_at = null, completed_at = null`);
    expect(await steps('before_mistake')).toEqual(['ep-1-0 call-0', 'ep-1-0 call-1']);
    await without(`requested_turn = 0, completed_turn = 0`);
    expect(await steps('before_mistake')).toEqual([]);
    await database.db.query(`delete from facts.calls ${calls}`);
    await database.db.query('insert into facts.calls select * from numbered');
    await database.db.query('drop table numbered');
  });

  it('counts the releases after the weights that generated a step; unknown for weights never released', async () => {
    expect(await episodes('staleness = 2')).toEqual(['ep-0-0', 'ep-0-1', 'ep-2-0', 'ep-2-1']);
    expect(await episodes('staleness is null')).toEqual(['ep-1-0', 'ep-1-1']);
  });

  it('reads verdicts, rewards and credits by the name of the method', async () => {
    expect(await episodes('verdict(is_solved) = false')).toEqual(['ep-0-1']);
    expect(await episodes('episode.verdict(is_solved) = false')).toEqual(['ep-0-1']);
    expect(await episodes('credit(group_mean) >= 2')).toEqual(['ep-2-0', 'ep-2-1']);
  });

  it('reads a score of the episode, else of its group', async () => {
    await insert(database.db, 'judged_methods', [
      { method_key: 'even@1#0', method: 'even', version: 1, kind: 'score', params: {} },
    ]);
    const groups = await rowsOf(
      database.db,
      query.selectFrom('facts.episodes').select(['episode_id', 'group_id']).orderBy('episode_id'),
    );
    const group = groups.find(({ episode_id }) => episode_id === 'ep-0-0')!.group_id;
    await insert(database.db, 'scores', [
      { key: `g/${group}`, method_key: 'even@1#0', value: 0.25 },
      { key: 'e/ep-0-1', method_key: 'even@1#0', value: 0.75 },
    ]);
    expect(await episodes('score(even) < 0.5')).toEqual(['ep-0-0']);
    expect(await episodes('score(even) > 0.5')).toEqual(['ep-0-1']);
    expect(await episodes('score(even) is null')).toHaveLength(4);
  });

  it('counts the candidates of the call, and knows whether their rewards differ', async () => {
    const call = { episode_id: 'ep-0-0', call_id: 'call-0' };
    await insert(database.db, 'judged_methods', [
      { method_key: 'each@1#0', method: 'each', version: 1, kind: 'reward', params: {} },
    ]);
    await insert(database.db, 'steps', [{ ...call, candidate: 2, text: 'third', chosen: false, version: '|s' }]);
    await insert(
      database.db,
      'rewards',
      [
        ['call-0/0', 1],
        ['call-0/1', 0],
        ['call-1/0', 1],
      ].map(([step_id, value]) => ({ episode_id: 'ep-0-0', step_id, method_key: 'each@1#0', value })),
    );
    expect(await steps('step.count(candidates) > 2')).toEqual(['ep-0-0 call-0']);
    expect(await steps('step.count(candidates where text = third) = 1')).toEqual(['ep-0-0 call-0']);
    expect(await steps('candidates.signal(each)')).toEqual(['ep-0-0 call-0']);
    expect(await steps('candidates.signal(each) = false')).toEqual(['ep-0-0 call-1']);
    expect(await steps('candidates.signal(each) is null')).toHaveLength(16);
    await database.db.query(`delete from facts.steps where candidate = 2`);
  });

  it('pins a method to the key of its judgements, and refuses one that means several or none', async () => {
    const pinned = await pinMethods(database.db, parseFilter('not before_blame(b) and reward > 0'));
    expect(filterText(pinned)).toBe('(not before_blame(b@1#0)) and reward > 0');
    await expect(pinMethods(database.db, parseFilter('credit(two) > 0'))).rejects.toMatchObject({
      code: 'recipe_invalid',
    });
    await expect(pinMethods(database.db, parseFilter('verdict(is_solvd)'))).rejects.toThrow(/Did you mean is_solved/);
    expect(filterText(await pinMethods(database.db, parseFilter('credit(two@1#1) > 0')))).toBe('credit(two@1#1) > 0');
  });

  it('names each value that nothing has, with the nearest that there is', async () => {
    const of = (text: string) => unknownValues(database.db, parseFilter(text));
    expect(await of('role in (solver, critik) and tags.arm = a and outcome = success')).toEqual([
      'Nothing has role = "critik". Did you mean critic?',
    ]);
    const ids = Array.from({ length: 3000 }, (_, i) => `no-${i}`).join(', ');
    const messages = await of(`episode_id in (${ids})`);
    expect([messages.length, messages.at(-1)]).toEqual([9, '2992 more values of the filter occur nowhere.']);
    expect(await of('tags.arn = a')).toEqual(['Nothing has the tag "arn". Did you mean arm?']);
    expect(await of('tags.arm = zzzzzz')).toEqual(['Nothing has tags.arm = "zzzzzz". There is a, b.']);
    for (const compared of ['= 7', '= true', '> 7', '!= a', 'in (7, 8)'])
      expect(await of(`tags.arn ${compared}`), compared).toEqual(['Nothing has the tag "arn". Did you mean arm?']);
    await database.db.query(
      `update facts.episodes set tags = tags || '{"seed": "7", "n": 7}' where episode_id = 'ep-0-0'`,
    );
    expect(await of('tags.seed = 7 or tags.n = "7" or tags.n = 8 or tags.n = 7 or tags.n > 9')).toEqual([
      'Nothing has tags.seed = 7. It is recorded as text: write "7".',
      'Nothing has tags.n = "7". It is no text: write 7.',
      'Nothing has tags.n = 8. There is 7.',
    ]);
    await database.db.query(`update facts.episodes set tags = tags - 'seed' - 'n' where episode_id = 'ep-0-0'`);
    expect(await of('task.difficulty = medium')).toEqual([
      'Nothing has task.difficulty = "medium". There is easy, hard.',
    ]);
    expect(await of('text = nothing')).toEqual([]);
  });

  it('names a value that nothing has also where everything is found for it', async () => {
    const of = (text: string) => unknownValues(database.db, parseFilter(text));
    const sentence = ['Nothing has role = "critik". Did you mean critic?'];
    for (const filter of [
      'role != critik',
      'not role = critik',
      'role not in (critik)',
      'role != critik or role = critik',
    ])
      expect(await of(filter), filter).toEqual(sentence);
    expect(await of('role != critic and tags.arm != a')).toEqual([]);
    expect(await of('tags.arm != zzzzzz')).toEqual(['Nothing has tags.arm = "zzzzzz". There is a, b.']);
  });

  it('looks for the values inside count(…) among what is counted', async () => {
    const of = (text: string) => unknownValues(database.db, parseFilter(text));
    expect(await of('count(tool_calls where status = eror) = 0')).toEqual([
      'Nothing has status = "eror". Did you mean error?',
    ]);
    expect(await of('count(steps where role = critik) = 0')).toEqual([
      'Nothing has role = "critik". Did you mean critic?',
    ]);
    expect(await of('count(group where outcome = sucess) > 0')).toEqual([
      'Nothing has outcome = "sucess". Did you mean success?',
    ]);
    expect(await of('count(tool_calls where status = error) = 0 and count(steps where role = critic) > 0')).toEqual([]);
  });

  it('says so where a tag that is compared by size is of another type everywhere', async () => {
    const of = (text: string) => unknownValues(database.db, parseFilter(text));
    await database.db.query(`update facts.episodes set tags = tags || '{"seed": "7"}' where episode_id = 'ep-0-0'`);
    expect(await of('tags.seed >= 5')).toEqual(['Nothing has a number as tags.seed. Of another type there is 7.']);
    expect(await of('tags.seed >= "5"')).toEqual([]);
    await database.db.query(`update facts.episodes set tags = tags - 'seed' where episode_id = 'ep-0-0'`);
  });

  it('takes episodes of one task without a group for one, as judging and report.outcomes do', async () => {
    const { rows: kept } = await database.db.query<{ episode_id: string; group_id: string }>(
      'select episode_id, group_id from facts.episodes',
    );
    await database.db.query('update facts.episodes set group_id = null');
    expect(await episodes('group.signal')).toEqual(['ep-2-0', 'ep-2-1']);
    expect(await episodes('count(group where reward >= 1) = 1 and count(group) = 2')).toHaveLength(6);
    await database.db.query("update facts.episodes set task_id = null where episode_id = 'ep-2-0'");
    expect(await episodes('count(group) = 1')).toEqual(['ep-2-0', 'ep-2-1']);
    expect(await episodes('group.signal')).toEqual([]);
    await database.db.query("update facts.episodes set task_id = 'task-2' where episode_id = 'ep-2-0'");
    for (const { episode_id, group_id } of kept)
      await database.db.query('update facts.episodes set group_id = $2 where episode_id = $1', [episode_id, group_id]);
  });
});
