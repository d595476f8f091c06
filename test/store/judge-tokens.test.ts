import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EventData } from '../../ingest/events/events.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { judge, judgeAgain, type MethodRequest } from '../../store/evaluate/judging/judge.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { at, event } from './support/events.ts';

type Credit = {
  readonly step_id: string;
  readonly value: number | null;
  readonly reason: string | null;
  readonly detail: { readonly checkpoint_id: string; readonly advantages: number[]; readonly returns: number[] } | null;
};
type Choice = EventData<'generation.completed'>['choices'][number];

describe('credit from recorded forward passes', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
  });
  afterEach(() => fresh.close());
  let second = 0;
  const now = () => new Date(Date.UTC(2026, 9, 1) + second++);

  const call = (episode: string, id: string, n: number, choices: readonly Partial<Choice>[], agent = 'solver') =>
    event(
      'generation.completed',
      {
        episode_id: episode,
        call_id: id,
        agent_id: agent,
        choices: choices.map((choice, index) => ({ index, ...choice })),
        prompt_token_ids: [1, 2],
      },
      { time: at(n) },
    );
  const started = (episode: string, reward: number | null = 1) => [
    event('episode.started', { episode_id: episode, task_id: 'task' }, { time: at(0) }),
    ...(reward === null
      ? []
      : [
          event('feedback.recorded', {
            feedback_id: `${episode}-r`,
            target: { kind: 'episode', id: episode },
            kind: 'reward',
            name: 'reward',
            value: reward,
          }),
        ]),
  ];
  const pass = (
    episode: string,
    step: string,
    numbers: readonly number[],
    { as = 'values', by = 'critic', without = null as string | null, when = 30 } = {},
  ) =>
    event(
      'feedback.recorded',
      {
        feedback_id: `${as}-${by}-${step}-${without}`,
        target: { kind: 'step', id: step, episode_id: episode, ...(without === null ? {} : { other_id: without }) },
        kind: 'score',
        name: as === 'values' ? 'token_values' : 'token_logprobs',
        value: [...numbers],
        label: as,
        by: 'model',
        annotator: by,
      },
      { time: at(when) },
    );
  const load = async (...events: Parameters<ReturnType<typeof postgresLog>['append']>[0][]) => {
    await postgresLog(fresh.db).append(events.flat());
    await projectAll(fresh.db);
  };
  const run = async (methods: readonly MethodRequest[], episodes: readonly string[]) => {
    await judge(fresh.db, postgresLog(fresh.db), { methods, episodes, now });
    await projectAll(fresh.db);
  };
  const credits = async (): Promise<Credit[]> =>
    (
      await fresh.db.query<Credit>(
        'select step_id, value, reason, detail from traj.credits order by episode_id, step_id, method',
      )
    ).rows;

  it('gae: the steps of an agent are one sequence, the reward stands at its end, and each token has its advantage', async () => {
    await load(
      started('e', 2),
      [
        call('e', 'c1', 1, [{ token_ids: [3, 4, 5], loss_mask: [1, 0, 1] }]),
        call('e', 'c2', 2, [{ token_ids: [6] }], 'critic'),
        call('e', 'c3', 3, [{ token_ids: [7, 8] }]),
      ],
      [pass('e', 'c1/0', [0.1, 9, 0.3]), pass('e', 'c2/0', [0.5]), pass('e', 'c3/0', [0.7, 0.9])],
    );
    const params = { gamma: 0.9, lambda: 0.8 };
    await run([{ method: 'gae', params }], ['e']);
    // From the end, with γλ = 0.72: 2 − 0.9; 0.9 · 0.9 − 0.7 and 0.72 of that; 0.9 · 0.7 − 0.3 and 0.72 of that; the token that the
    // environment put in is passed over; 0.9 · 0.3 − 0.1 and 0.72 of what comes after it.
    const close = (...values: number[]) => values.map((value) => expect.closeTo(value, 12));
    const [first, critic, last] = await credits();
    expect(first!.detail).toEqual({
      checkpoint_id: 'critic',
      advantages: close(0.8751968, 0.97944, 0.97944),
      returns: close(0.9751968, 9.97944, 1.27944),
    });
    expect(first!.value).toBeCloseTo(0.9273184, 12);
    expect(last!.detail!.advantages).toEqual(close(0.902, 1.1));
    expect(last!.value).toBeCloseTo(1.001, 12);
    expect(critic!.value).toBeCloseTo(2 - 0.5, 12);
  });

  it('gae: rewards that another method gave to steps stand at the end of each step', async () => {
    const own = (step: string, value: number) =>
      event('feedback.recorded', {
        ...{ feedback_id: `own ${step}`, target: { kind: 'step', id: step, episode_id: 'e' } },
        ...{ kind: 'reward', name: 'reward', value },
      });
    await load(
      started('e', 1),
      [call('e', 'c1', 1, [{ token_ids: [3, 4] }]), call('e', 'c2', 2, [{ token_ids: [5] }])],
      [pass('e', 'c1/0', [0, 0]), pass('e', 'c2/0', [0]), own('c1/0', 2), own('c2/0', 4)],
    );
    await run(
      [
        { method: 'petting_mixed_reward' },
        { method: 'gae', reads: 'petting_mixed_reward', params: { gamma: 1, lambda: 1 } },
      ],
      ['e'],
    );
    // The team's 1 and each step's own: 3 and 5; what is still to come is 8 before the first and 5 before the second.
    expect((await credits()).map(({ detail }) => detail!.advantages)).toEqual([[8, 8], [5]]);
  });

  it('gae: values of two models are never mixed, and the last pass over an episode counts', async () => {
    await load(
      started('e', 1),
      [call('e', 'c1', 1, [{ token_ids: [3] }]), call('e', 'c2', 2, [{ token_ids: [4] }])],
      [pass('e', 'c1/0', [0.25]), pass('e', 'c2/0', [0.5]), pass('e', 'c2/0', [0.75], { by: 'newer', when: 40 })],
    );
    await run([{ method: 'gae' }], ['e']);
    expect((await credits()).map(({ value, reason }) => [value, reason])).toEqual([
      [null, 'no_token_values'],
      [null, 'no_token_values'],
    ]);
    await load([pass('e', 'c1/0', [0.125], { by: 'newer', when: 41 })]);
    await run([{ method: 'gae' }], ['e']);
    expect((await credits()).map(({ value }) => value)).toEqual([0.875, 0.25]);
  });

  it('gae: what cannot be computed has no credit, and says why', async () => {
    await load(
      started('text'),
      [call('text', 'c1', 1, [{ content: 'no tokens' }])],
      started('unpassed'),
      [call('unpassed', 'c1', 1, [{ token_ids: [3] }])],
      started('unrewarded', null),
      [call('unrewarded', 'c1', 1, [{ token_ids: [3] }]), pass('unrewarded', 'c1/0', [0])],
      started('short'),
      [call('short', 'c1', 1, [{ token_ids: [3, 4] }]), pass('short', 'c1/0', [0])],
      started('forced'),
      [call('forced', 'c1', 1, [{ token_ids: [3], loss_mask: [0] }]), pass('forced', 'c1/0', [0])],
      started('chosen'),
      [
        call('chosen', 'c1', 1, [{ token_ids: [3] }, { token_ids: [4], chosen: true }]),
        pass('chosen', 'c1/0', [0.5]),
        pass('chosen', 'c1/1', [0.5]),
      ],
    );
    await run([{ method: 'gae' }], ['text', 'unpassed', 'unrewarded', 'short', 'forced', 'chosen']);
    expect((await credits()).map(({ value, reason }) => [value, reason])).toEqual([
      // By episode: chosen, forced, short, text, unpassed, unrewarded.
      [null, 'not_chosen'],
      [0.5, null],
      [null, 'no_trained_tokens'],
      [null, 'no_token_values'],
      [null, 'no_token_ids'],
      [null, 'no_token_values'],
      [null, 'missing_reward'],
    ]);
  });

  it('causal_influence: what the next step loses without a step, over steps of equal tokens, by one checkpoint', async () => {
    const episode = (id: string, plain: readonly number[], masked: readonly number[]) => [
      ...started(id),
      call(id, 'c1', 1, [{ token_ids: [3, 4] }]),
      call(id, 'c2', 2, [{ token_ids: [5, 6, 7], loss_mask: [1, 1, 0] }]),
      pass(id, 'c2/0', plain, { as: 'reference', by: 'ref' }),
      pass(id, 'c2/0', [-9, -9, -9], { as: 'reference', by: 'another', when: 50 }),
      pass(id, 'c2/0', masked, { as: 'masked', by: 'ref', without: 'c1/0' }),
    ];
    await load(episode('a', [-1, -2, -50], [-2, -4, -1]), episode('b', [-1, -1, -1], [-1, -2, -1]));
    await run([{ method: 'causal_influence' }], ['a', 'b']);
    const [a1, a2, b1, b2] = await credits();
    expect([a1!.value, b1!.value]).toEqual([2, 2]);
    expect([a2!.reason, b2!.reason]).toEqual(['no_masked_logprobs', 'no_masked_logprobs']);
  });

  it('is the same after the tables were made again from the log', async () => {
    await load(started('e', 1), [call('e', 'c1', 1, [{ token_ids: [3, 4] }]), pass('e', 'c1/0', [0.1, 0.2])]);
    await run([{ method: 'gae' }, { method: 'causal_influence' }], ['e']);
    const before = await checksum(fresh.db);
    const rows = await credits();
    expect(rows.map(({ value }) => value)).toEqual([null, expect.any(Number)]);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect(await checksum(fresh.db)).toEqual(before);
    expect(await credits()).toEqual(rows);
  });
});
