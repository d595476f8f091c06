import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CHATML_ROLES, CHATML_SPECIAL, CHATML_TEMPLATE } from '../../trainer/model/tokens/chatml.ts';
import { openTokenizer, type Tokenizer, wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { trainBpe } from '../../trainer/model/tokens/tokenizer-training.ts';
import { callReader } from '../../trainer/model/tokens/tool-calls.ts';
import { type PreparedSample, toChoice } from '../../trainer/sample/infer-request.ts';
import type { TextPart } from '../../trainer/sample/infer-wire.ts';
import { textStream } from '../../trainer/sample/text-stream.ts';

const bytes = openTokenizer(
  trainBpe(['a small text with <tool_call> and {"name": "f", "arguments": {}} and an END'], {
    vocabSize: 330,
    special: CHATML_SPECIAL,
    roles: CHATML_ROLES,
  }),
);
const words = openTokenizer(wordTokenizer(['one', 'two', 'three', 'END'], ['</s>'], { eos: '</s>' }));

/** Pieces with `▁` for a space, and a token for each byte: a run of bytes reads as characters, or each as U+FFFD, by all of it. */
const pieces = openTokenizer({
  tokenizer: {
    normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
      ],
    },
    model: {
      type: 'BPE',
      byte_fallback: true,
      vocab: Object.fromEntries(
        ['</s>', '▁t', 'END', 'e', '<', '}', '<0x41>', '<0xC3>', '<0xA9>', '<0xFF>', '<0x45>'].map((piece, id) => [
          piece,
          id,
        ]),
      ),
      merges: [],
    },
    added_tokens: [{ id: 0, content: '</s>', special: true, normalized: false }],
  },
  config: { eos_token: '</s>' },
});

/** What a client reads along of a sample, and the text of the whole. */
function readAlong(
  tokenizer: Tokenizer,
  tokenIds: readonly number[],
  { stops = [], tools = false }: { stops?: readonly string[]; tools?: boolean } = {},
) {
  const request = { promptIds: [1], n: 1, maxTokens: 100, temperature: 1, seed: 0, stopIds: [tokenizer.eos as number] };
  const readCalls = tools ? callReader(CHATML_TEMPLATE) : null;
  const prepared: PreparedSample = { request, stops, callEnd: null, tokenTexts: false, readCalls };
  const parts: TextPart[] = [];
  const drew = textStream(prepared, tokenizer, (part) => parts.push(part));
  for (const i of tokenIds.keys()) drew(0, tokenIds.slice(0, i + 1));
  const choice = toChoice(
    { tokenIds, logprobs: tokenIds.map(() => -1), finish: tokenIds.at(-1) === tokenizer.eos ? 'stop' : 'length' },
    prepared,
    tokenizer,
  );
  let at = 0;
  for (const part of parts) {
    expect(part.at).toBe(at);
    at += part.text.length;
  }
  return { parts, read: parts.map(({ text }) => text).join(''), whole: choice.called?.content ?? choice.text };
}

describe('the text of a sample while it grows', () => {
  it('is the beginning of what the response holds, whatever is drawn', () => {
    for (const tokenizer of [bytes, words, pieces]) {
      const ids = fc.array(fc.integer({ min: 0, max: tokenizer.vocabSize - 1 }), { minLength: 1, maxLength: 30 });
      fc.assert(
        fc.property(ids, fc.subarray(['END', ' t', 'e<', '}']), fc.boolean(), (drawn, stops, tools) => {
          const end = drawn.indexOf(tokenizer.eos as number);
          const { read, whole } = readAlong(tokenizer, end < 0 ? drawn : drawn.slice(0, end + 1), { stops, tools });
          expect(whole.startsWith(read), JSON.stringify([read, whole])).toBe(true);
        }),
        { numRuns: 300, seed: 3 },
      );
    }
  });

  it('comes token by token, and is whole but for the end', () => {
    const written = 'a small text with é, € and 😀 in it';
    const { parts, read } = readAlong(bytes, [...bytes.encode(written), bytes.eos as number]);
    expect(read).toBe(written);
    expect(parts.length).toBeGreaterThan(8);
    expect(readAlong(words, words.encode('one two three')).parts.map(({ text }) => text)).toEqual([
      'one',
      ' two',
      ' three',
    ]);
  });

  it('holds back what may be the beginning of a stop text, and nothing else', () => {
    const { read, whole } = readAlong(bytes, bytes.encode('an E, an EN, an END and more'), { stops: ['END'] });
    expect([read, whole]).toEqual(['an E, an EN, an ', 'an E, an EN, an ']);
    expect(readAlong(bytes, bytes.encode('an EN'), { stops: ['END'] }).read).toBe('an ');
  });

  it('holds back what may be the call of a tool', () => {
    const written = 'I ask.\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>';
    const { read, whole } = readAlong(bytes, bytes.encode(written), { tools: true });
    expect([read, whole]).toEqual(['I ask.', 'I ask.']);
    expect(readAlong(bytes, bytes.encode(written)).read).toBe(written);
  });
});
