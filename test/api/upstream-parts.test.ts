import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { kindOf, mayReach } from '../../api/gateway/upstream/address.ts';
import { chunks, messageEvents, responseEvents } from '../../api/gateway/upstream/assemble.ts';
import { connectUpstream } from '../../api/gateway/upstream/connection.ts';
import { eventStream, eventsOf, wholeEvents } from '../../api/gateway/upstream/event-stream.ts';
import { costOf } from '../../api/gateway/upstream/price.ts';
import { findUpstream, readUpstreams } from '../../api/gateway/upstream/settings.ts';
import { answerTokens, responseChoice } from '../../api/gateway/upstream/token-ids.ts';
import { answerUsage, usageOf } from '../../ingest/formats/kit/usage.ts';
import { expectBelow } from '../support/measured.ts';
import { type OpenaiServer, openaiServer } from './support/openai-server.ts';

const PRIVATE_RANGES = [
  ...[[127], [10], [192, 168], [169, 254], [172, 16], [172, 31], [100, 64], [0]],
  ...[[192, 0, 0], [198, 18], [224], [255], [203, 0, 113]],
];
const hidden = fc
  .tuple(fc.constantFrom(...PRIVATE_RANGES), fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 4, maxLength: 4 }))
  .map(([start, rest]) => [...start, ...rest].slice(0, 4) as [number, number, number, number]);

/** One address in the ways that people write it. */
const forms = ([a, b, c, d]: readonly [number, number, number, number]): string[] => {
  const dotted = `${a}.${b}.${c}.${d}`;
  const [high, low] = [((a << 8) | b).toString(16), ((c << 8) | d).toString(16)];
  const number = ((a << 24) >>> 0) + (b << 16) + (c << 8) + d;
  const hosts = [
    dotted,
    String(number),
    `0x${number.toString(16)}`,
    `0${number.toString(8)}`,
    `${a}.${(b << 16) + (c << 8) + d}`,
  ];
  const six = [
    `::ffff:${dotted}`,
    `::ffff:${high}:${low}`,
    `64:ff9b::${high}:${low}`,
    `2002:${high}:${low}::1`,
    `0:0:0:0:0:ffff:${dotted}`,
  ];
  return [...hosts, ...six.map((address) => `[${address}]`)];
};

