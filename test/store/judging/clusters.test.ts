/** Which queries are alike decides which team they get: by their words, or by the vectors of a model that is named. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { storedPool, teamsLike } from '../../../store/evaluate/consistency/stored-pool.ts';
import { event } from '../support/events.ts';
import { type JudgedDatabase, judgedDatabase } from './support/judged.ts';

const QUERIES = {
  add: 'What do three apples and four apples make together?',
  sum: 'Compute the total of 3 and 4.',
  poem: 'Write a haiku about the sea in autumn.',
} as const;
type Task = keyof typeof QUERIES;

/** Rewards by task and team. Alone, `add` is best with the pair; together with `sum`, the solo agent is. */
const REWARDS: readonly (readonly [Task, string, number])[] = [
  ['add', 'pair', 1],
  ['add', 'solo', 0.5],
  ['sum', 'pair', 0],
  ['sum', 'solo', 1],
  ['poem', 'pair', 1],
];

describe('clusters of queries', () => {
  let base: JudgedDatabase;
  beforeAll(async () => {
    base = await judgedDatabase();
    const team = (team_id: string, roles: readonly string[], edges: readonly string[][], tags = {}) =>
      event('team.defined', {
        team_id,
        name: team_id,
        agents: roles.map((role) => ({ agent_id: `${team_id}-${role}`, role })),
        edges: edges as [string, string][],
        tags,
      });
    const vector = (task: Task, value: readonly number[]) =>
      event('feedback.recorded', {
        feedback_id: `vector-${task}`,
        target: { kind: 'task', id: task },
        kind: 'score',
        name: 'embedding',
        value: [...value],
        by: 'model',
        annotator: 'tiny',
      });
    await base.load(
      [
        team('pair', ['solver', 'critic'], [['pair-solver', 'pair-critic']], { reasoning: 'two see more than one' }),
        team('solo', ['solver'], []),
        team('trio', ['solver', 'critic', 'judge'], [['trio-solver', 'trio-critic']]),
      ],
      Object.entries(QUERIES).map(([task_id, query]) => event('task.defined', { task_id, query })),
      REWARDS.flatMap(([task_id, team_id, reward]) => {
        const episode_id = `${task_id}-${team_id}`;
        return [
          event('episode.started', { episode_id, task_id, team_id }),
          event('feedback.recorded', {
            feedback_id: `reward-${episode_id}`,
            target: { kind: 'episode', id: episode_id, episode_id },
            kind: 'reward',
            name: 'reward',
            value: reward,
          }),
          event('episode.finished', { episode_id, outcome: 'success' }),
        ];
      }),
      [vector('add', [1, 0.1]), vector('sum', [1, 0.05])],
    );
    const tiny = { embedding_model: 'tiny' };
    await base.run([
      'inter_consistency_select',
      'inter_consistency_score',
      { method: 'inter_consistency_score', params: tiny },
    ]);
    await base.run([{ method: 'inter_consistency_select', params: tiny }]);
  });
  afterAll(() => base.close());

  const verdicts = async (model: string | null) =>
    Object.fromEntries(
      (
        await base.rows<{ episode_id: string; keep: boolean | null }>(
          `select episode_id, keep from traj.verdicts where method = 'inter_consistency_select'
           and params ->> 'embedding_model' is not distinct from ${model === null ? 'null' : `'${model}'`} order by 1`,
        )
      ).map(({ episode_id, keep }) => [episode_id, keep]),
    );

  it('are made of words where no model is named, and of its vectors where one is', async () => {
    expect(await verdicts(null)).toEqual({
      'add-pair': true,
      'add-solo': false,
      'sum-pair': false,
      'sum-solo': true,
      'poem-pair': true,
    });
    // Together 1.5 with the solo agent and 1 with the pair; half a point on `add` is below what is kept.
    expect(await verdicts('tiny')).toEqual({
      'add-pair': false,
      'add-solo': false,
      'sum-pair': false,
      'sum-solo': true,
      'poem-pair': true,
    });
    const scores = await base.rows<{ value: number }>(
      `select value from traj.scores where method = 'inter_consistency_score' order by params ->> 'embedding_model' nulls first`,
    );
    // Of what the words keep, `add` has the pair and `sum` the solo agent: alike by their vectors, they disagree.
    expect(scores.map(({ value }) => value)).toEqual([1, 2 / 3]);
  });

  it('say which team each of them gets, and give a triplet for each query that is kept', async () => {
    const { pool, triplets } = await storedPool(base.db, { embeddingModel: 'tiny', minScore: 1 });
    expect(Object.values(pool.clusters).map(({ queries, team }) => [queries, team])).toEqual([
      [['add', 'sum'], 'solo'],
      [['poem'], 'pair'],
    ]);
    expect(triplets).toEqual([
      {
        task_id: 'sum',
        query: QUERIES.sum,
        reasoning: null,
        team_id: 'solo',
        cluster: 'add',
        score: 1,
        refined_from: null,
      },
      {
        task_id: 'poem',
        query: QUERIES.poem,
        reasoning: 'two see more than one',
        team_id: 'pair',
        cluster: 'poem',
        score: 1,
        refined_from: null,
      },
    ]);
    await expect(storedPool(base.db, { embeddingModel: 'other', minScore: 1 })).rejects.toThrow(
      'No task has a vector of other; there are vectors of tiny.',
    );
  });

  it('list the teams that are most like one, by roles and wiring', async () => {
    const like = await teamsLike(base.db, 'pair');
    expect(like.map(({ team_id }) => team_id)).toEqual(['trio', 'solo']);
    expect(like[0]).toMatchObject({ roles: 2 / 3, wiring: 1, score: (2 / 3 + 1) / 2 });
    await expect(teamsLike(base.db, 'quartet')).rejects.toThrow('There is no team "quartet".');
  });
});
