import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { laterUsage, usageOf, withOurs, withoutOurs } from '../../../ingest/formats/kit/usage.ts';

describe('The usage of a call', () => {
  it.each([
    [
      'OpenAI chat',
      {
        prompt_tokens: 100,
        completion_tokens: 50,
        total_tokens: 150,
        prompt_tokens_details: { cached_tokens: 30 },
        completion_tokens_details: { reasoning_tokens: 20 },
      },
      [100, 50, 30, undefined, 20],
    ],
    [
      'OpenAI Responses',
      {
        input_tokens: 100,
        input_tokens_details: { cached_tokens: 30 },
        output_tokens: 50,
        output_tokens_details: { reasoning_tokens: 20 },
      },
      [100, 50, 30, undefined, 20],
    ],
    [
      'Anthropic, whose cache is beside the input',
      { input_tokens: 5, cache_read_input_tokens: 1000, cache_creation_input_tokens: 200, output_tokens: 50 },
      [1205, 50, 1000, 200, undefined],
    ],
    [
      'LiteLLM, which writes those names within prompt_tokens',
      { prompt_tokens: 1205, cache_read_input_tokens: 1000, cache_creation_input_tokens: 200, completion_tokens: 50 },
      [1205, 50, 1000, 200, undefined],
    ],
    [
      'Amazon Converse',
      { inputTokens: 5, outputTokens: 50, cacheReadInputTokens: 1000, cacheWriteInputTokens: 200, totalTokens: 1255 },
      [1205, 50, 1000, 200, undefined],
    ],
    [
      'Gemini, whose thoughts are beside the answer',
      {
        promptTokenCount: 100,
        candidatesTokenCount: 20,
        thoughtsTokenCount: 30,
        cachedContentTokenCount: 60,
        toolUsePromptTokenCount: 7,
        totalTokenCount: 157,
      },
      [107, 50, 60, undefined, 30],
    ],
    ['DeepSeek', { prompt_tokens: 100, completion_tokens: 5, prompt_cache_hit_tokens: 64 }, [100, 5, 64]],
    [
      'Moonshot',
      { prompt_tokens: 1000, completion_tokens: 10, total_tokens: 1010, cached_tokens: 900 },
      [1000, 10, 900],
    ],
    [
      'Codex',
      { input_tokens: 90, cached_input_tokens: 40, output_tokens: 9, reasoning_output_tokens: 3 },
      [90, 9, 40, undefined, 3],
    ],
    ['the AI SDK', { promptTokens: 100, completionTokens: 50, totalTokens: 150 }, [100, 50]],
    [
      'the AI SDK since version 6',
      {
        inputTokens: 100,
        outputTokens: 50,
        'inputTokenDetails.cacheReadTokens': 30,
        'inputTokenDetails.cacheWriteTokens': 4,
        'outputTokenDetails.reasoningTokens': 20,
      },
      [100, 50, 30, 4, 20],
    ],
    [
      'LangChain',
      {
        input_tokens: 100,
        output_tokens: 50,
        total_tokens: 150,
        input_token_details: { cache_read: 30, cache_creation: 4 },
        output_token_details: { reasoning: 20 },
      },
      [100, 50, 30, 4, 20],
    ],
    [
      'the GenAI conventions',
      {
        input_tokens: 100,
        output_tokens: 50,
        'cache_read.input_tokens': 30,
        'cache_creation.input_tokens': 4,
        'reasoning.output_tokens': 20,
      },
      [100, 50, 30, 4, 20],
    ],
    [
      'OpenInference',
      { prompt: 100, completion: 50, total: 150, 'prompt_details.cache_read': 30, 'completion_details.reasoning': 20 },
      [100, 50, 30, undefined, 20],
    ],
    [
      'Langfuse, whose parts of any name are beside the rest',
      {
        input: 40,
        input_cached_tokens: 30,
        input_audio_tokens: 30,
        output: 30,
        output_reasoning_tokens: 20,
        total: 150,
      },
      [100, 50, 30, undefined, 20],
    ],
    ['Pi', { input: 5, output: 50, cacheRead: 1000, cacheWrite: 200, totalTokens: 1255 }, [1205, 50, 1000, 200]],
    ['llama.cpp', { prompt_n: 5, cache_n: 95, predicted_n: 50 }, [100, 50, 95]],
  ] as const)('of %s has all tokens read and written, and their parts', (_, native, expected) => {
    const usage = usageOf(native)!;
    const { input_tokens, output_tokens, cached_input_tokens, cache_write_input_tokens, reasoning_tokens } = usage;
    const found = [input_tokens, output_tokens, cached_input_tokens, cache_write_input_tokens, reasoning_tokens];
    expect(found).toEqual(Array.from({ length: 5 }, (_, i) => expected[i]));
  });

  it('has reasoning that is billed beside the answer where the total says so, and only there', () => {
    const billed = (total_tokens: number | undefined, reasoning_tokens: number) =>
      usageOf({
        prompt_tokens: 10120,
        completion_tokens: 1499,
        ...(total_tokens === undefined ? {} : { total_tokens }),
        completion_tokens_details: { reasoning_tokens },
      })!.output_tokens;
    expect(billed(10120 + 1499 + 2809, 2809)).toBe(4308);
    expect(billed(10120 + 1499, 1200)).toBe(1499);
    expect(billed(10120 + 1499, 2809)).toBe(1499);
    expect(billed(undefined, 1200)).toBe(1499);
    expect(billed(0, 1200)).toBe(1499);
    expect(billed(99999, 1200)).toBe(1499);
  });

  it('has what a cache held beside the input or within it as the total says, then as the caller, then as the names', () => {
    const read = (usage: object, cache?: 'within' | 'beside') =>
      usageOf({ output_tokens: 50, ...usage }, cache)!.input_tokens;
    const beside = { input_tokens: 70, cache_read_input_tokens: 30 };
    expect([read(beside), read(beside, 'within'), read({ ...beside, total_tokens: 120 })]).toEqual([100, 70, 70]);
    expect(read({ ...beside, total_tokens: 150 }, 'within')).toBe(100);
    const within = { input_tokens: 100, cached_tokens: 30 };
    expect([read(within), read(within, 'beside'), read({ ...within, total_tokens: 180 })]).toEqual([100, 130, 130]);
  });

  it('never has more tokens of a cache than tokens read', () => {
    expect(usageOf({ input_tokens: 5, cached_input_tokens: 95, output_tokens: 1, total_tokens: 6 })).toMatchObject({
      input_tokens: 100,
      cached_input_tokens: 95,
    });
    const tokens = fc.integer({ min: 0, max: 1000 });
    fc.assert(
      fc.property(
        fc.record({ input: tokens, cached: tokens, written: tokens, output: tokens }),
        fc.option(tokens, { nil: undefined }),
        ({ input, cached, written, output }, total) => {
          const usage = usageOf({
            input_tokens: input,
            cached_tokens: cached,
            cache_write_tokens: written,
            output_tokens: output,
            ...(total === undefined ? {} : { total_tokens: total }),
          })!;
          expect(usage.input_tokens).toBeGreaterThanOrEqual(cached + written);
        },
      ),
    );
  });

  it('is that of the names that counted, where a program fills the others with 0', () => {
    const both = { prompt_tokens: 0, completion_tokens: 0, input_tokens: 12, output_tokens: 3 };
    expect(usageOf(both)).toEqual({ input_tokens: 12, output_tokens: 3 });
    const other = { prompt_tokens: 12, completion_tokens: 3, input_tokens: 0, output_tokens: 0 };
    expect(usageOf(other)).toEqual({ input_tokens: 12, output_tokens: 3 });
    expect(usageOf({ prompt_tokens: 0, completion_tokens: 3 })).toEqual({ input_tokens: 0, output_tokens: 3 });
  });

  it('is unknown where nothing was counted, and keeps what has no name of ours', () => {
    expect(usageOf(null)).toBeUndefined();
    expect(usageOf([1])).toBeUndefined();
    expect(usageOf({ prompt_tokens: null })).toBeUndefined();
    expect(usageOf({ prompt_tokens: -1, completion_tokens: '7', queue_time: 0.5, service_tier: 'standard' })).toEqual({
      prompt_tokens: -1,
      output_tokens: 7,
      queue_time: 0.5,
      service_tier: 'standard',
    });
  });

  it('has the cost that the source states; a price of nothing is none', () => {
    expect(usageOf({ cost: 0.25 })).toEqual({ cost_usd: 0.25 });
    expect(usageOf({ cost: { input: 0.1, total: 0.3 } })).toMatchObject({ cost_usd: 0.3 });
    expect(usageOf({ cost_usd: 0 })).toBeUndefined();
  });

  it('is the same when it is read again', () => {
    const count = fc.option(fc.integer({ min: 0, max: 5000 }), { nil: undefined });
    const names = [
      'input_tokens',
      'prompt_tokens',
      'output_tokens',
      'total_tokens',
      'cached_tokens',
      'reasoning_tokens',
    ];
    fc.assert(
      fc.property(
        fc.record(Object.fromEntries([...names, 'cache_read_input_tokens'].map((name) => [name, count]))),
        (native) => {
          const once = usageOf(JSON.parse(JSON.stringify(native)))!;
          expect(usageOf({ ...once, total_tokens: undefined })).toMatchObject(
            Object.fromEntries(Object.entries(once).filter(([name]) => name !== 'total_tokens')),
          );
        },
      ),
    );
  });

  it('is given back as its source wrote it', () => {
    for (const native of [
      { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, prompt_tokens_details: { cached_tokens: 1 } },
      { prompt_tokens: 3, completion_tokens: 2, cached_tokens: 1, cost_usd: 0.1 },
      { input_tokens: 3, output_tokens: 2 },
    ]) {
      const ours = withOurs(native);
      expect(ours).toMatchObject({ ...native, input_tokens: 3, output_tokens: 2 });
      expect(withOurs(withoutOurs(ours))).toEqual(ours);
    }
    const openai = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    expect(withoutOurs(withOurs(openai))).toEqual(openai);
  });
});