describe('P51: an address of a private network', () => {
  it('is seen in every way of writing it', () => {
    fc.assert(
      fc.property(hidden, (address) => {
        for (const form of forms(address)) {
          // As a URL would hand it to the connection.
          const host = new URL(`http://${form}/`).hostname.replace(/^\[|\]$/g, '');
          expect([form, kindOf(host)]).not.toEqual([form, 'public']);
          expect(mayReach('api.example.com', host, false)).toBe(false);
        }
      }),
    );
    for (const address of [
      '::1',
      '::',
      'fe80::1',
      'fd00::1',
      'fd00:ec2::254',
      'ff02::1',
      '::127.0.0.1',
      'fe80::1%eth0',
      'x',
    ])
      expect([address, kindOf(address)]).not.toEqual([address, 'public']);
    for (const address of ['8.8.8.8', '1.1.1.1', '2606:4700::1111', '172.32.0.1', '100.128.0.1', '::ffff:8.8.8.8'])
      expect([address, kindOf(address)]).toEqual([address, 'public']);
  });

  it('is reached only where the configuration names it, and metadata only where it is written out', () => {
    expect(mayReach('127.0.0.1', '127.0.0.1', false)).toBe(true);
    expect(mayReach('[::1]', '::1', false)).toBe(true);
    expect(mayReach('localhost', '127.0.0.1', false)).toBe(true);
    expect(mayReach('localhost', '10.0.0.5', false)).toBe(false);
    expect(mayReach('vllm', '172.18.0.4', false)).toBe(false);
    expect(mayReach('vllm', '172.18.0.4', true)).toBe(true);
    expect(mayReach('vllm', '169.254.169.254', true)).toBe(false);
    expect(mayReach('169.254.169.254', '169.254.169.254', false)).toBe(true);
  });

  describe('at the connection', () => {
    let server: OpenaiServer;
    beforeAll(async () => {
      server = await openaiServer();
    });
    afterAll(() => server.close());
    const models = { method: 'GET', path: '/models', headers: {} } as const;
    /** A resolver that answers with these in turn. */
    const resolver = (...answers: readonly string[][]) => {
      let asked = 0;
      return ((_: string, __: object, answer: (error: null, addresses: object[]) => void) =>
        answer(
          null,
          answers[Math.min(asked++, answers.length - 1)]!.map((address) => ({ address, family: 4 })),
        )) as never;
    };
    const at = (host: string, more: object = {}) =>
      readUpstreams({ one: { base_url: server.baseUrl.replace('127.0.0.1', host), ...more } }, {})[0]!;

    it('is refused, though the name looked well before; nothing is sent', async () => {
      const before = server.asked.length;
      for (const answers of [[['127.0.0.1']], [['203.0.113.9'], ['127.0.0.1']], [['10.0.0.1', '127.0.0.1']]]) {
        const connection = connectUpstream(at('rebound.example'), resolver(...answers));
        for (let tries = 0; tries < 2; tries++)
          await expect(connection.send(models)).rejects.toMatchObject({ code: 'upstream_failed' });
        connection.close();
      }
      expect(server.asked.length).toBe(before);
    });

    it('is reached where the configuration allows it', async () => {
      const connection = connectUpstream(at('inside.example', { private: true }), resolver(['127.0.0.1']));
      const answer = await connection.send(models);
      expect(answer.statusCode).toBe(200);
      answer.resume();
      connection.close();
    });
  });
});

