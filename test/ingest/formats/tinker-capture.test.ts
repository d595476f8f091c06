/** Samples that tinker-cookbook captures. */
import { describe, expect, it } from 'vitest';
import { type Data, known, read } from './support/convert.ts';

const sample = (scope: Data, seq_id: number, samples: readonly Data[]) => ({
  ...{ kind: 'sample', scope, created_at: 1767225600, sampling_session_id: 's', seq_id },
  ...{ model_path: 'tinker://w', prompt_tokens: [1, 2], samples },
});

describe('tinker-capture', () => {
  it('keeps the tokens and log-probabilities of each sequence of a call', () => {
    const record = sample({ run_id: 'r' }, 1, [
      { tokens: [3, 4], logprobs: [-0.5, -1], stop_reason: 'stop' },
      { tokens: [5], logprobs: [-0.5, -1], stop_reason: 'length' },
    ]);
    expect(known(record)).toBe('tinker-capture');
    const { of, times, refused } = read('tinker-capture', record);
    expect(refused).toEqual([]);
    const [{ choices, prompt_token_ids: prompt }] = of('generation.completed') as [
      { choices: Data[]; prompt_token_ids: unknown },
    ];
    expect(prompt).toEqual([1, 2]);
    expect(choices).toMatchObject([
      { token_ids: [3, 4], logprobs: [-0.5, -1], finish_reason: 'stop' },
      { token_ids: [5], finish_reason: 'length' },
    ]);
    expect(choices[1]!.logprobs).toBe(undefined);
    expect(times('generation.completed')).toEqual(['2026-01-01T00:00:00.000000Z']);
  });

  it('puts calls with one scope into one episode, whatever their purpose, and others into others', () => {
    const scopes = [
      { run_id: 'r', traj_idx: 0 },
      { run_id: 'r', traj_idx: 0, purpose: 'judge' },
      { run_id: 'r', traj_idx: 1 },
    ];
    const started = scopes.map((scope, i) => read('tinker-capture', sample(scope, i, [])).of('episode.started')[0]!);
    expect(started[1]).toEqual(started[0]);
    expect(started[2]!.episode_id).not.toBe(started[0]!.episode_id);
  });
});
