import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { initialWeights } from '../../trainer/model/parameters.ts';
import type { Sample, SampleRequest } from '../../trainer/model/weights.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { keep } from '../../trainer/sample/sampling.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { GROUPED, ids, TINY } from './tiny-model.ts';

const random = randomStream(77);
const request = (length: number, more: Partial<SampleRequest> = {}): SampleRequest => ({
  promptIds: ids(random, length, TINY.vocab_size),
  n: 1,
  maxTokens: 8,
  temperature: 1,
  seed: 3,
  stopIds: [],
  ...more,
});
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('requests that come while others are generated', () => {
  let policy: Policy;
  beforeAll(async () => {
    policy = await Policy.load(GROUPED, initialWeights(GROUPED, 1));
  });
  afterAll(() => policy.close());

  it('get the samples they would get alone, to the last bit', async () => {
    const requests = Array.from({ length: 30 }, (_, i) =>
      request(1 + ((i * 7) % 60), {
        n: 1 + (i % 3),
        maxTokens: 2 + ((i * 11) % 60),
        seed: i,
        ...(i % 4 === 1 ? { topP: 0.8 } : {}),
        ...(i % 5 === 2 ? { temperature: 0.7, rawLogprobs: true, topLogprobs: 2 } : {}),
        ...(i % 6 === 3 ? { stopIds: [1, 2, 3] } : {}),
      }),
    );
    const joining: Promise<Sample[][]>[] = [];
    for (const [i, one] of requests.entries()) {
      joining.push(policy.sample([one]));
      for (let wait = 0; wait < i % 4; wait++) await turn();
    }
    const together = await Promise.all(joining);
    for (const [i, one] of requests.entries()) expect(together[i]).toEqual(await policy.sample([one]));
  });

  it('end before a long one that began earlier', async () => {
    const ended: string[] = [];
    const long = policy.sample([request(20, { maxTokens: 100, n: 4 })]).then(() => ended.push('long'));
    for (let i = 0; i < 5; i++) await turn();
    const short = policy.sample([request(3, { maxTokens: 3 })]).then(() => ended.push('short'));
    await Promise.all([long, short]);
    expect(ended).toEqual(['short', 'long']);
  });

  it('are not held up by one that asks for more samples than grow at once', async () => {
    const ended: string[] = [];
    const many = policy.sample([request(4, { maxTokens: 12, n: 3000 })]);
    void many.then(() => ended.push('many'));
    for (let i = 0; i < 3; i++) await turn();
    const one = request(6, { maxTokens: 4, seed: 9 });
    const few = policy.sample([one]);
    void few.then(() => ended.push('few'));
    expect((await many)[0]).toHaveLength(3000);
    expect(ended).toEqual(['few', 'many']);
    expect(await few).toEqual(await policy.sample([one]));
  });

  it('leave when they are withdrawn, and nobody else is touched', async () => {
    const other = request(5, { maxTokens: 40, seed: 8 });
    const kept = policy.sample([other]);
    const withdrawal = new AbortController();
    const lost = policy.sample([request(5, { maxTokens: 100, n: 50 })], { signal: withdrawal.signal });
    lost.catch(() => {});
    for (let i = 0; i < 4; i++) await turn();
    withdrawal.abort();
    await expect(lost).rejects.toMatchObject({ code: 'interrupted' });
    await expect(policy.sample([other], { signal: withdrawal.signal })).rejects.toMatchObject({ code: 'interrupted' });
    expect(await kept).toEqual(await policy.sample([other]));
  });

  it('end with the weights they began with', async () => {
    const mine = await Policy.load(GROUPED, initialWeights(GROUPED, 1));
    const one = request(5, { maxTokens: 50 });
    const before = mine.sample([one]);
    for (let i = 0; i < 4; i++) await turn();
    mine.setWeights(initialWeights(GROUPED, 2));
    const after = mine.sample([one]);
    expect(await before).toEqual(await policy.sample([one]));
    expect(await after).not.toEqual(await before);
    await mine.close();
  });
});