describe('a stream', () => {
  const events = fc.array(
    fc.string({ unit: 'grapheme', minLength: 1 }).map((text) => JSON.stringify({ text })),
    { maxLength: 8 },
  );
  it('is read the same whatever pieces it comes in, and whatever ends its lines', () => {
    fc.assert(
      fc.property(events, fc.constantFrom('\n', '\r\n', '\r'), fc.array(fc.nat({ max: 40 })), (data, end, cuts) => {
        const bytes = Buffer.from(
          `${data.map((one) => `: note${end}event: x${end}data: ${one}${end}${end}`).join('')}x`,
        );
        const stream = eventStream();
        const found: string[] = [];
        let from = 0;
        for (const cut of cuts) {
          found.push(...stream.take(bytes.subarray(from, from + cut)));
          from += cut;
        }
        found.push(...stream.take(bytes.subarray(from)));
        expect(found).toEqual(data);
      }),
    );
  });

  it('cut behind whole events is the same stream, each part of it for itself', () => {
    const end = fc.constantFrom('\n', '\r\n', '\r');
    const event = fc.tuple(fc.string({ unit: fc.constantFrom('a', 'ü', ':', ' ') }), end);
    fc.assert(
      fc.property(fc.array(event), fc.array(fc.integer({ min: 1, max: 9 })), (events, cuts) => {
        const bytes = Buffer.from(events.map(([text, end]) => `data: ${text}${end}${end}`).join(''));
        const pieces: Uint8Array[] = [];
        for (let at = 0, i = 0; at < bytes.length; at += pieces.at(-1)!.length, i++)
          pieces.push(bytes.subarray(at, at + (cuts[i] ?? bytes.length)));
        const whole = wholeEvents(1_000);
        const taken = pieces.map((piece) => whole.take(piece).events);
        expect(taken.flatMap(eventsOf)).toEqual(eventsOf(bytes));
      }),
    );
  });

  it('is passed on as it came from an event on that is larger than the limit', () => {
    const whole = wholeEvents(8);
    const given = ['data: a\n\ndata', ': b', 'bbbb', 'b\n\ndata: c\n\n'].map((piece) => whole.take(Buffer.from(piece)));
    const texts = given.map(({ events, parts }) => [String(Buffer.from(events)), String(Buffer.concat(parts))]);
    expect(texts).toEqual([
      ['data: a\n\n', ''],
      ['', ''],
      ['', 'data: bbbbb'],
      ['', 'b\n\ndata: c\n\n'],
    ]);
  });

  it('of one long line costs as much for each piece, however many came before', () => {
    const [stream, piece] = [eventStream(), Buffer.alloc(1024, 'x')];
    const began = process.cpuUsage();
    stream.take(Buffer.from('data: '));
    for (let i = 0; i < 8_192; i++) stream.take(piece);
    expect(stream.take(Buffer.from('\n\n'))).toEqual(['x'.repeat(8 * 1024 * 1024)]);
    // 27 s where each piece looks through all before it.
    expectBelow(process.cpuUsage(began).user / 1000, 2_000);
  });

  it('of any JSON is put together without a fault', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.array(fc.record({ choices: fc.array(fc.jsonValue()) })), (any, near) => {
        for (const assembler of [chunks('chat.completion'), chunks('text_completion'), responseEvents()]) {
          for (const piece of [...any, ...near]) assembler.take(piece);
          JSON.stringify(assembler.body());
        }
      }),
    );
  });

  it('of texts, tool arguments and log-probabilities is what the pieces say together', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat({ max: 2 }), fc.string({ minLength: 1 })), { minLength: 1 }), (pieces) => {
        const assembler = chunks('chat.completion');
        for (const [index, text] of pieces) {
          const asked = { index: 0, function: { arguments: text } };
          const logprobs = { content: [{ token: text, logprob: -1 }] };
          expect(
            assembler.take({ id: 'c', choices: [{ index, delta: { content: text, tool_calls: [asked] }, logprobs }] }),
          ).toBe(true);
        }
        const { choices } = assembler.body() as {
          choices: {
            index: number;
            message: { content: string; tool_calls: { function: object }[] };
            logprobs: { content: object[] };
          }[];
        };
        for (const { index, message, logprobs } of choices) {
          const own = pieces.filter(([i]) => i === index).map(([, text]) => text);
          expect(message.content).toBe(own.join(''));
          expect(message.tool_calls[0]!.function).toEqual({ arguments: own.join('') });
          expect(logprobs.content).toHaveLength(own.length);
        }
      }),
    );
  });
});

describe('the usage of a stream', () => {
  const together = (assembler: ReturnType<typeof chunks>, pieces: readonly unknown[]) => {
    for (const piece of pieces) assembler.take(piece);
    return answerUsage(assembler.body());
  };
  it('of messages has the count of the start where the end says 0', () => {
    const start = {
      type: 'message_start',
      message: { type: 'message', usage: { input_tokens: 1200, output_tokens: 1 } },
    };
    const end = (usage: object) => ({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage });
    expect(together(messageEvents(), [start, end({ input_tokens: 0, output_tokens: 9 })])).toEqual({
      input_tokens: 1200,
      output_tokens: 9,
    });
    expect(together(messageEvents(), [start, end({ input_tokens: 1300, output_tokens: 9 })])).toMatchObject({
      input_tokens: 1300,
    });
  });
  it('of a chat has the larger count where a later chunk says 0, and the last where each chunk counts', () => {
    const chunk = (prompt_tokens: number, completion_tokens: number) => ({
      choices: [],
      usage: { prompt_tokens, completion_tokens },
    });
    expect(together(chunks('chat.completion'), [chunk(12, 0), chunk(12, 1), chunk(0, 2)])).toEqual({
      input_tokens: 12,
      output_tokens: 2,
    });
  });
  it('is read in the choices, where Moonshot has it: what was read once, what was written of each', () => {
    const last = (index: number, completion_tokens: number) => ({
      choices: [
        {
          index,
          delta: {},
          finish_reason: 'stop',
          usage: { prompt_tokens: 1000, completion_tokens, cached_tokens: 900 },
        },
      ],
    });
    const one = { input_tokens: 1000, output_tokens: 10, cached_input_tokens: 900 };
    expect(together(chunks('chat.completion'), [last(0, 10)])).toEqual(one);
    expect(together(chunks('chat.completion'), [last(0, 10), last(1, 7)])).toEqual({ ...one, output_tokens: 17 });
  });
});