describe('Of the usage that a stream says several times', () => {
  it('the later count holds, but for a 0 after a count', () => {
    expect(laterUsage({ input_tokens: 1200, output_tokens: 1 }, { input_tokens: 0, output_tokens: 9 })).toEqual({
      input_tokens: 1200,
      output_tokens: 9,
    });
    expect(laterUsage({ input_tokens: 1200 }, { input_tokens: 900 })).toEqual({ input_tokens: 900 });
    expect(laterUsage({ input_tokens: 0, output_tokens: 0 }, { input_tokens: 7, output_tokens: 3 })).toEqual({
      input_tokens: 7,
      output_tokens: 3,
    });
    expect(
      laterUsage(
        { prompt_tokens: 8, prompt_tokens_details: { cached_tokens: 4 } },
        { prompt_tokens: 0, prompt_tokens_details: { cached_tokens: 0 }, completion_tokens: 3 },
      ),
    ).toEqual({ prompt_tokens: 8, prompt_tokens_details: { cached_tokens: 4 }, completion_tokens: 3 });
    expect(laterUsage({ input_tokens: 3 }, null)).toEqual({ input_tokens: 3 });
    expect(laterUsage(null, { input_tokens: 3 })).toEqual({ input_tokens: 3 });
  });

  it('tokens that turn out to come from a cache are counted once', () => {
    const later = laterUsage(
      { input_tokens: 1200, cache_read_input_tokens: 0 },
      { input_tokens: 0, cache_read_input_tokens: 1200, output_tokens: 9 },
    );
    expect(usageOf(later)).toMatchObject({ input_tokens: 1200, cached_input_tokens: 1200 });
  });
});