describe('a sample', () => {
  let policy: Policy;
  beforeAll(async () => {
    policy = await Policy.load(GROUPED, initialWeights(GROUPED, 4));
  });
  afterAll(() => policy.close());

  /** Log-probabilities of every token after a prompt at temperature 1, from the scoring graph. */
  const next = async (promptIds: readonly number[]): Promise<number[]> => {
    const rows = Array.from({ length: GROUPED.vocab_size }, (_, id) => ({ promptIds, tokenIds: [id] }));
    return (await policy.logprobs(rows)).map(([logprob]) => logprob!);
  };

  it('has log-probabilities of what it was drawn from: temperature applied, cut, and summing to 1', async () => {
    for (const cut of [{ topK: 4 }, { topP: 0.6 }, { minP: 0.3 }, { topK: 9, topP: 0.9, minP: 0.05 }]) {
      const one = request(6, { temperature: 0.8, maxTokens: 5, rawLogprobs: true, topLogprobs: 3, ...cut });
      const [[sample]] = (await policy.sample([one])) as [[Sample]];
      for (const [t, token] of sample.tokenIds.entries()) {
        const raw = await next([...one.promptIds, ...sample.tokenIds.slice(0, t)]);
        const weights = raw.map((x) => Math.exp(x / 0.8));
        const total = weights.reduce((a, b) => a + b, 0);
        const p = Float32Array.from(weights, (w) => w / total);
        const { mass, count } = keep(p, 0, p.length, cut);
        expect(sample.logprobs[t]).toBeCloseTo(Math.log(p[token]! / mass), 4);
        expect(sample.rawLogprobs![t]).toBeCloseTo(raw[token]!, 4);
        const order = [...p.keys()].sort((a, b) => p[b]! - p[a]!);
        expect(order.indexOf(token)).toBeLessThan(count);
        const best = sample.topLogprobs![t]!;
        expect(best.map((each) => each.token)).toEqual(order.slice(0, Math.min(3, count)));
        expect(best[0]!.logprob).toBeCloseTo(Math.log(p[order[0]!]! / mass), 4);
      }
    }
  });

  it('is the greedy one where topK is 1', async () => {
    const one = request(7, { maxTokens: 20 });
    const [[greedy], [first]] = (await policy.sample([
      { ...one, temperature: 0 },
      { ...one, topK: 1 },
    ])) as [[Sample], [Sample]];
    expect(first.tokenIds).toEqual(greedy.tokenIds);
    for (const logprob of first.logprobs) expect(logprob).toBeCloseTo(0, 6);
  });

  it('is drawn as often as its cut distribution says', async () => {
    const promptIds = ids(random, 5, TINY.vocab_size);
    const p = Float32Array.from(await next(promptIds), Math.exp);
    const cut = { topK: 8, topP: 0.9 };
    const { least, mass, count } = keep(p, 0, p.length, cut);
    const n = 4000;
    const [samples] = (await policy.sample([
      { promptIds, n, maxTokens: 1, temperature: 1, seed: 12, stopIds: [], ...cut },
    ])) as [Sample[]];
    let chiSquare = 0;
    for (const [id, each] of p.entries()) {
      const seen = samples.filter(({ tokenIds }) => tokenIds[0] === id).length;
      if (each < least) expect(seen).toBe(0);
      else chiSquare += (seen - (n * each) / mass) ** 2 / ((n * each) / mass);
    }
    // The mean plus five standard deviations of chi-square with count − 1 degrees of freedom.
    expect(chiSquare).toBeLessThan(count - 1 + 5 * Math.sqrt(2 * (count - 1)));
  });

  it('ends where its request says so', async () => {
    const ended = (tokenIds: readonly number[]) => tokenIds.length === 5;
    const [[sample]] = (await policy.sample([request(3, { ended, maxTokens: 20 })])) as [[Sample]];
    expect(sample).toMatchObject({ finish: 'stop', tokenIds: { length: 5 } });
  });

  it('is refused with settings that mean nothing', async () => {
    for (const more of [{ topP: 0 }, { topP: 1.1 }, { topK: -1 }, { minP: 2 }, { topLogprobs: 0.5 }]) {
      await expect(policy.sample([request(2, more)])).rejects.toMatchObject({ code: 'input_refused' });
    }
  });
});

describe('a running batch with little room', () => {
  it('reads a long prompt in pieces, as if it were read at once, while others go on', async () => {
    const weights = initialWeights(GROUPED, 1);
    const policy = await Policy.load(GROUPED, weights, { limits: { readTokens: 16 } });
    const promptIds = ids(random, 100, TINY.vocab_size);
    const one = { promptIds, n: 2, maxTokens: 3, temperature: 1, seed: 1, stopIds: [] };
    const ended: string[] = [];
    const long = policy.sample([one]);
    void long.then(() => ended.push('long'));
    await policy.sample([request(2, { maxTokens: 4 })]);
    ended.push('short');
    const [samples] = (await long) as [Sample[]];
    expect(ended).toEqual(['short', 'long']);
    const scored = await policy.logprobs(samples.map(({ tokenIds }) => ({ promptIds, tokenIds })));
    for (const [i, { logprobs }] of samples.entries()) {
      for (const [t, logprob] of logprobs.entries()) expect(logprob).toBeCloseTo(scored[i]![t]!, 4);
    }
    await policy.close();
  });

  it('gives everybody the same samples as one with much, later', async () => {
    const weights = initialWeights(GROUPED, 1);
    const requests = Array.from({ length: 12 }, (_, i) => request(3 + i, { n: 1 + (i % 4), maxTokens: 20, seed: i }));
    const roomy = await Policy.load(GROUPED, weights);
    const expected = await roomy.sample(requests);
    await roomy.close();
    for (const limits of [{ rows: 1 }, { rows: 5 }, { cacheFloats: 1 }]) {
      const policy = await Policy.load(GROUPED, weights, { limits });
      expect(await policy.sample(requests)).toEqual(expected);
      await policy.close();
    }
  });
});

describe('a model with a value head', () => {
  it('gives a value before each token and generates no text', async () => {
    const config = { ...GROUPED, head: 'value' as const };
    const policy = await Policy.load(config, initialWeights(config, 1));
    const rows = [
      { promptIds: [1, 2, 3], tokenIds: [4, 5, 6, 7] },
      { promptIds: [9], tokenIds: [8] },
      { promptIds: [9, 8], tokenIds: [] },
    ];
    const values = await policy.values(rows);
    expect(values.map((row) => row.length)).toEqual([4, 1, 0]);
    // A value knows what came before its token and not the token: another last token leaves all values as they are.
    const [other] = await policy.values([{ promptIds: [1, 2, 3], tokenIds: [4, 5, 6, 20] }]);
    for (const [t, value] of other!.entries()) expect(value).toBeCloseTo(values[0]![t]!, 5);
    expect(new Set(values[0]!.map((v) => v.toFixed(6))).size).toBe(4);
    await expect(policy.logprobs(rows)).rejects.toMatchObject({ code: 'model_unsupported' });
    await expect(policy.sample([request(2)])).rejects.toMatchObject({ code: 'model_unsupported' });
    await policy.close();
    const speaks = await Policy.load(GROUPED, initialWeights(GROUPED, 1));
    await expect(speaks.values(rows)).rejects.toMatchObject({ code: 'model_unsupported' });
    await speaks.close();
  });
});
