import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Pool, poolOf } from '../../../store/evaluate/consistency/pool.ts';
import {
  type RanEpisode,
  refinedPairs,
  type TeamRow,
  tripletsOf,
} from '../../../store/evaluate/consistency/refined-teams.ts';

let made = 0;
const played = (task: string, team: string, reward: number | null, more: Partial<RanEpisode> = {}): RanEpisode => ({
  episode_id: `e${String(made++).padStart(4, '0')}`,
  task_id: task,
  task_text: `What is ${task}?`,
  team_id: team,
  reward,
  outcome: null,
  ...more,
});
const inOne = (name: string, ...tasks: string[]) => tasks.map((task) => [task, { cluster: name }] as const);
const teamRow = (team_id: string, tags: TeamRow['tags'] = null, unmapped: TeamRow['unmapped'] = null): TeamRow => ({
  team_id,
  name: 'a team',
  tags,
  unmapped,
});
const scores = ({ cells }: Pool) => cells.map((row) => row.map((cell) => cell?.score ?? null));

describe('A pool of teams over queries', () => {
  it('has the mean reward of each team on each query, and null, not 0, where it was not played', () => {
    const episodes = [
      played('q2', 'b', 1),
      played('q1', 'a', 1),
      played('q1', 'a', 0),
      played('q1', 'b', 0),
      played('q1', 'b', null),
      played('q2', 'c', null),
    ];
    const pool = poolOf(episodes, new Map());
    expect([pool.queries, pool.teams]).toEqual([
      ['q1', 'q2'],
      ['a', 'b'],
    ]);
    expect(scores(pool)).toEqual([
      [0.5, 0],
      [null, 1],
    ]);
    expect(pool.cells[0]![0]!.episodes).toEqual([episodes[1]!.episode_id, episodes[2]!.episode_id]);
    expect(pool.left_out).toEqual({ no_reward: [episodes[4]!.episode_id, episodes[5]!.episode_id] });
  });

  it('gives similar queries one team, as the published rule does with the whole matrix: the example of inter_consistency_select', () => {
    const matrix = [
      [1, 0, 1],
      [1, 1, 0],
      [0, 1, 1],
      [0, 1, 0],
    ];
    const episodes = matrix.flatMap((row, q) => row.map((reward, m) => played(`q${q}`, `m${m}`, reward)));
    const pool = poolOf(episodes, new Map([...inOne('g0', 'q0', 'q1'), ...inOne('g1', 'q2', 'q3')]));
    expect(pool.clusters).toMatchObject({
      g0: { team: 'm0', total: 2, kept: ['q0', 'q1'], unplayed: {}, reason: null },
      g1: { team: 'm1', total: 2, kept: ['q2', 'q3'], unplayed: {}, reason: null },
    });
  });

  it('lets only teams compete that were played on every query of the cluster, and names the others with what is missing', () => {
    const episodes = [
      played('q1', 'best', 1),
      played('q1', 'whole', 0.5),
      played('q2', 'whole', 0.25),
      played('q3', 'elsewhere', 1),
    ];
    const { clusters } = poolOf(episodes, new Map(inOne('g', 'q1', 'q2')), { min_score: 0.5 });
    expect(clusters).toEqual({
      g: {
        queries: ['q1', 'q2'],
        competing: ['whole'],
        unplayed: { best: ['q2'] },
        team: 'whole',
        total: 0.75,
        kept: ['q1'],
        reason: null,
      },
      q3: {
        queries: ['q3'],
        competing: ['elsewhere'],
        unplayed: {},
        team: 'elsewhere',
        total: 1,
        kept: ['q3'],
        reason: null,
      },
    });
    const none = poolOf([played('q1', 'a', 1), played('q2', 'b', 1)], new Map(inOne('g', 'q1', 'q2')));
    expect(none.clusters.g).toMatchObject({
      team: null,
      total: null,
      kept: [],
      unplayed: { a: ['q2'], b: ['q1'] },
      reason: 'no_team_on_all_queries',
    });
  });

  it('leaves out episodes of no task and of no team, by name', () => {
    const [a, b] = [played('q', 't', 1, { task_id: null }), played('q', 't', 1, { team_id: null })];
    expect(poolOf([a, b], new Map())).toEqual({
      queries: [],
      texts: [],
      teams: [],
      cells: [],
      clusters: {},
      left_out: { no_task: [a.episode_id], no_team: [b.episode_id] },
    });
  });

  it('is the same for any order of episodes', () => {
    const some = fc.array(
      fc.record({
        task: fc.constantFrom('q1', 'q2', 'q3', '__proto__'),
        team: fc.constantFrom('a', 'b', 'c'),
        reward: fc.option(fc.double({ min: -1, max: 1, noNaN: true })),
      }),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(some, fc.integer(), (rows, seed) => {
        const episodes = rows.map(({ task, team, reward }) => played(task, team, reward));
        const [shuffled] = fc.sample(fc.shuffledSubarray(episodes, { minLength: episodes.length }), {
          seed,
          numRuns: 1,
        });
        const clusters = new Map(inOne('g', 'q1', 'q2'));
        expect(poolOf(shuffled!, clusters)).toEqual(poolOf(episodes, clusters));
        expect(refinedPairs(shuffled!, [teamRow('b', { base_team_id: 'a' })])).toEqual(
          refinedPairs(episodes, [teamRow('b', { base_team_id: 'a' })]),
        );
      }),
    );
  });
});