describe('the price of a call', () => {
  it('is that of the reasoning too where it is billed beside the answer', () => {
    const usage = {
      ...{ prompt_tokens: 10120, completion_tokens: 1499, total_tokens: 14428 },
      prompt_tokens_details: { cached_tokens: 128 },
      completion_tokens_details: { reasoning_tokens: 2809 },
    };
    expect(costOf(usageOf(usage), { input: 0.15, cachedInput: 0.075, output: 0.6 })).toBe(0.0040932);
  });

  const price = { input: 2, cachedInput: 0.5, output: 8 };
  it('is counted from tokens, those from a cache apart', () => {
    const usage = usageOf({
      prompt_tokens: 1000,
      completion_tokens: 100,
      prompt_tokens_details: { cached_tokens: 600 },
    });
    expect(costOf(usage, price)).toBe(0.0019);
    expect(costOf(usage, { ...price, cachedInput: null })).toBe(0.0028);
  });
  it('has the tokens of a cache once, whether they are counted within the input or beside it', () => {
    const cache = { cache_read_input_tokens: 6, cache_creation_input_tokens: 1 };
    const counted = (usage: object) => {
      const { input_tokens, cached_input_tokens } = usageOf({ ...usage, ...cache })!;
      return [input_tokens, cached_input_tokens];
    };
    expect(counted({ input_tokens: 3, output_tokens: 1 })).toEqual([10, 6]);
    // LiteLLM has both spellings in one.
    expect(counted({ prompt_tokens: 10, completion_tokens: 1 })).toEqual([10, 6]);
  });
  it('is unknown, not 0, where a count or the price is', () => {
    expect(costOf(usageOf({ prompt_tokens: 10, completion_tokens: 1 }), null)).toBe(null);
    expect(costOf(usageOf({ prompt_tokens: 10 }), price)).toBe(null);
    expect(costOf(usageOf(undefined), price)).toBe(null);
    expect(costOf(usageOf({ prompt_tokens: -1, completion_tokens: 1 }), price)).toBe(null);
    expect(costOf(usageOf({ prompt_tokens: 10 }), price, true)).toBe(0.00002);
  });
});

describe('token ids and log-probabilities', () => {
  /** As vLLM 0.32 on a processor ended streams of the Responses API, with six tokens and the log-probabilities of five. */
  const sampled = [
    ['It', -0.0038507848512381315],
    [' is', -0.002739250659942627],
    [' ', -0.0016017238376662135],
    ['0', -2.4520654678344727],
    ['.', -0.001036107074469328],
    ['<|im_end|>', -0.0012165057705715299],
  ] as const;
  const response = (tokens: number) => ({
    output: [
      {
        type: 'message',
        content: [
          {
            type: 'output_text',
            text: 'It is 0.',
            logprobs: sampled.slice(0, tokens).map(([token, logprob]) => ({ token, logprob, top_logprobs: [] })),
          },
        ],
      },
    ],
    input_messages: [{ type: 'raw_message_tokens', tokens: [1, 317, 201] }],
    output_messages: [{ type: 'raw_message_tokens', tokens: [394, 355, 223, 18, 16, 2] }],
  });
  const tokens = (many: number) =>
    answerTokens([responseChoice(response(many))], {
      upstream: { tokenIds: 'vllm', logprobs: 'processed' },
      request: { temperature: 1 },
      response: response(many),
    }).tokens[0];

  it('are recorded together where there is one log-probability for each token, and the ids alone where one is missing', () => {
    expect(tokens(6)).toMatchObject({ token_ids: [394, 355, 223, 18, 16, 2], logprobs: sampled.map(([, x]) => x) });
    expect(tokens(5)).toEqual({ token_ids: [394, 355, 223, 18, 16, 2] });
  });
});

describe('the setting upstreams', () => {
  const one = (fields: object) =>
    readUpstreams({ main: { base_url: 'https://a.example/v1/', ...fields } }, { K: 'secret' });

  it('names servers, their keys by variable, their models', () => {
    expect(one({ api_key_env: 'K', models: ['m'] })).toEqual([
      {
        name: 'main',
        baseUrl: 'https://a.example/v1',
        key: 'secret',
        keyHeader: 'authorization',
        models: ['m'],
        prices: {},
        isPrivate: false,
        timeoutMs: 600_000,
        tokenIds: null,
        logprobs: 'raw',
        checkpoints: {},
        policies: [],
      },
    ]);
    expect(readUpstreams(null, {})).toEqual([]);
    expect(
      readUpstreams(null, { TROUPE_UPSTREAM_BASE_URL: 'http://127.0.0.1:11434/v1', TROUPE_UPSTREAM_API_KEY: 'k' }),
    ).toMatchObject([{ name: 'default', key: 'k', models: ['*'] }]);
  });

  it.each([
    [{ base_url: 'ftp://a.example' }, 'upstreams.main.base_url'],
    [{ base_url: 'https://a.example', policies: ['solver'] }, 'upstreams.main.token_ids'],
    [{ base_url: 'https://a.example', token_ids: 'vllm', policies: 'solver' }, 'upstreams.main.policies'],
    [{ base_url: 'https://me:hunter2@a.example' }, 'upstreams.main.base_url'],
    [{ base_url: 'https://a.example/?key=x' }, 'upstreams.main.base_url'],
    [{ api_key: 'sk-x' }, 'upstreams.main.api_key'],
    [{ modles: [] }, 'upstreams.main.modles'],
    [{ models: 'm' }, 'upstreams.main.models'],
    [{ prices: { m: { input: -1, output: 1 } } }, 'upstreams.main.prices.m'],
    [{ prices: { m: 3 } }, 'upstreams.main.prices.m'],
    [{ private: 'yes' }, 'upstreams.main.private'],
    [{ timeout_s: 0 }, 'upstreams.main.timeout_s'],
  ])('refuses %j, and shows no secret', (fields, field) => {
    let thrown: unknown;
    try {
      one(fields);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toMatchObject({ code: 'config_invalid', detail: { field } });
    expect(String(thrown)).not.toMatch(/hunter2|sk-x|key=x/);
  });

  it('finds the listed name first, then the server named, then the longest beginning', () => {
    const list = readUpstreams(
      {
        a: { base_url: 'http://a.example', models: ['b/x', 'gpt*'] },
        b: { base_url: 'http://b.example', models: ['gpt-4*'] },
        c: { base_url: 'http://c.example', models: ['*'] },
      },
      {},
    );
    const found = (name: string) => {
      const { upstream, model } = findUpstream(list, name)!;
      return [upstream.name, model];
    };
    expect(found('b/x')).toEqual(['a', 'b/x']);
    expect(found('b/y/z')).toEqual(['b', 'y/z']);
    expect(found('gpt-3')).toEqual(['a', 'gpt-3']);
    expect(found('gpt-4o')).toEqual(['b', 'gpt-4o']);
    expect(found('else')).toEqual(['c', 'else']);
    expect(findUpstream(list.slice(0, 2), 'else')).toBe(null);
    expect(() =>
      readUpstreams({ a: { base_url: 'http://a', models: ['m'] }, b: { base_url: 'http://b', models: ['m'] } }, {}),
    ).toThrow(/upstreams\.b\.models/);
  });
});