describe('A team rewritten for a query', () => {
  const teams = [
    teamRow('base'),
    teamRow('better', { base_team_id: 'base', reasoning: 'A checker catches slips of sign.' }),
    teamRow('worse', null, { base_team_id: 'base' }),
    teamRow('broken', { base_team_id: 'base' }),
    teamRow('namesake'),
  ];
  const episodes = [
    played('q1', 'base', 1),
    played('q1', 'base', 0),
    played('q1', 'better', 1),
    played('q1', 'worse', 0),
    played('q1', 'broken', null, { outcome: 'error' }),
    played('q1', 'namesake', 1),
    played('q2', 'better', 1),
    played('q3', 'base', 0.5),
    played('q3', 'worse', 0.5, { outcome: 'error' }),
  ];

  it('is paired with the team it names, on the tasks both were played on, and taken if it runs and scores no worse', () => {
    const about = refinedPairs(episodes, teams).map((pair) => [
      pair.team_id,
      pair.task_id,
      pair.base_score,
      pair.refined_score,
      pair.executable,
      pair.accepted,
    ]);
    expect(about).toEqual([
      ['better', 'q1', 0.5, 1, true, true],
      ['broken', 'q1', 0.5, null, false, false],
      ['worse', 'q1', 0.5, 0, true, false],
      ['worse', 'q3', 0.5, 0.5, false, false],
    ]);
  });

  it('stands in the triplet of its query with its reasoning; elsewhere the cluster’s own team does, its reasoning null', () => {
    const plays = [played('q1', 'base', 1), played('q1', 'better', 1), played('q2', 'base', 1)];
    const pool = poolOf(plays, new Map(inOne('g', 'q1', 'q2')));
    expect(pool.clusters.g).toMatchObject({ team: 'base', unplayed: { better: ['q2'] } });
    expect(tripletsOf(pool, refinedPairs(plays, teams), teams)).toEqual([
      {
        task_id: 'q1',
        query: 'What is q1?',
        reasoning: 'A checker catches slips of sign.',
        team_id: 'better',
        cluster: 'g',
        score: 1,
        refined_from: 'base',
      },
      {
        task_id: 'q2',
        query: 'What is q2?',
        reasoning: null,
        team_id: 'base',
        cluster: 'g',
        score: 1,
        refined_from: null,
      },
    ]);
  });
});
